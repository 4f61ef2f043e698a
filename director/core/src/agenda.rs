//! Who of many has something to do, and when: most have nothing at a time, so none of them is looked at.

use crate::Instant;
use alloc::collections::{BTreeMap, BTreeSet};

/// What is to be polled next. The state of each that is not polled must not change without
/// [`Self::touch`].
pub(crate) struct Agenda<K> {
    /// Those that may have something to do now.
    active: BTreeSet<K>,
    /// Times of others, and the same by key.
    times: BTreeSet<(Instant, K)>,
    wakes: BTreeMap<K, Instant>,
}

impl<K> Default for Agenda<K> {
    fn default() -> Self {
        Self { active: BTreeSet::new(), times: BTreeSet::new(), wakes: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Agenda<K> {
    /// The state of one changes.
    pub fn touch(&mut self, key: K) {
        // One that is active has no time.
        if self.active.insert(key) {
            self.forget_time(key);
        }
    }

    /// One has nothing to do before `until`, or before it is touched.
    pub fn rest(&mut self, key: K, until: Option<Instant>) {
        if !self.active.remove(&key) {
            self.forget_time(key);
        }
        if let Some(at) = until {
            self.times.insert((at, key));
            self.wakes.insert(key, at);
        }
    }

    fn forget_time(&mut self, key: K) {
        if let Some(at) = self.wakes.remove(&key) {
            self.times.remove(&(at, key));
        }
    }

    /// Some may have something to do now, because of the time.
    pub fn wake(&mut self, now: Instant) {
        while let Some((_, key)) = self.times.first().filter(|(at, _)| *at <= now).copied() {
            self.touch(key);
        }
    }

    /// The first that may have something to do, from `first` on.
    pub fn next(&self, first: K) -> Option<K> {
        self.active.range(first..).chain(self.active.range(..first)).next().copied()
    }

    /// Time of the next [`Self::wake`].
    pub fn wake_at(&self) -> Option<Instant> {
        self.times.first().map(|(at, _)| *at)
    }
}
