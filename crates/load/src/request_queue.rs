//! Requests that wait for a free slot to their target (a connection, or one of NSTART
//! outstanding CoAP interactions), and who is responsible for that wait.
//!
//! A request is due at its intended time. If all slots to its target are occupied then, it
//! waits for the target; this wait is a separate part of the response time. The rest of the
//! delay until the send time is slip: the sending machine was late.

use crate::request_feed::Operation;
use std::collections::VecDeque;
use units::{Instant, Span};

/// The maximum number of waiting requests of one sender, over all targets. Bounds the
/// memory for targets that never answer (64 B each, 64 MB in all).
pub(crate) const MAX_WAITING: usize = 1 << 20;
/// Requests that are queued in a row before answers are processed.
pub(crate) const MAX_DUE_PER_TURN: usize = 1_024;
/// The sums of [`Occupancy`] are halved after this many uses of a slot, so that they follow
/// a change within some hundred requests and a single stall does not decide.
const DECAY_USES: u32 = 256;

/// When a slot became free, on CLOCK_MONOTONIC; `vacant <= begun <= ready`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SlotTimes {
    /// When the slot's last answer arrived at this machine, or its last connection closed;
    /// [`Instant::START`] for a slot that was never used.
    pub vacant: Instant,
    /// When this machine began to connect again; equal to `vacant` if no new connection is
    /// needed.
    pub begun: Instant,
    /// When the slot could carry the next request.
    pub ready: Instant,
    /// How long the target occupied the slot before: from the last request sent to its answer
    /// or to the end of its connection, and the time to connect again.
    pub occupied: Span,
}

impl SlotTimes {
    /// A slot that the target occupied for `occupied` until `at`.
    pub fn freed(at: Instant, occupied: Span) -> Self {
        Self { vacant: at, begun: at, ready: at, occupied }
    }

    /// A slot whose connection was begun at `begun`, after the last one left it as `before`.
    pub fn connected(before: &Self, begun: Instant, ready: Instant) -> Self {
        let vacant = before.ready;
        let begun = begun.max(vacant);
        let ready = ready.max(begun);
        Self { vacant, begun, ready, occupied: before.occupied + (ready - begun) }
    }

    /// How long a request with this intended time waited until the target freed the slot or
    /// accepted the connection. The time until this machine began to connect does not
    /// count.
    pub fn wait(&self, intended: Instant) -> Span {
        (self.vacant - intended)
            + (self.ready.max(intended) - self.begun.max(intended).min(self.ready.max(intended)))
    }
}

/// Who occupied a target's slots while requests waited for one: the target until its
/// answers arrived, or this machine until it used the slots again. Decaying sums.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Occupancy {
    target: Span,
    machine: Span,
    uses: u32,
}

impl Occupancy {
    fn add(&mut self, target: Span, machine: Span) {
        self.target += target;
        self.machine += machine;
        self.uses += 1;
        if self.uses == DECAY_USES {
            (self.target, self.machine, self.uses) = (self.target / 2, self.machine / 2, 0);
        }
    }

    /// Whether this machine occupied the slots for longer than the target did. Then
    /// requests wait because this machine is too slow.
    pub fn is_machine_bound(&self) -> bool {
        // The side that occupies the slots for longer is responsible for all of the wait. A share
        // of it would turn 50 us of work next to 5 ms of service into 1 % of a wait of seconds
        // (decision 39).
        self.machine > self.target
    }
}

/// A request that waits for a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    /// Its operation number.
    pub number: u64,
    /// Its intended send time.
    pub intended: Instant,
    /// The operation.
    pub operation: Operation,
}

/// The requests that wait for a slot to one target, in order.
#[derive(Debug, Default)]
pub(crate) struct RequestQueue {
    waiting: VecDeque<Waiting>,
    occupancy: Occupancy,
}

