//! The medium: what carries frames between links, and what it does to them.
//!
//! The models are pure: they take the frame, the time and a draw, and answer
//! with a fate. They do no I/O and read no clock; the engine does the waiting,
//! over whatever [`FrameIo`] carries frames to nodes.

mod direction;
mod engine;
mod groups;
mod impairment;
mod io;
mod priority;
mod segment;
mod serialiser;
mod stalls;
mod train;

pub use direction::{Direction, Fate, Totals};
pub use engine::{Engine, Observer, Outcome, Place, monotonic_now};
pub use groups::Groups;
pub use impairment::{Distribution, Impairment, LossUnit};
pub use io::{
    Carrier, Corrections, FrameIo, FramePath, Overruns, Packet, Received, Ring, Tallies, Tally,
    Taps, Waker,
};
pub use priority::Priority;
pub use segment::{Channel, Delivery, Drop, Endpoint, Segment, SegmentSpec};
pub use serialiser::Serialiser;
pub use stalls::Stalls;
pub use train::Trains;

/// A moment on the run's clock, in nanoseconds.
pub type Instant = u64;
