//! The queue of requests.

use super::coap::PendingRequest;
use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex};

/// A request with a service time.
pub(crate) enum Job {
    /// A CoAP request; the server thread answers it.
    Coap(Box<PendingRequest>),
    /// An HTTP request; the connection's thread answers it.
    Http {
        /// The index of the resource.
        resource: usize,
        /// Signals the end of the service.
        done: SyncSender<()>,
    },
}

/// A bounded first-in first-out queue.
pub(crate) struct Queue {
    jobs: Mutex<State>,
    wakeup: Condvar,
    most: usize,
}

struct State {
    waiting: VecDeque<Job>,
    serving: usize,
    closed: bool,
}

impl Queue {
    /// A queue for `most` requests, including those in service.
    pub fn new(most: usize) -> Self {
        let state = State { waiting: VecDeque::new(), serving: 0, closed: false };
        Self { jobs: Mutex::new(state), wakeup: Condvar::new(), most }
    }

    /// Adds a request if there is room. Returns whether there was.
    pub fn push(&self, job: Job) -> bool {
        let Ok(mut state) = self.jobs.lock() else { return false };
        if state.closed || state.waiting.len() + state.serving >= self.most {
            return false;
        }
        state.waiting.push_back(job);
        drop(state);
        self.wakeup.notify_one();
        true
    }

    /// Waits for a request; None when the queue is closed.
    pub fn pop(&self) -> Option<Job> {
        let mut state = self.jobs.lock().ok()?;
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.waiting.pop_front() {
                state.serving += 1;
                return Some(job);
            }
            state = self.wakeup.wait(state).ok()?;
        }
    }

    /// Counts a request as served, so that there is room for another one.
    pub fn served(&self) {
        if let Ok(mut state) = self.jobs.lock() {
            state.serving -= 1;
        }
    }

    /// Ends all server threads.
    pub fn close(&self) {
        if let Ok(mut state) = self.jobs.lock() {
            state.closed = true;
            state.waiting.clear();
        }
        self.wakeup.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_full_queue_takes_no_more_and_served_ones_make_room() {
        let (done, _) = sync_channel(1);
        let job = || Job::Http { resource: 0, done: done.clone() };
        let queue = Queue::new(2);
        assert!(queue.push(job()) && queue.push(job()));
        assert!(!queue.push(job()));
        assert!(queue.pop().is_some());
        // It is being served and still counts.
        assert!(!queue.push(job()));
        queue.served();
        assert!(queue.push(job()));
        queue.close();
        assert!(queue.pop().is_none() && !queue.push(job()));
    }
}
