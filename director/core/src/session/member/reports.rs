//! Reports of a member whose hub did not know its address: so the hub keeps its place, a NAT its
//! binding, and the member learns that the hub has restarted or lost its keys.

use crate::Nanos;

/// Time between reports, in ns: UDP bindings of NATs last for 30 s or more in practice (RFC 8085, 3.5).
const EVERY: Nanos = 30_000_000_000;
/// Time to the second report if the first has no answer; doubled each time.
const AGAIN: Nanos = 1_000_000_000;
/// Reports without an answer after which the member begins a handshake.
const UNANSWERED: u32 = 3;

/// When to report.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Time of the next report; `None` if the hub wants none.
    at: Option<Nanos>,
    /// Reports since the last sign of the hub.
    unanswered: u32,
}

impl Reports {
    /// The member has joined with new keys. The first report also tells a hub that has not
    /// received that the member is ready.
    pub fn begin(&mut self, enabled: bool, now: Nanos) {
        *self = Self { at: enabled.then_some(now + AGAIN), unanswered: 0 };
    }

    /// The hub has sent something under the keys of the handshake.
    pub fn record_answer(&mut self, now: Nanos) {
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
    pub fn wake(&self) -> Option<Nanos> {
        self.at
    }

    /// Whether it is time for a report.
    pub fn is_due(&mut self, now: Nanos) -> bool {
        let due = self.at.is_some_and(|at| at <= now);
        if due {
            self.at = Some(now + (AGAIN << self.unanswered.min(5)).min(EVERY));
            self.unanswered += 1;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_rare_while_they_are_answered() {
        let mut reports = Reports::default();
        assert!(!reports.is_due(Nanos::MAX) && reports.wake().is_none());
        reports.begin(true, 0);
        let mut sent = Vec::new();
        for now in (0..100).map(|s| s * 1_000_000_000) {
            if reports.is_due(now) {
                sent.push(now / 1_000_000_000);
                assert!(!reports.is_lost());
                reports.record_answer(now);
            }
        }
        assert_eq!(sent, [1, 31, 61, 91]);
        let lost = (100..130).find(|s| {
            reports.is_due(s * 1_000_000_000);
            reports.is_lost()
        });
        assert_eq!(lost, Some(128), "121, 122, 124, 128");
    }
}
