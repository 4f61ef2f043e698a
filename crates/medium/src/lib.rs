//! The medium: what carries frames between links, and what it does to them.
//!
//! The models are pure: they take the frame, the time and a draw, and answer
//! with a fate. Nothing here reads a clock; the engine does the waiting.

mod direction;
mod groups;
mod impairment;
mod segment;
mod serialiser;
mod train;

pub use direction::{Direction, Fate};
pub use groups::Groups;
pub use impairment::{Distribution, Impairment, LossUnit};
pub use segment::{Channel, Delivery, Drop, Endpoint, Segment, SegmentSpec};
pub use serialiser::Serialiser;
pub use train::Trains;

/// A moment on the run's clock, in nanoseconds.
pub type Instant = u64;
