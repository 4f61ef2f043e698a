//! A link, and what it does to frames: impairments, queues, shared channels.
//!
//! Pure: settings, frames, times and random numbers in, decisions and steps out. Nothing here
//! does I/O, reads a clock or starts a thread. `engine` does the waiting.

mod carried;
mod cellular_trace;
mod channel;
mod codel;
mod correlated;
mod corrupt;
mod csma;
mod decisions;
mod delay;
mod departure_queue;
mod direction;
mod distribution;
mod duplicate;
mod flow;
mod flow_decisions;
mod frame_share;
mod grant;
mod handover;
mod impairment;
mod keys;
mod link;
mod link_pipe;
mod lora;
mod loss;
mod lowpan;
mod outage;
mod path_mtu;
mod port_vlans;
mod queue;
mod radio_filter;
mod ramp;
mod reception;
mod red;
mod reorder;
mod replay;
mod serialiser;
mod server;
mod shared_channel;
mod shared_medium;
mod slot;
mod stage;
mod states;
mod step;
#[cfg(test)]
mod test_times;
mod totals;
mod trace;
mod train;

pub use carried::Carried;
pub use cellular_trace::{CellularTrace, CellularTraceError, LightTrace, SizeDelays};
pub use channel::{Channel, ChannelEvent, Heard};
pub use codel::Codel;
pub use corrupt::{Corrupt, Corruption};
pub use csma::{Arrival, Attempt, Csma, CsmaSpec, Ending, Usage};
pub use decisions::Decision;
pub use delay::Delay;
pub use direction::Direction;
pub use distribution::{Distribution, Table, TableError};
pub use duplicate::{Duplicate, Duplication};
pub use flow::Flow;
pub use flow_decisions::Position;
pub use frame_share::FrameShare;
pub use grant::{Grant, GrantSpec};
pub use handover::{Handover, Handovers};
pub use impairment::Impairment;
pub use keys::{Contradiction, Contradictions, Key, Keys, Kind, Model, Quantity, time_text};
pub use link::Link;
pub use link_pipe::{LinkPipe, LinkState};
pub use lora::{Bandwidth, CodingRate, Lora, LoraSpec};
pub use loss::{GilbertElliott, Loss, LossUnit, Markov, RandomLoss};
pub use lowpan::{Compression, FrameNumbers, LOWPAN_MTU, MacAddresses, mac_frames};
pub use outage::{Outage, Outages};
pub use path_mtu::PathMtu;
pub use port_vlans::{DEFAULT_VLAN, PortVlans, VLANS};
pub use queue::{Discipline, Limit, QueueSpec};
pub use radio_filter::RadioFilter;
pub use reception::{NodePosition, PairLoss, PathLoss, Reception};
pub use red::Red;
pub use reorder::Reorder;
pub use replay::{Decided, Recorded, Replay};
pub use serialiser::{Cell, Framing, Serialiser, SignedBytes};
pub use server::{SCHEDULERS, Scheduler, Transmission};
pub use shared_channel::SharedChannel;
pub use slot::{Slot, Slotting};
pub use stage::ChannelWait;
pub use states::{HalfDuplex, Promotion, Reach, Service, Slow, State, States, StatesSpec};
pub use step::{Cause, StampedFrame, Step, TransitFrame};
pub use totals::{Interval, Totals};
pub use trace::{Trace, TraceError};
pub use train::Trains;

/// One frame as on the wire, including the link header.
pub type Frame = std::rc::Rc<[u8]>;
