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
mod moderation;
mod observer;
mod outcome;
mod overflow;
mod priority;
mod remote;
mod segment;
mod shared_observer;
mod spec;
mod stalls;
mod switch;
#[cfg(test)]
mod test_times;
mod threads;
mod timer_wheel;
mod vlan_ports;
mod worker;

pub use change::Change;
pub use engine::Engine;
pub use io::{
    Attach, DropCounters, FrameBackend, FrameIo, FramePath, Packet, Received, Refused, Ring,
    Tallies, Taps, Waker,
};
pub use observer::{LinkInterval, Observer, Place};
pub use outcome::Outcome;
pub use overflow::Overflow;
pub use priority::Priority;
pub use remote::{LinkStates, Remote};
pub use segment::Segment;
pub use spec::{Delivery, Drop, Endpoint, SegmentSpec, VlanPort};
pub use stalls::Stalls;
pub use threads::Threads;
