//! The observer of an engine with one or several threads.

use crate::observer::Observer;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::AcqRel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Instant;

/// The observer, as one thread sees it. A single thread owns it, and takes no lock.
pub(crate) enum SharedObserver<O> {
    Own(O),
    Shared(Arc<Shared<O>>),
}

pub(crate) struct Shared<O> {
    observer: Mutex<O>,
    /// Threads whose measurement has not begun.
    idle: AtomicUsize,
    has_ended: AtomicBool,
}

impl<O: Observer> SharedObserver<O> {
    /// One for each of `threads` threads.
    pub fn split(observer: O, threads: usize) -> Vec<Self> {
        if threads == 1 {
            return vec![Self::Own(observer)];
        }
        let shared = Arc::new(Shared {
            observer: Mutex::new(observer),
            idle: AtomicUsize::new(threads),
            has_ended: AtomicBool::new(false),
        });
        (0..threads).map(|_| Self::Shared(shared.clone())).collect()
    }

    /// The observer, after all threads have ended; `None` before.
    pub fn join(parts: Vec<Self>) -> Option<O> {
        let mut last = None;
        for part in parts {
            last = match part {
                Self::Own(observer) => Some(observer),
                Self::Shared(shared) => Arc::into_inner(shared).map(Shared::into_inner),
            };
        }
        last
    }

    /// Calls `call` with the observer.
    #[inline]
    pub fn with<R>(&mut self, call: impl FnOnce(&mut O) -> R) -> R {
        match self {
            Self::Own(observer) => call(observer),
            Self::Shared(shared) => call(&mut shared.lock()),
        }
    }

    /// This thread's measurement begins: the observer's does with that of the last thread.
    pub fn begin(&mut self, at: Instant) {
        match self {
            Self::Own(observer) => observer.begin(at),
            Self::Shared(shared) if shared.idle.fetch_sub(1, AcqRel) == 1 => {
                shared.lock().begin(at);
            }
            Self::Shared(_) => {}
        }
    }

    /// This thread's measurement ends: the observer's does with that of the first thread, so that
    /// it counts only frames that all links count.
    pub fn end(&mut self, at: Instant) {
        match self {
            Self::Own(observer) => observer.end(at),
            Self::Shared(shared) if !shared.has_ended.swap(true, AcqRel) => shared.lock().end(at),
            Self::Shared(_) => {}
        }
    }
}

impl<O> Shared<O> {
    fn lock(&self) -> MutexGuard<'_, O> {
        self.observer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_inner(self) -> O {
        self.observer.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Place;
    use crate::spec::{Delivery, Drop};
    use crate::test_times::instant;

    #[derive(Default)]
    struct Calls(Vec<(&'static str, Instant)>);

    impl Observer for Calls {
        fn begin(&mut self, at: Instant) {
            self.0.push(("begin", at));
        }
        fn end(&mut self, at: Instant) {
            self.0.push(("end", at));
        }
        fn sent(&mut self, _: Place, _: &[u8], at: Instant) {
            self.0.push(("sent", at));
        }
        fn delivered(&mut self, _: usize, _: &Delivery, _: Instant) {}
        fn dropped(&mut self, _: usize, _: Drop, _: Instant) {}
        fn refused(&mut self, _: Place, _: Instant) {}
    }

    #[test]
    fn the_measurement_is_that_of_all_threads() {
        let place = Place { segment: 0, endpoint: 0 };
        for threads in [1, 3] {
            let mut parts = SharedObserver::split(Calls::default(), threads);
            let last = instant(threads as u64);
            (1..).zip(&mut parts).for_each(|(at, part)| part.begin(instant(at)));
            parts
                .iter_mut()
                .for_each(|part| part.with(|observer| observer.sent(place, &[], instant(7))));
            (8..).zip(&mut parts).for_each(|(at, part)| part.end(instant(at)));
            let Calls(calls) = SharedObserver::join(parts).unwrap();
            assert_eq!((calls[0], calls[threads + 1]), (("begin", last), ("end", instant(8))));
            assert_eq!(calls.len(), threads + 2);
        }
    }
}
