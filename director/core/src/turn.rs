//! Which of the messages that wait is sent next.
//!
//! When an application sends more than the path carries, messages wait nearly as long as their lifetime.
//! In order, each would then be sent just too late: all of the path's rate would go to messages that
//! expire on their way.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::{Instant, Span};
use alloc::collections::VecDeque;

/// The place of the first message that ends at `needed` or later. If there is none, the estimate may be
/// wrong: that of the one which ends last.
pub fn first_in_time(
    ends: impl Iterator<Item = Option<Instant>> + Clone,
    needed: Instant,
) -> Option<usize> {
    let first = ends.clone().position(|end| end.is_none_or(|end| end >= needed));
    first.or_else(|| ends.enumerate().max_by_key(|(_, end)| *end).map(|(place, _)| place))
}

/// Messages that wait, and the ends of their lifetimes.
#[derive(Debug)]
pub struct Turns<T> {
    waiting: VecDeque<(Option<Instant>, T)>,
    /// Time from sending a message until its response.
    wait: Span,
}

impl<T> Turns<T> {
    /// Without any; `wait` is the time from sending a message until its response.
    pub fn new(wait: Span) -> Self {
        Self { waiting: VecDeque::new(), wait }
    }

    /// Changes that time.
    pub fn set_wait(&mut self, wait: Span) {
        self.wait = wait;
    }

    /// Adds a message as the last one.
    pub fn push(&mut self, until: Option<Instant>, message: T) {
        self.waiting.push_back((until, message));
    }

    /// Drops the first messages, so that there are `most` at most.
    pub fn limit(&mut self, most: usize) {
        self.waiting.drain(..self.waiting.len().saturating_sub(most));
    }

    /// Takes the message to send at `now`. Drops those whose lifetime is over.
    pub fn next(&mut self, now: Instant) -> Option<(Option<Instant>, T)> {
        let needed = now + self.wait;
        let in_time = |until: &Option<Instant>| until.is_none_or(|until| until >= needed);
        if !self.waiting.front().is_some_and(|(until, _)| in_time(until)) {
            self.waiting.retain(|(until, _)| until.is_none_or(|until| until > now));
        }
        let at = first_in_time(self.waiting.iter().map(|(until, _)| *until), needed)?;
        self.waiting.remove(at)
    }

    /// Drops all messages.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_arrive_in_time_goes_first() {
        let at = |ms| Instant::START + Span::from_ms(ms);
        let mut turns = Turns::new(Span::from_ms(50));
        for (name, until) in [(1, 30), (2, 49), (3, 50), (4, 20), (5, 90)] {
            turns.push(Some(at(until)), name);
        }
        turns.push(None, 6);
        let mut next = |ms| turns.next(at(ms)).map(|(_, name)| name);
        // At 30 ms the first and the fourth are over, and the second can no longer arrive.
        assert_eq!([next(0), next(30), next(30)], [Some(3), Some(5), Some(6)]);
        assert_eq!([next(31), next(32)], [Some(2), None], "better late than never tried");
    }

    #[test]
    fn without_any_in_time_the_one_that_ends_last_goes() {
        let at = |ms| Instant::START + Span::from_ms(ms);
        let mut turns = Turns::new(Span::from_s(1));
        for (name, until) in [(1, 30), (2, 40), (3, 35)] {
            turns.push(Some(at(until)), name);
        }
        let mut next = |ms| turns.next(at(ms)).map(|(_, name)| name);
        assert_eq!([next(0), next(0), next(31)], [Some(2), Some(3), None]);
    }

    #[test]
    fn the_oldest_make_room() {
        let mut turns = Turns::new(Span::ZERO);
        (0..10).for_each(|number| turns.push(None, number));
        turns.limit(3);
        turns.limit(5);
        let order: Vec<u32> =
            core::iter::from_fn(|| turns.next(Instant::START).map(|(_, number)| number)).collect();
        assert_eq!(order, [7, 8, 9]);
    }
}
