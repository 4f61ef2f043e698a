//! How long a sender waits for an acknowledgement.

use super::settings::Response;
use crate::pace::TICK;
use crate::silence::Silence;
use crate::{Instant, Span};

/// Weight of the variation in the timeout. RFC 6298 uses 4, to keep retransmissions out of a
/// congested network; here sending is paced, and a timeout first sends one chunk. A test holds the
/// number of frames to 1.25 times the bound at 30 % loss.
const SPREAD: f64 = 3.0;
/// Least variation of response times, as a share of them: on a path whose round trips are all alike, a
/// queue that begins to grow would have everything sent twice.
const LEAST_SPREAD: f64 = 1.0 / 8.0;
/// Maximum number of times that a timeout is doubled: random losses in a row are no reason for more.
pub(super) const MAX_DOUBLED: u32 = 5;
/// Responses after which their times are known.
const KNOWN: u32 = 8;

/// The times until responses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Responses {
    /// Timeout before the first one.
    initial: Span,
    /// See [`ArqSettings::at_first`](super::ArqSettings::at_first), and the number of responses.
    at_first: Span,
    count: u32,
    /// Their smoothed time and its variation in ns (RFC 6298).
    mean: Option<(f64, f64)>,
    /// Timeouts in a row since the last response, and the time of the last one.
    silence: Silence,
    late_at: Instant,
}

impl Responses {
    /// None yet; until then the timeout is `initial`, and until some are known `at_first` or more.
    pub fn new(initial: Span, at_first: Span) -> Self {
        let (silence, late_at) = (Silence::new(), Instant::START);
        Self { initial, at_first, count: 0, mean: None, silence, late_at }
    }

    /// What was sent at `sent_at` has no response in time. Later timeouts are longer until there is one,
    /// also those of other messages (RFC 6298, 5.5 to 5.7): otherwise each message would be repeated
    /// before its response can arrive, and no response would say how long that takes.
    pub fn late(&mut self, sent_at: Instant, now: Instant) {
        if self.silence.is_none() || sent_at >= self.late_at {
            self.silence.timeout();
            self.late_at = now;
        }
    }

    /// Whether nothing comes back: one message at a time is to find out when something does.
    pub fn is_silent(&self) -> bool {
        self.silence.is_silent()
    }

    /// Whether there are more timeouts in a row than losses explain.
    pub fn are_unexplained(&self) -> bool {
        self.silence.unexplained(0) > 0
    }

    /// Acknowledgement timeout after `tries` timeouts.
    pub fn timeout(&self, tries: u32) -> Span {
        let first = match self.mean {
            // Each end can be late by a tick.
            Some((mean, variation)) => {
                let spread = (SPREAD * variation).max(LEAST_SPREAD * mean);
                Span::from_ns_f64(mean + spread).max(2 * TICK)
            }
            None => self.initial,
        };
        let first = if self.count < KNOWN { first.max(self.at_first) } else { first };
        // The first timeouts may be random losses: double only from the second on.
        let tries = self.silence.unexplained(tries);
        let doubled = first * (1 << tries.saturating_sub(1).min(MAX_DOUBLED));
        doubled.max(self.silence.least_timeout())
    }

    /// What was sent this time before something that has arrived is lost: a quarter of the response time
    /// (RFC 8985, 6.2), as much as a timeout has for its variation, or a timer's tick at both ends.
    pub fn reordering(&self) -> Span {
        let (mean, variation) = self.mean.unwrap_or_default();
        Span::from_ns_f64((mean / 4.0).max(SPREAD * variation)).max(2 * TICK)
    }

    /// Their smoothed time; `None` before the first.
    pub fn mean(&self) -> Option<Span> {
        self.mean.map(|(mean, _)| Span::from_ns_f64(mean))
    }

    /// Records the time until a response (RFC 6298, 2). Returns whether the path was silent.
    pub fn record(&mut self, response: Response) -> bool {
        let seen = response.time.as_ns_f64();
        self.count = self.count.saturating_add(1);
        let silent = self.silence.response(response.before);
        self.mean = Some(match self.mean {
            Some((mean, variation)) => {
                let off = (mean - seen).abs();
                (0.875 * mean + 0.125 * seen, 0.75 * variation + 0.25 * off)
            }
            None => (seen, seen / 2.0),
        });
        silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_stay_long_until_a_response_and_count_once_for_what_was_sent_together() {
        let mut responses = Responses::new(Span::from_ms(200), Span::ZERO);
        let at = |ms: u64| Instant::START + Span::from_ms(ms);
        // Three messages that were sent together, and time out together.
        (0..3).for_each(|_| responses.late(at(0), at(200)));
        assert_eq!(responses.timeout(0), Span::from_ms(200), "may be loss");
        responses.late(at(200), at(400));
        responses.late(at(400), at(800));
        assert_eq!(responses.timeout(0), Span::from_ms(800), "of a new message");
        responses.record(Response { time: Span::from_ms(700), before: 0 });
        assert_eq!(responses.timeout(0), Span::from_ms(700 + 3 * 350));
        let slow = responses.timeout(0);
        (0..40).for_each(|n| responses.late(at(1_000 + n), at(1_000 + n)));
        assert_eq!(responses.timeout(0), slow * (1 << MAX_DOUBLED));
        assert!(
            responses.is_silent()
                && responses.record(Response { time: Span::from_ms(1), before: 0 })
        );
        assert!(!responses.is_silent());
        let mut fast = Responses::new(Span::from_ms(4), Span::ZERO);
        (0..4).for_each(|n| fast.late(at(n), at(n)));
        assert_eq!(fast.timeout(0), Span::from_ms(200));
        (0..40).for_each(|n| fast.late(at(n), at(n)));
        assert_eq!(fast.timeout(0), Span::from_s(10));
    }

    #[test]
    fn few_responses_say_little_of_the_path() {
        let mut responses = Responses::new(Span::from_ms(4), Span::from_ms(50));
        for _ in 0..KNOWN {
            assert_eq!(responses.timeout(0), Span::from_ms(50));
            responses.record(Response { time: Span::from_us(20), before: 0 });
        }
        assert_eq!(responses.timeout(0), 2 * TICK);
    }
}
