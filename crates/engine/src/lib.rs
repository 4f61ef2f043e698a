//! Networks of emulated links, and the engine that carries frames over them.
//!
//! A [`Segment`] is pure: frames and times in, deliveries out. The [`Engine`] does the waiting,
//! over any [`FrameIo`] backend.

mod change;
mod engine;
mod event_queue;
mod in_flight;
mod in_flight_queue;
mod io;
mod observer;
mod priority;
mod remote;
mod segment;
mod spec;
mod stalls;
mod switch;
mod timer_wheel;

pub use change::Change;
pub use engine::{Engine, Outcome, monotonic_now};
pub use io::{
    Attach, DropCounters, FrameBackend, FrameIo, FramePath, Packet, Received, Refused, Ring,
    Tallies, Taps, Waker,
};
pub use observer::{Observer, Place};
pub use priority::Priority;
pub use remote::{LinkStates, Remote};
pub use segment::Segment;
pub use spec::{Delivery, Drop, Endpoint, SegmentSpec};
pub use stalls::Stalls;
