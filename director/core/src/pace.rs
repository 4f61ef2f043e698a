//! Pacing of a sender.

use crate::{Instant, Span};

/// Timer granularity: a timer can fire this late.
pub const TICK: Span = Span::from_ms(2);

/// Limits sending to a data rate.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    rate_bit_s: f64,
    below: usize,
    /// Time on air of datagrams that may go at once after a pause, in bytes.
    burst: usize,
    next_at: Instant,
}

impl Pace {
    /// `below` is the header size below the datagram, in bytes on the wire.
    pub fn new(rate_bit_s: f64, below: usize) -> Self {
        Self { rate_bit_s: rate_bit_s.max(1.0), below, burst: 0, next_at: Instant::START }
    }

    /// The same, but after a pause `burst` bytes go at once.
    #[must_use]
    pub fn with_burst(self, burst: usize) -> Self {
        Self { burst, ..self }
    }

    /// Changes the rate of the datagrams that follow.
    pub fn set_rate(&mut self, rate_bit_s: f64) {
        self.rate_bit_s = rate_bit_s.max(1.0);
    }

    /// Earliest time of the next datagram.
    pub fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Time on air of a datagram of `bytes`.
    pub fn airtime(&self, bytes: usize) -> Span {
        self.takes((bytes + self.below) as f64)
    }

    fn takes(&self, bytes: f64) -> Span {
        Span::from_ns_f64(bytes * 8e9 / self.rate_bit_s)
    }

    /// Records that the last datagram is longer by `bytes`.
    pub fn joined(&mut self, bytes: usize) {
        self.next_at += self.takes(bytes as f64);
    }

    /// Records that a datagram of `bytes` was sent.
    pub fn sent(&mut self, bytes: usize, now: Instant) {
        self.charge(bytes, 1.0, now);
    }

    /// Records that a datagram of `bytes` was sent that uses `factor` times its own time on air.
    pub fn charge(&mut self, bytes: usize, factor: f64, now: Instant) {
        let airtime = self.takes((bytes + self.below) as f64 * factor);
        // After a late wake-up, catch up on one datagram or one timer tick, not more.
        let behind = now - airtime.max(TICK).max(self.takes(self.burst as f64));
        self.next_at = self.next_at.max(behind) + airtime;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_goes_than_the_rate_and_little_is_made_up_for() {
        // 100 bytes and 25 bytes of headers take 1 ms at 1 Mbit/s.
        let mut pace = Pace::new(1e6, 25);
        pace.sent(100, Instant::START);
        assert_eq!(pace.next_at(), Instant::from_ns(1_000_000));
        pace.sent(100, Instant::from_ns(1_500_000));
        assert_eq!(pace.next_at(), Instant::from_ns(2_000_000));
        pace.sent(100, Instant::from_ns(90_000_000));
        assert_eq!(pace.next_at(), Instant::from_ns(89_000_000));
    }
}
