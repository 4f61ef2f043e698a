//! Reports of a member whose hub did not know its address: so the hub keeps its place, a NAT its
//! binding, and the member learns that the hub has restarted or lost its keys.

use crate::{Instant, Span};

/// Time between reports: UDP bindings of NATs last for 30 s or more in practice (RFC 8085, 3.5).
const EVERY: Span = Span::from_s(30);
/// Time to the second report if the first has no answer; doubled each time.
const AGAIN: Span = Span::from_s(1);
/// Reports without an answer after which the member begins a handshake.
const UNANSWERED: u32 = 3;

/// When to report.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Time of the next report; `None` if the hub wants none.
    at: Option<Instant>,
    /// Reports since the last sign of the hub.
    unanswered: u32,
}

impl Reports {
    /// The member has joined with new keys. The first report also tells a hub that has not
    /// received that the member is ready.
    pub fn begin(&mut self, enabled: bool, now: Instant) {
        *self = Self { at: enabled.then_some(now + AGAIN), unanswered: 0 };
    }

    /// The hub has sent something under the keys of the handshake.
    pub fn record_answer(&mut self, now: Instant) {
        // The first invitation is not the answer to a report.
        if self.unanswered > 0 {
            (self.at, self.unanswered) = (self.at.map(|_| now + EVERY), 0);
        }
    }

    /// Whether the hub does not answer.
    pub fn is_lost(&self) -> bool {
        self.unanswered > UNANSWERED
    }

    /// Time of the next report.
    pub fn wake(&self) -> Option<Instant> {
        self.at
    }

    /// Whether it is time for a report.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let due = self.at.is_some_and(|at| at <= now);
        if due {
            self.at = Some(now + (AGAIN * (1 << self.unanswered.min(5))).min(EVERY));
            self.unanswered += 1;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::START + Span::from_s(s)
    }

    #[test]
    fn reports_are_rare_while_they_are_answered() {
        let mut reports = Reports::default();
        assert!(!reports.is_due(Instant::NEVER) && reports.wake().is_none());
        reports.begin(true, Instant::START);
        let mut sent = Vec::new();
        for s in 0..100 {
            if reports.is_due(at(s)) {
                sent.push(s);
                assert!(!reports.is_lost());
                reports.record_answer(at(s));
            }
        }
        assert_eq!(sent, [1, 31, 61, 91]);
        let lost = (100..130).find(|s| {
            reports.is_due(at(*s));
            reports.is_lost()
        });
        assert_eq!(lost, Some(128), "121, 122, 124, 128");
    }
}
