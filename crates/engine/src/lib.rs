//! The medium: forwards frames between links and applies impairments.
//!
//! The models are pure: they take the frame, the time and a random number, and return a
//! decision. They do no I/O and read no clock. The engine does the waiting, over any
//! [`FrameIo`] backend.

mod change;
mod channel;
mod codel;
mod correlated;
mod corrupt;
mod csma;
mod decisions;
mod delay;
mod departure_queue;
mod distribution;
mod duplicate;
mod engine;
mod event_queue;
mod flow;
mod flow_decisions;
mod forwarding_table;
mod grant;
mod groups;
mod impairment;
mod in_flight;
mod io;
mod keys;
mod link_pipe;
mod loss;
mod membership;
mod observer;
mod outage;
mod priority;
mod querier;
mod queue;
mod ramp;
mod red;
mod remote;
mod reorder;
mod replay;
mod segment;
mod serialiser;
mod server;
mod shared_medium;
mod slot;
mod spec;
mod stage;
mod stalls;
mod states;
mod step;
mod timer_wheel;
mod totals;
mod trace;
mod train;

pub use change::{Change, Direction};
pub use channel::Channel;
pub use codel::Codel;
pub use corrupt::Corrupt;
pub use csma::{Arrival, Attempt, Csma, CsmaSpec, Ending, Usage};
pub use decisions::Decision;
pub use delay::Delay;
pub use distribution::{Distribution, Table, TableError};
pub use duplicate::Duplicate;
pub use engine::{Engine, Outcome, monotonic_now};
pub use flow::Flow;
pub use flow_decisions::Position;
pub use forwarding_table::MOST_ADDRESSES;
pub use grant::{Grant, GrantSpec};
pub use groups::{Groups, MOST_GROUPS};
pub use impairment::Impairment;
pub use io::{
    Attach, DropCounters, FrameBackend, FrameIo, FramePath, Packet, Received, Refused, Ring,
    Tallies, Taps, Waker,
};
pub use keys::{Contradiction, Contradictions, Key, Keys, Kind, Model, Quantity, time_text};
pub use link_pipe::{LinkPipe, LinkState};
pub use loss::{GilbertElliott, Loss, LossUnit, Markov, RandomLoss};
pub use observer::{Observer, Place};
pub use outage::{Outage, Outages};
pub use priority::Priority;
pub use queue::{Discipline, Limit, QueueSpec};
pub use red::Red;
pub use remote::{LinkStates, Remote};
pub use reorder::Reorder;
pub use replay::{Decided, Recorded, Replay};
pub use segment::Segment;
pub use serialiser::{Cell, Framing, Serialiser, SignedBytes};
pub use server::{Scheduler, Transmission};
pub use slot::{Slot, Slotting};
pub use spec::{Delivery, Drop, Endpoint, QUERY_INTERVAL, SegmentSpec};
pub use stage::ChannelWait;
pub use stalls::Stalls;
pub use states::{Promotion, Service, Slow, State, States, StatesSpec};
pub use step::Cause;
pub use totals::{Interval, Totals};
pub use trace::{Trace, TraceError};
pub use train::Trains;

/// Time on the run's clock, in nanoseconds.
pub type Instant = u64;

/// One frame as on the wire, including the link header.
pub type Frame = std::rc::Rc<[u8]>;
