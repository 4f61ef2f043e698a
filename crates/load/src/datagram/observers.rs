//! Observations of resources, RFC 7641: evaluates notifications and ends observations.
//! Without I/O.

use record::Observed;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use units::{Instant, Span};

/// After this time any notification is newer than the last (RFC 7641, section 3.4).
const ALWAYS_NEWER: Span = Span::from_s(128);
/// Half of the 24-bit range of sequence numbers.
const HALF: u32 = 1 << 23;

/// One observation.
#[derive(Debug)]
struct Observation {
    /// The template of its request, and its series.
    template: u32,
    series: u32,
    sequence: u32,
    /// When the newest representation arrived, and how long it is fresh.
    arrived_at: Instant,
    fresh: Span,
    /// Whether its cancellation was sent.
    ending: bool,
}

/// The result of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotificationOutcome {
    /// A newer representation, and the time since the previous one.
    Fresh(Span),
    /// A newer notification arrived earlier.
    Outdated,
}

/// A due action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Cancel the observation of this number; its template.
    Deregister(u64, u32),
    /// The target has not answered the cancellation in time.
    Unanswered(u64),
}

/// All observations of a sender by operation number.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    open: HashMap<u64, Observation>,
    ends: BinaryHeap<Reverse<(Instant, u64, bool)>>,
    /// Whether all observations must end.
    over: bool,
    pub counts: Observed,
}

impl Observers {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub fn has(&self, number: u64) -> bool {
        self.open.contains_key(&number)
    }

    /// The template and series of an observation.
    pub fn origin(&self, number: u64) -> Option<(u32, u32)> {
        self.open.get(&number).map(|one| (one.template, one.series))
    }

    /// Registers an observation that the target accepted. It ends at `end`.
    ///
    /// `origin` are template and series of its request, `freshness` are sequence number and
    /// Max-Age.
    pub fn register(
        &mut self,
        number: u64,
        origin: (u32, u32),
        now: Instant,
        end: Instant,
        freshness: (u32, u32),
    ) {
        let ((template, series), (sequence, max_age)) = (origin, freshness);
        let fresh = Span::from_s(max_age.into());
        let one = Observation { template, series, sequence, arrived_at: now, fresh, ending: false };
        self.open.insert(number, one);
        let end = if self.over { now } else { end };
        self.ends.push(Reverse((end, number, false)));
        self.counts.registered += 1;
    }

    /// Handles a notification with its sequence number and its Max-Age in s. None if the
    /// observation does not exist.
    pub fn notified(
        &mut self,
        number: u64,
        now: Instant,
        freshness: (u32, u32),
    ) -> Option<NotificationOutcome> {
        let (sequence, max_age) = freshness;
        let one = self.open.get_mut(&number)?;
        let (before, since) = (one.sequence, now - one.arrived_at);
        // The comparison of RFC 7641, 3.4.
        let newer = before < sequence && sequence - before < HALF
            || before > sequence && before - sequence > HALF
            || since > ALWAYS_NEWER;
        if !newer {
            self.counts.outdated += 1;
            return Some(NotificationOutcome::Outdated);
        }
        self.counts.notifications += 1;
        self.counts.stale += u64::from(since > one.fresh);
        (one.sequence, one.arrived_at, one.fresh) = (sequence, now, Span::from_s(max_age.into()));
        Some(NotificationOutcome::Fresh(since))
    }

    /// Handles an answer without the Observe option: the target has ended the observation.
    /// Returns whether this sender had cancelled it.
    pub fn ended(&mut self, number: u64) -> bool {
        let cancelled = self.open.remove(&number).is_some_and(|one| one.ending);
        match cancelled {
            true => self.counts.deregistered += 1,
            false => self.counts.ended += 1,
        }
        cancelled
    }

    /// The target is unreachable.
    pub fn lost(&mut self, number: u64) {
        if self.open.remove(&number).is_some() {
            self.counts.ended += 1;
        }
    }

