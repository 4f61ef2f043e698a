//! The result of an exchange.

use units::Instant;

/// Result of a successful exchange.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When the payload was complete, if the driver receives it.
    pub received: Option<Instant>,
}
