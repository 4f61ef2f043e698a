//! A device's scheduled tasks: late answers, acknowledgements, retransmissions, changes of
//! resource values.

use crate::clock::{self, Nanos};
use crate::device::coap::Key;
use crate::socket::Address;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// The maximum number of scheduled tasks; further ones are dropped.
const MOST: usize = 100_000;
/// The interval of checks of `stop`, in ns.
const LOOK: Nanos = 50_000_000;

/// A scheduled task.
pub(crate) enum Task {
    /// Send a datagram.
    Send(Address, Vec<u8>),
    /// Acknowledge a request if it is still in service.
    Acknowledge(Key, Address),
    /// Retransmit a message if it is not acknowledged yet.
    Repeat(Key, Address),
    /// Change the value of a resource.
    Change(usize),
}

/// The scheduled tasks.
#[derive(Default)]
pub(crate) struct Timers {
    kept: Mutex<BinaryHeap<Kept>>,
    come: Condvar,
}

struct Kept {
    at: Nanos,
    task: Task,
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}
impl Eq for Kept {}
impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Kept {
    /// Reversed: the heap has its maximum first, the queue its earliest task.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl Timers {
    /// Schedules a task for `at`.
    pub fn add(&self, at: Nanos, task: Task) {
        let Ok(mut kept) = self.kept.lock() else { return };
        if kept.len() < MOST {
            kept.push(Kept { at, task });
            self.come.notify_one();
        }
    }

    /// Passes tasks to `work` when they are due, until `stop`.
    pub fn run(&self, stop: &AtomicBool, mut work: impl FnMut(Task)) {
        while !stop.load(Relaxed) {
            let Ok(mut kept) = self.kept.lock() else { return };
            let now = clock::now();
            if kept.peek().is_some_and(|first| first.at <= now)
                && let Some(first) = kept.pop()
            {
                drop(kept);
                work(first.task);
                continue;
            }
            let left = kept.peek().map_or(LOOK, |first| first.at - now);
            let _ = self.come.wait_timeout(kept, Duration::from_nanos(left.min(LOOK)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_done_in_the_order_of_their_moments_and_not_before() {
        let (timers, stop, begun) = (Timers::default(), AtomicBool::new(false), clock::now());
        for place in [3, 1, 2] {
            timers.add(begun + place as Nanos * 5_000_000, Task::Change(place));
        }
        let mut done = Vec::new();
        timers.run(&stop, |task| {
            let Task::Change(place) = task else { panic!() };
            assert!(clock::now() >= begun + place as Nanos * 5_000_000);
            done.push(place);
            stop.store(done.len() == 3, Relaxed);
        });
        assert_eq!(done, [1, 2, 3]);
    }
}