    /// The next due action, if any; `timeout` is that of answers.
    pub fn due(&mut self, now: Instant, timeout: Span) -> Option<Due> {
        while let Some(Reverse((at, number, cancelled))) = self.ends.peek().copied() {
            if at > now {
                return None;
            }
            self.ends.pop();
            let Some(one) = self.open.get_mut(&number).filter(|one| one.ending == cancelled) else {
                continue;
            };
            if cancelled {
                self.open.remove(&number);
                self.counts.unanswered += 1;
                return Some(Due::Unanswered(number));
            }
            one.ending = true;
            self.ends.push(Reverse((now + timeout, number, true)));
            return Some(Due::Deregister(number, one.template));
        }
        None
    }

    /// Ends all observations now, and later ones as soon as they are accepted.
    pub fn end_all(&mut self, now: Instant) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let open = self.open.iter().filter(|(_, one)| !one.ending);
        self.ends.extend(open.map(|(number, _)| Reverse((now, *number, false))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Span = Span::from_s(1);

    const fn s(seconds: u64) -> Instant {
        Instant::from_ns(seconds * 1_000_000_000)
    }

    fn one() -> Observers {
        let mut observers = Observers::default();
        observers.register(5, (9, 0), s(0), s(100), (10, 60));
        observers
    }

    #[test]
    fn newer_is_what_the_standard_says() {
        let mut some = one();
        assert_eq!(some.notified(5, s(1), (11, 2)), Some(NotificationOutcome::Fresh(SECOND)));
        assert_eq!(some.notified(5, s(2), (11, 2)), Some(NotificationOutcome::Outdated));
        assert_eq!(some.notified(5, s(2), (10, 2)), Some(NotificationOutcome::Outdated));
        // Around the wrap of the sequence numbers.
        let mut some = Observers::default();
        some.register(5, (9, 0), s(0), s(100), ((1 << 24) - 1, 60));
        assert_eq!(some.notified(5, s(1), (3, 60)), Some(NotificationOutcome::Fresh(SECOND)));
        assert_eq!(
            some.notified(5, s(1), ((1 << 24) - 2, 60)),
            Some(NotificationOutcome::Outdated)
        );
        // After a long time any notification is newer.
        let late = Some(NotificationOutcome::Fresh(Span::from_s(129)));
        assert_eq!(some.notified(5, s(130), (1, 60)), late);
        assert_eq!(some.notified(6, s(0), (1, 60)), None);
        assert_eq!((some.counts.notifications, some.counts.outdated), (2, 1));
    }

    #[test]
    fn what_comes_after_its_max_age_left_the_observer_with_a_stale_value() {
        let mut some = one();
        some.notified(5, s(60), (11, 2));
        assert_eq!(some.counts.stale, 0);
        some.notified(5, s(62) + Span::from_ns(1), (12, 2));
        assert_eq!((some.counts.notifications, some.counts.stale), (2, 1));
    }

    #[test]
    fn an_observation_ends_by_asking_and_is_waited_for() {
        let mut some = one();
        assert_eq!(some.due(s(100) - Span::from_ns(1), SECOND), None);
        assert_eq!(some.due(s(100), SECOND), Some(Due::Deregister(5, 9)));
        assert!(some.due(s(100), SECOND).is_none() && some.has(5));
        assert!(some.ended(5) && some.is_empty());
        assert_eq!(some.due(s(200), SECOND), None);
        assert_eq!((some.counts.registered, some.counts.deregistered), (1, 1));
        // No answer.
        let mut some = one();
        some.end_all(s(3));
        assert_eq!(some.due(s(3), SECOND), Some(Due::Deregister(5, 9)));
        some.end_all(s(4));
        assert_eq!(some.due(s(3), SECOND), None, "once");
        assert_eq!(some.due(s(4), SECOND), Some(Due::Unanswered(5)));
        assert!(some.due(s(100), SECOND).is_none() && some.is_empty());
        assert_eq!(some.counts.unanswered, 1);
        some.register(6, (9, 0), s(200), s(300), (1, 60));
        assert_eq!(some.due(s(200), SECOND), Some(Due::Deregister(6, 9)));
        // Ended by the target.
        let mut some = one();
        assert!(!some.ended(5));
        assert_eq!((some.counts.ended, some.counts.deregistered), (1, 0));
    }
}
