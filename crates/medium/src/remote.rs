//! What others want of a running engine.

use crate::{Change, Impairment, Instant, Segment, Waker, Way};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What is asked of each link, by segment and endpoint: up, then down.
pub type Asked = Vec<Vec<[Impairment; 2]>>;

enum Wish {
    Change(usize, Change),
    Tell(SyncSender<Asked>),
}

/// Wishes that wait for the engine.
#[derive(Default)]
pub(crate) struct Wishes {
    wishes: Mutex<Vec<Wish>>,
    any: AtomicBool,
}

impl std::fmt::Debug for Wishes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wishes")
    }
}

impl Wishes {
    /// Fulfils what waits; costs a look at a flag when nothing does.
    pub fn fulfil(&self, segments: &mut [Segment], now: Instant) {
        if !self.any.swap(false, Relaxed) {
            return;
        }
        let mut wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        for wish in wishes.drain(..) {
            match wish {
                Wish::Change(segment, change) => {
                    if let Some(segment) = segments.get_mut(segment) {
                        segment.change(change, now);
                    }
                }
                Wish::Tell(to) => {
                    let ends = |segment: &Segment| {
                        let ends = 0..segment.endpoints();
                        let asked = |end, way| segment.asked(end, way).clone();
                        ends.map(|end| [Way::Up, Way::Down].map(|way| asked(end, way))).collect()
                    };
                    // Who asked may have gone.
                    let _ = to.try_send(segments.iter().map(ends).collect());
                }
            }
        }
    }
}

/// A hold on a running engine, for other threads.
#[derive(Debug, Clone)]
pub struct Remote {
    pub(crate) wishes: Arc<Wishes>,
    pub(crate) waker: Waker,
}

impl Remote {
    /// Makes a change of a segment, as soon as the engine comes to it.
    pub fn change(&self, segment: usize, change: Change) {
        self.wish(Wish::Change(segment, change));
    }

    /// What is asked of links now; nothing when the engine does not answer within
    /// a second.
    pub fn asked(&self) -> Option<Asked> {
        let (to, from) = sync_channel(1);
        self.wish(Wish::Tell(to));
        from.recv_timeout(Duration::from_secs(1)).ok()
    }

    fn wish(&self, wish: Wish) {
        self.wishes.wishes.lock().unwrap_or_else(PoisonError::into_inner).push(wish);
        self.wishes.any.store(true, Relaxed);
        self.waker.wake();
    }
}
