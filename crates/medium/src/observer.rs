//! Whoever looks on while the medium works.

use crate::{Decided, Delivery, Drop, Instant, Segments};

/// Where a port is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The segment's index.
    pub segment: usize,
    /// The endpoint's index within it.
    pub endpoint: usize,
}

/// Whoever wants to know what the medium does. All calls come from the
/// engine's thread, between frames: be quick.
pub trait Observer: Send + 'static {
    /// Measuring begins now; what came before was setting up.
    fn begin(&mut self, at: Instant);
    /// Measuring ends now; what comes after is tearing down.
    fn end(&mut self, at: Instant);
    /// A node sent `frame`.
    fn sent(&mut self, from: Place, frame: &[u8], at: Instant);
    /// A node sent TCP uncut: as many frames of a wire.
    fn sent_segments(&mut self, from: Place, segments: &Segments, at: Instant) {
        segments.each().for_each(|segment| self.sent(from, &segment.first(), at));
    }
    /// A node was given a frame, or segments as one, at `at`; it should have been at
    /// `delivery.intended`.
    fn delivered(&mut self, segment: usize, delivery: &Delivery, at: Instant);
    /// A frame went no further.
    fn dropped(&mut self, segment: usize, drop: Drop, at: Instant);
    /// Chance has decided about a frame.
    fn decided(&mut self, segment: usize, decided: Decided) {
        let _ = (segment, decided);
    }
    /// The kernel would not take a frame for a node.
    fn refused(&mut self, to: Place, at: Instant);
}
