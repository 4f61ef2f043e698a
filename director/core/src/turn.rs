//! Which of the messages that wait is sent next.
//!
//! When an application sends more than the path carries, messages wait nearly as long as their lifetime.
//! In order, each would then be sent just too late: all of the path's rate would go to messages that
//! expire on their way.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::MessageId;
use crate::{Instant, Span};
use alloc::collections::VecDeque;

/// Maximum number of messages that wait at a sender.
const MAX_WAITING: usize = 1_024;

/// The place of the first message that ends at `needed` or later. If there is none, the estimate may be
/// wrong: that of the one which ends last.
pub fn first_in_time(
    ends: impl Iterator<Item = Option<Instant>> + Clone,
    needed: Instant,
) -> Option<usize> {
    let first = ends.clone().position(|end| end.is_none_or(|end| end >= needed));
    first.or_else(|| ends.enumerate().max_by_key(|(_, end)| *end).map(|(place, _)| place))
}

/// A message that waits.
#[derive(Debug)]
pub struct Waiting {
    pub number: MessageId,
    pub bytes: Vec<u8>,
    pub until: Option<Instant>,
}

/// Messages that wait for their turn.
#[derive(Debug)]
pub struct Turns {
    waiting: VecDeque<Waiting>,
    /// Time from sending a message until its response.
    wait: Span,
}

impl Turns {
    /// Without any; `wait` is the time from sending a message until its response.
    pub fn new(wait: Span) -> Self {
        Self { waiting: VecDeque::new(), wait }
    }

    /// Changes that time.
    pub fn set_wait(&mut self, wait: Span) {
        self.wait = wait;
    }

    /// Adds a message as the last one. If there are too many, the first is dropped.
    pub fn push(&mut self, message: Waiting) {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(message);
    }

    /// Drops a message.
    pub fn withdraw(&mut self, number: MessageId) {
        self.waiting.retain(|waiting| waiting.number != number);
    }

    /// Takes the message to send at `now`. Drops those whose lifetime is over.
    pub fn next(&mut self, now: Instant) -> Option<Waiting> {
        let needed = now + self.wait;
        let in_time = |waiting: &Waiting| waiting.until.is_none_or(|until| until >= needed);
        if !self.waiting.front().is_some_and(in_time) {
            self.waiting.retain(|waiting| waiting.until.is_none_or(|until| until > now));
        }
        let at = first_in_time(self.waiting.iter().map(|waiting| waiting.until), needed)?;
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

    fn at(ms: u64) -> Instant {
        Instant::START + Span::from_ms(ms)
    }

    /// Messages with these ends in ms, in this order, numbered from 1.
    fn turns(wait: Span, ends: &[Option<u64>]) -> Turns {
        let mut turns = Turns::new(wait);
        for (number, until) in (1..).zip(ends) {
            turns.push(Waiting { number, bytes: Vec::new(), until: until.map(at) });
        }
        turns
    }

    #[test]
    fn what_can_arrive_in_time_goes_first() {
        let ends = [Some(30), Some(49), Some(50), Some(20), Some(90), None, None];
        let mut turns = turns(Span::from_ms(50), &ends);
        turns.withdraw(7);
        let mut next = |ms| turns.next(at(ms)).map(|waiting| waiting.number);
        // At 30 ms the first and the fourth are over, and the second can no longer arrive.
        assert_eq!([next(0), next(30), next(30)], [Some(3), Some(5), Some(6)]);
        assert_eq!([next(31), next(32)], [Some(2), None], "better late than never tried");
    }

    #[test]
    fn without_any_in_time_the_one_that_ends_last_goes() {
        let mut turns = turns(Span::from_s(1), &[Some(30), Some(40), Some(35)]);
        let mut next = |ms| turns.next(at(ms)).map(|waiting| waiting.number);
        assert_eq!([next(0), next(0), next(31)], [Some(2), Some(3), None]);
    }

    #[test]
    fn the_oldest_make_room() {
        let mut turns = turns(Span::ZERO, &[None; MAX_WAITING + 3]);
        assert_eq!(turns.waiting.len(), MAX_WAITING);
        assert_eq!(turns.next(Instant::START).map(|waiting| waiting.number), Some(4));
    }
}
