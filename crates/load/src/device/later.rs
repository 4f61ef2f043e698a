//! Answers that are sent after their time.

use crate::clock::{self, Nanos};
use crate::socket::{Address, Batch, Datagrams};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// So many answers may be kept; more are lost.
const MOST: usize = 100_000;

/// Answers that wait for their moment.
#[derive(Default)]
pub(crate) struct Later {
    kept: Mutex<BinaryHeap<Kept>>,
    come: Condvar,
}

struct Kept {
    at: Nanos,
    to: Address,
    bytes: Vec<u8>,
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
    /// The earliest is the greatest, as the heap wants it.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl Later {
    /// Keeps an answer until `at`.
    pub fn add(&self, at: Nanos, to: Address, bytes: &[u8]) {
        let Ok(mut kept) = self.kept.lock() else { return };
        if kept.len() < MOST {
            kept.push(Kept { at, to, bytes: bytes.to_vec() });
            self.come.notify_one();
        }
    }

    /// Sends them until `stop`.
    pub fn run(&self, socket: &Datagrams, stop: &AtomicBool) {
        let mut out = Batch::new(2_048);
        while !stop.load(Relaxed) {
            let Ok(mut kept) = self.kept.lock() else { return };
            let now = clock::now();
            out.clear();
            while kept.peek().is_some_and(|first| first.at <= now) && !out.is_full() {
                let Some(first) = kept.pop() else { break };
                out.push(&first.to, |room| {
                    let length = first.bytes.len().min(room.len());
                    room[..length].copy_from_slice(&first.bytes[..length]);
                    length
                });
            }
            if out.len() > 0 {
                drop(kept);
                let _ = out.send(socket, 0);
                continue;
            }
            let left = kept.peek().map_or(50_000_000, |first| first.at - now);
            let _ = self.come.wait_timeout(kept, Duration::from_nanos(left.min(50_000_000)));
        }
    }
}
