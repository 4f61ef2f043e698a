//! Reports of a member whose hub did not know its address, or that keeps the binding of a NAT: so
//! the hub keeps its place, the NAT its binding, and the member learns that the hub has restarted or
//! lost its keys.

use crate::{Instant, Span};

/// Time between reports: UDP bindings of NATs last for 30 s or more in practice (RFC 8085, 3.5).
const EVERY: Span = Span::from_s(30);
/// Minimum of a configured time (RFC 8085, 3.5).
const MIN_KEEP_ALIVE: Span = Span::from_s(15);
/// Time to the second report if the first has no answer; doubled each time.
const AGAIN: Span = Span::from_s(1);
/// Reports without an answer after which the member begins a handshake.
const UNANSWERED: u32 = 3;

/// When to report.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Time of the next report; `None` if there is none.
    at: Option<Instant>,
    /// Reports since the last sign of the hub.
    unanswered: u32,
    /// Configured time without a datagram to the hub after which the member reports.
    keep_alive: Option<Span>,
    /// Whether the hub expects reports, whatever else the member sends.
    expected: bool,
    /// Whether the hub has sent something since the last datagram to it.
    heard: bool,
    /// Whether the hub may have other keys than this member: the next report is due soon.
    in_doubt: bool,
    /// Earliest time of the next report for that reason.
    doubt_at: Instant,
}

impl Reports {
    /// Without a session, with this keep-alive.
    pub fn with_keep_alive(interval: Span) -> Self {
        Self { keep_alive: Some(interval.max(MIN_KEEP_ALIVE)), ..Self::default() }
    }

    /// The member has joined with new keys. If the hub expects reports, the first one also tells a
    /// hub that has not received that the member is ready; so does one that is due for this reason
    /// alone (`in_doubt`).
    pub fn begin(&mut self, expected: bool, in_doubt: bool, now: Instant) {
        let first = if expected || in_doubt { Some(AGAIN) } else { self.keep_alive };
        let at = first.map(|first| now + first);
        let keep_alive = self.keep_alive;
        *self = Self { at, expected, in_doubt, keep_alive, ..Self::default() };
    }

    /// Time between reports; `None` if there are none while the hub answers.
    fn every(&self) -> Option<Span> {
        match self.keep_alive {
            Some(interval) if self.expected => Some(interval.min(EVERY)),
            None if self.expected => Some(EVERY),
            keep_alive => keep_alive,
        }
    }

    /// The hub has sent an invitation under the keys of the handshake.
    pub fn record_answer(&mut self, now: Instant) {
        self.heard = true;
        // The first invitation is not the answer to a report.
        if self.unanswered > 0 {
            (self.at, self.unanswered) = (self.every().map(|every| now + every), 0);
            self.in_doubt = false;
        }
    }

    /// Something suggests that the hub does not have the keys of this start of the member: the
    /// message that has proved them may be lost. A report proves them again, and is repeated until
    /// it is answered.
    pub fn doubt(&mut self, now: Instant) {
        // After a report that is not answered, the next one is due anyway.
        if self.unanswered == 0 {
            let at = self.doubt_at.max(now);
            self.at = Some(self.at.map_or(at, |known| known.min(at)));
            self.in_doubt = true;
        }
    }

    /// The hub has sent something else under its keys.
    pub fn record_arrival(&mut self) {
        self.heard = true;
    }

    /// The member sends something to the hub: no report is needed for a while, unless the hub is
    /// silent.
    pub fn record_sent(&mut self, now: Instant) {
        if self.heard && !self.expected && !self.in_doubt && self.unanswered == 0 {
            self.at = self.every().map(|every| now + every);
            self.heard = false;
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
            let every = self.every().unwrap_or(EVERY);
            self.at = Some(now + (AGAIN * (1 << self.unanswered.min(5))).min(every));
            self.unanswered += 1;
            self.doubt_at = now + AGAIN;
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
        reports.begin(true, false, Instant::START);
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

    #[test]
    fn in_doubt_a_member_reports_until_it_is_answered() {
        let mut reports = Reports::default();
        reports.begin(false, false, Instant::START);
        assert_eq!(reports.wake(), None);
        let mut sent = Vec::new();
        for s in 10..100 {
            // Again and again, as someone can cause it by recorded invitations.
            reports.doubt(at(s));
            // Other datagrams in both directions do not put it off.
            reports.record_arrival();
            reports.record_sent(at(s));
            if reports.is_due(at(s)) {
                sent.push(s);
            }
            if s == 20 {
                reports.record_answer(at(s));
                assert_eq!(reports.wake(), None);
            }
        }
        assert_eq!(sent[..6], [10, 11, 13, 17, 21, 22]);
        assert!(reports.is_lost());
    }

    #[test]
    fn a_keep_alive_is_due_when_nothing_was_sent_to_a_hub_that_sends() {
        // The interval in s, and the times of reports: the member sends until 100 s, and the hub
        // sends until `silent`.
        for (interval, silent, expected) in [
            (20, 300, vec![120, 140, 160, 180]),
            // Of the member's datagrams to a silent hub none counts.
            (20, 50, vec![69, 70, 72, 76, 84, 100, 120, 140, 160, 180]),
            // Below the minimum of RFC 8085.
            (1, 300, vec![115, 130, 145, 160, 175, 190]),
        ] {
            let mut reports = Reports::with_keep_alive(Span::from_s(interval));
            assert!(!reports.is_due(Instant::NEVER), "without a session");
            reports.begin(false, false, Instant::START);
            let mut sent = Vec::new();
            for s in 0..200 {
                let due = reports.is_due(at(s));
                sent.extend(due.then_some(s));
                if due && s < silent {
                    reports.record_answer(at(s));
                }
                if s < silent.min(101) {
                    reports.record_arrival();
                }
                if due || s <= 100 {
                    reports.record_sent(at(s));
                }
            }
            assert_eq!(sent, expected, "{interval} s, silent from {silent} s");
        }
    }

    #[test]
    fn a_hub_that_expects_reports_gets_them_whatever_else_is_sent() {
        for (keep_alive, count) in [(15, 7), (60, 4)] {
            let mut reports = Reports::with_keep_alive(Span::from_s(keep_alive));
            reports.begin(true, false, Instant::START);
            let sent = (0..100).filter(|s| {
                reports.record_arrival();
                reports.record_sent(at(*s));
                let due = reports.is_due(at(*s));
                if due {
                    reports.record_answer(at(*s));
                }
                due
            });
            assert_eq!(sent.count(), count, "{keep_alive}");
        }
    }
}
