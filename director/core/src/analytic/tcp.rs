//! A message over an established TCP connection.

use super::case::rounds;
use crate::conditions::Conditions;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;

/// Headers of Ethernet, IPv4 and TCP with time stamps, and of the last two alone, in bytes.
const TCP_LINK_HEADERS: f64 = 66.0;
const TCP: f64 = 52.0;
/// Initial congestion window, in segments (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;
/// Minimum retransmission timeout of TCP in ms (Linux; RFC 6298 has 1 s), and the maximum.
pub(super) const MIN_TIMEOUT: f64 = 200.0;
const MAX_TIMEOUT: f64 = 120_000.0;

/// A message over an established TCP connection.
pub struct Stream {
    /// Segments sent, with retransmissions; then acknowledgements.
    sent: f64,
    acks: f64,
    segment: f64,
    /// Delays by losses at the 50th, 90th and 99th percentile, in ms.
    pub waits: [f64; 3],
}

impl Stream {
    /// `bytes` with its overhead above TCP.
    pub fn new(bytes: f64, loss: f64, here: &Conditions) -> Self {
        let room = (here.mtu - TCP).max(1.0);
        let segments = (bytes / room).ceil().max(1.0);
        let sent = segments / (1.0 - loss);
        let trip = here.rtt.as_ms();
        let timeout = MIN_TIMEOUT.max(2.0 * trip);
        // The window under loss (Mathis and others, 1997), and its doublings until then.
        let window = (1.22 / loss.max(1e-6).sqrt()).max(2.0);
        let held = (segments / FIRST_WINDOW).log2().max(segments / window - 1.0).max(0.0);
        let waits = [0.5, 0.9, 0.99].map(|chance| {
            // A loss costs a timeout, which doubles with each lost retransmission.
            let again = rounds(segments, loss, chance) - 1.0;
            let wait = timeout * (2_f64.powf(again.min(9.0)) - 1.0);
            // After nine doublings the next one would exceed the maximum.
            let wait = wait + (again - 9.0).max(0.0) * MAX_TIMEOUT;
            // Head-of-line blocking: messages behind it wait as long.
            trip * held + wait * (1.0 + (here.messages_s * wait / 1e3).min(1.0))
        });
        // One for every second segment (RFC 5681, 4.2), and for the last one.
        Self { sent, acks: sent / 2.0 + 0.5, segment: bytes / segments, waits }
    }

    /// Channel time in ms, and bytes.
    pub fn cost(&self, here: &Conditions) -> (f64, f64) {
        let bytes = self.sent * (self.segment + TCP_LINK_HEADERS) + self.acks * TCP_LINK_HEADERS;
        (bytes * 8e3 / here.rate_bit_s.max(1.0), bytes)
    }
}
