//! How long a sender waits for an acknowledgement.

use crate::Span;
use crate::pace::TICK;

/// Weight of the variation in the timeout. RFC 6298 uses 4, to keep retransmissions out of a
/// congested network; here sending is paced, and a timeout first sends one chunk. A test holds the
/// number of frames to 1.25 times the bound at 30 % loss.
const SPREAD: f64 = 3.0;
/// Maximum number of times that a timeout is doubled.
pub(super) const MAX_DOUBLED: u32 = 5;

/// The times until responses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Responses {
    /// Timeout before the first one.
    initial: Span,
    /// Their smoothed time and its variation in ns (RFC 6298).
    mean: Option<(f64, f64)>,
}

impl Responses {
    /// None yet; until then the timeout is `initial`.
    pub fn new(initial: Span) -> Self {
        Self { initial, mean: None }
    }

    /// Acknowledgement timeout after `tries` timeouts.
    pub fn timeout(&self, tries: u32) -> Span {
        let first = match self.mean {
            // Each end can be late by a tick.
            Some((mean, variation)) => Span::from_ns_f64(mean + SPREAD * variation).max(2 * TICK),
            None => self.initial,
        };
        // The first timeouts may be random losses: double only from the second on.
        first * (1 << tries.saturating_sub(1).min(MAX_DOUBLED))
    }

    /// Records the time until a response (RFC 6298, 2).
    pub fn record(&mut self, time: Span) {
        let seen = time.as_ns_f64();
        self.mean = Some(match self.mean {
            Some((mean, variation)) => {
                let off = (mean - seen).abs();
                (0.875 * mean + 0.125 * seen, 0.75 * variation + 0.25 * off)
            }
            None => (seen, seen / 2.0),
        });
    }
}
