//! A device's scheduled tasks: late answers, acknowledgements, retransmissions, changes of
//! resource values.

use crate::device::coap::Key;
use crate::socket::Address;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use units::{Instant, Span};

/// The maximum number of scheduled tasks; further ones are dropped.
const MAX_TASKS: usize = 100_000;
/// The interval of checks of `stop`.
const CHECK_INTERVAL: Span = Span::from_ms(50);

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
    tasks: Mutex<BinaryHeap<ScheduledTask>>,
    wakeup: Condvar,
}

struct ScheduledTask {
    at: Instant,
    task: Task,
}

impl PartialEq for ScheduledTask {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}
impl Eq for ScheduledTask {}
impl PartialOrd for ScheduledTask {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for ScheduledTask {
    /// Reversed: the heap has its maximum first, the queue its earliest task.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl Timers {
    /// Schedules a task for `at`.
    pub fn add(&self, at: Instant, task: Task) {
        let Ok(mut tasks) = self.tasks.lock() else { return };
        if tasks.len() < MAX_TASKS {
            tasks.push(ScheduledTask { at, task });
            self.wakeup.notify_one();
        }
    }

    /// Passes tasks to `work` when they are due, until `stop`.
    pub fn run(&self, stop: &AtomicBool, mut work: impl FnMut(Task)) {
        while !stop.load(Relaxed) {
            let Ok(mut tasks) = self.tasks.lock() else { return };
            let now = clock::now();
            if tasks.peek().is_some_and(|first| first.at <= now)
                && let Some(first) = tasks.pop()
            {
                // The task may schedule others.
                drop(tasks);
                work(first.task);
                continue;
            }
            let left = tasks.peek().map_or(CHECK_INTERVAL, |first| first.at - now);
            let _ = self.wakeup.wait_timeout(tasks, left.min(CHECK_INTERVAL).into());
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
            timers.add(begun + Span::from_ms(5) * place as u64, Task::Change(place));
        }
        let mut done = Vec::new();
        timers.run(&stop, |task| {
            let Task::Change(place) = task else { panic!() };
            assert!(clock::now() >= begun + Span::from_ms(5) * place as u64);
            done.push(place);
            stop.store(done.len() == 3, Relaxed);
        });
        assert_eq!(done, [1, 2, 3]);
    }
}
