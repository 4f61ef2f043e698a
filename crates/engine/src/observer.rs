//! Interface for observers of the medium, such as captures and counters.

use crate::{Delivery, Drop};
use link::{Decided, Direction, Interval};
use units::Instant;

/// Attachment of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Index of the segment.
    pub segment: usize,
    /// Index of the endpoint within the segment.
    pub endpoint: usize,
}

/// An interval of counters and settings of one direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkInterval {
    /// The link.
    pub place: Place,
    /// Its direction.
    pub direction: Direction,
    /// The interval.
    pub interval: Interval,
}

/// Receives events of the medium. All calls come from the engine's thread, between frames:
/// return quickly.
pub trait Observer: Send + 'static {
    /// The measurement begins; earlier events belong to setup.
    fn begin(&mut self, at: Instant);
    /// The measurement ends; later events belong to teardown.
    fn end(&mut self, at: Instant);
    /// A node sent `frame`.
    fn sent(&mut self, from: Place, frame: &[u8], at: Instant);
    /// The medium delivered a frame to a node at `at`; the intended time is
    /// `delivery.intended`.
    fn delivered(&mut self, segment: usize, delivery: &Delivery, at: Instant);
    /// A frame was dropped.
    fn dropped(&mut self, segment: usize, drop: Drop, at: Instant);
    /// A random decision was made about a frame.
    fn decided(&mut self, segment: usize, decided: Decided) {
        let _ = (segment, decided);
    }
    /// Intervals of links have ended: every ten seconds, and at the end of the measurement.
    fn intervals(&mut self, ended: Vec<LinkInterval>) {
        let _ = ended;
    }
    /// The kernel rejected a frame for a node.
    fn refused(&mut self, to: Place, at: Instant);
}
