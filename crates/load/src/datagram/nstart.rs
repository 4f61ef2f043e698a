//! NSTART: the limit of outstanding interactions per target (RFC 7252, section 4.7). A
//! request beyond it waits, as for a connection. Without I/O.

use crate::request_queue::{RequestQueue, SlotTimes, Waiting};
use std::collections::VecDeque;
use units::{Instant, Span};

/// The slots of one target, and the requests that wait for one.
#[derive(Debug)]
struct Target {
    queue: RequestQueue,
    /// The number of slots that were never used.
    unused: u32,
    /// Free slots that were used before, the longest free first.
    free: VecDeque<SlotTimes>,
}

/// The slots of all targets.
#[derive(Debug)]
pub(crate) struct Nstart {
    most: u32,
    targets: Vec<Target>,
    /// Targets that may have both a request and a free slot.
    ready: VecDeque<u32>,
    waiting: usize,
}

impl Nstart {
    /// `most` slots for each target.
    pub fn new(most: u32) -> Self {
        Self { most, targets: Vec::new(), ready: VecDeque::new(), waiting: 0 }
    }

    /// The number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds a request that is due.
    pub fn push(&mut self, target: u32, waiting: Waiting) {
        let place = target as usize;
        while self.targets.len() <= place {
            let (queue, free) = (RequestQueue::default(), VecDeque::new());
            self.targets.push(Target { queue, unused: self.most, free });
        }
        self.targets[place].queue.push(waiting);
        self.waiting += 1;
        self.ready.push_back(target);
    }

    /// Takes the next request that has a slot, with its target and the slot.
    pub fn pop(&mut self) -> Option<(u32, Waiting, SlotTimes)> {
        while let Some(target) = self.ready.front().copied() {
            let own = &mut self.targets[target as usize];
            let slot = match own.queue.is_empty() {
                true => None,
                false if own.unused > 0 => {
                    own.unused -= 1;
                    Some(SlotTimes::default())
                }
                false => own.free.pop_front(),
            };
            if let Some(slot) = slot {
                self.waiting -= 1;
                return own.queue.pop().map(|waiting| (target, waiting, slot));
            }
            self.ready.pop_front();
        }
        None
    }

    /// The part of a request's delay that is a wait for its target.
    pub fn wait(
        &mut self,
        target: u32,
        slot: &SlotTimes,
        intended: Instant,
        sent: Instant,
    ) -> Span {
        self.targets[target as usize].queue.wait(slot, intended, sent)
    }

    /// Frees a slot.
    pub fn release(&mut self, target: u32, slot: SlotTimes) {
        if let Some(own) = self.targets.get_mut(target as usize) {
            own.free.push_back(slot);
            self.ready.push_back(target);
        }
    }

    /// Takes a request that has waited for longer than `timeout`, and whether this machine
    /// was too slow. A `timeout` of 0 takes any request.
    pub fn expired(&mut self, now: Instant, timeout: Span) -> Option<(Waiting, bool)> {
        if self.waiting == 0 {
            return None;
        }
        for own in &mut self.targets {
            let machine_bound = own.queue.is_machine_bound();
            let expired = if timeout == Span::ZERO {
                own.queue.pop()
            } else {
                own.queue.expired(now, timeout)
            };
            if let Some(waiting) = expired {
                self.waiting -= 1;
                return Some((waiting, machine_bound));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_feed::Operation;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn span(ns: u64) -> Span {
        Span::from_ns(ns)
    }

    fn waiting(number: u64) -> Waiting {
        let operation = Operation { at: Span::ZERO, template: 0, series: 0 };
        Waiting { number, intended: at(number * 10), operation }
    }

    #[test]
    fn each_target_has_its_own_slots() {
        let mut nstart = Nstart::new(1);
        nstart.push(0, waiting(1));
        nstart.push(0, waiting(2));
        nstart.push(1, waiting(3));
        let mut popped = || nstart.pop().map(|(target, waiting, _)| (target, waiting.number));
        assert_eq!([popped(), popped(), popped()], [Some((0, 1)), Some((1, 3)), None]);
        assert_eq!(nstart.waiting(), 1);
        // Its answer arrives at 55 and is processed at 60.
        nstart.release(0, SlotTimes::freed(at(55), span(40)));
        let (target, next, slot) = nstart.pop().unwrap();
        assert_eq!((target, next.number, nstart.waiting()), (0, 2, 0));
        assert_eq!(nstart.wait(target, &slot, next.intended, at(60)), span(35));
        assert!(nstart.pop().is_none());
    }

    #[test]
    fn more_slots_are_used_before_any_is_used_again() {
        let mut nstart = Nstart::new(2);
        (1..=4).for_each(|number| nstart.push(7, waiting(number)));
        assert!(nstart.pop().is_some() && nstart.pop().is_some() && nstart.pop().is_none());
        nstart.release(7, SlotTimes::freed(at(100), span(1)));
        assert_eq!(nstart.pop().unwrap().1.number, 3);
        // A request that waits too long is removed.
        assert!(nstart.expired(at(1_000), span(961)).is_none());
        let (late, machine_bound) = nstart.expired(at(1_000), span(959)).unwrap();
        assert_eq!((late.number, machine_bound, nstart.waiting()), (4, false, 0));
        nstart.push(7, waiting(5));
        assert_eq!(nstart.expired(at(0), Span::ZERO).unwrap().0.number, 5);
        nstart.release(99, SlotTimes::default());
    }
}
