//! The radio behind a pipe.

use crate::step::TransitFrame;
use crate::{Direction, States};
use std::collections::VecDeque;

/// The radio of a link's node, shared by both its directions, for frames in one direction.
pub(crate) struct Radio<'a> {
    pub states: &'a mut States,
    /// Frames to the device that wait until it receives.
    pub asleep: &'a mut VecDeque<TransitFrame>,
    pub direction: Direction,
}
