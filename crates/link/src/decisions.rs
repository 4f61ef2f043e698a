//! Random impairment decisions for each frame of a direction.

use crate::Frame;
use units::{Draw, Instant, Span};

/// A frame to decide about.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    pub frame: &'a Frame,
    /// Its number in its flow.
    pub index: u64,
    pub now: Instant,
    /// Random numbers of its flow.
    pub draw: Draw,
}

/// Random decisions about one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decision {
    /// The frame is lost.
    pub lost: bool,
    /// The frame is duplicated.
    pub duplicated: bool,
    /// The frame is not delayed, and so overtakes others.
    pub overtakes: bool,
    /// Position of the flipped bit, as a fraction of the frame's length in units of 2^-32.
    pub corrupt: Option<u32>,
    /// Time from the end of serialisation to delivery.
    pub delay: Span,
}