impl RequestQueue {
    pub fn push(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    pub fn pop(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the first request if it has waited for longer than `timeout`.
    pub fn expired(&mut self, now: Instant, timeout: Span) -> Option<Waiting> {
        let first = self.waiting.front()?;
        // So a queue has at most the requests of one timeout.
        (now - first.intended > timeout).then(|| self.waiting.pop_front()).flatten()
    }

    /// Whether requests wait because this machine is too slow.
    pub fn is_machine_bound(&self) -> bool {
        self.occupancy.is_machine_bound()
    }

    /// The part of a request's delay that is a wait for the target, for a request sent at
    /// `sent` over `slot`. The rest of `sent - intended` is slip. The wait is 0 if this
    /// machine occupies the slots for longer than the target does.
    pub fn wait(&mut self, slot: &SlotTimes, intended: Instant, sent: Instant) -> Span {
        let delay = sent - intended;
        let wait = slot.wait(intended).min(delay);
        // A slot that was free when the request was due did not delay it.
        if slot.ready > intended {
            self.occupancy.add(slot.occupied, delay - wait);
        }
        if self.is_machine_bound() { Span::ZERO } else { wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn span(ns: u64) -> Span {
        Span::from_ns(ns)
    }

    #[test]
    fn a_wait_is_what_the_target_took_and_not_what_this_machine_took() {
        // Occupied until 50; noticed and sent at 53.
        let slot = SlotTimes::freed(at(50), span(40));
        assert_eq!(slot.wait(at(20)), span(30));
        assert_eq!(slot.wait(at(50)), span(0));
        assert_eq!(slot.wait(at(70)), span(0), "it was free when the request was due");
        // The first connection: begun 5 late, accepted 10 later.
        let first = SlotTimes::connected(&SlotTimes::default(), at(25), at(35));
        assert_eq!(first.wait(at(20)), span(10));
        assert_eq!(first.wait(at(30)), span(5), "another request had it opened");
        assert_eq!(first.wait(at(40)), span(0));
        // Closed at 50, begun again at 53, accepted at 60.
        let again = SlotTimes::connected(&SlotTimes::freed(at(50), span(0)), at(53), at(60));
        assert_eq!(again.wait(at(20)), span(30 + 7));
        assert_eq!(again.wait(at(52)), span(7));
        assert_eq!(again.wait(at(55)), span(5));
    }

    /// A target that never answers within the timeout is responsible for the wait, although
    /// connecting to it again takes no time.
    #[test]
    fn a_request_that_timed_out_occupied_its_connection() {
        let mut queue = RequestQueue::default();
        let closed = SlotTimes::freed(at(1_500_000), span(1_500_000));
        let again = SlotTimes::connected(&closed, at(1_500_100), at(1_500_150));
        assert_eq!(again.occupied, span(1_500_050));
        assert_eq!(queue.wait(&again, at(200_000), at(1_500_400)), span(1_300_000 + 50));
        assert!(!queue.is_machine_bound(), "it was late by 350");
    }

    #[test]
    fn times_in_any_order_are_no_panic() {
        for vacant in 0..6 {
            for begun in 0..6 {
                for ready in 0..6 {
                    for intended in 0..6 {
                        let slot = SlotTimes::connected(
                            &SlotTimes::freed(at(vacant), span(1)),
                            at(begun),
                            at(ready),
                        );
                        assert!(slot.wait(at(intended)) <= span(12));
                        let raw = SlotTimes {
                            vacant: at(vacant),
                            begun: at(begun),
                            ready: at(ready),
                            occupied: Span::ZERO,
                        };
                        raw.wait(at(intended));
                    }
                }
            }
        }
    }

    #[test]
    fn the_longer_occupant_is_responsible() {
        let mut queue = RequestQueue::default();
        // The target takes 100, this machine 3.
        assert_eq!(
            queue.wait(&SlotTimes::freed(at(1_000), span(100)), at(0), at(1_003)),
            span(1_000)
        );
        // One stall of this machine does not change the result.
        for i in 0..50 {
            queue.wait(&SlotTimes::freed(at(1_000 + i), span(100)), at(0), at(1_003 + i));
        }
        assert_eq!(
            queue.wait(&SlotTimes::freed(at(2_000), span(100)), at(0), at(4_000)),
            span(2_000)
        );
        assert!(!queue.is_machine_bound());
        // From here on this machine is slow.
        for i in 0..DECAY_USES {
            queue.wait(&SlotTimes::freed(at(5_000), span(100)), at(0), at(5_400 + u64::from(i)));
        }
        assert!(queue.is_machine_bound());
        assert_eq!(
            queue.wait(&SlotTimes::freed(at(9_000), span(100)), at(0), at(9_400)),
            span(0),
            "all of it is slip"
        );
    }
}
