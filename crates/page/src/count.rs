//! Counts programs that a page has started, so that their number is limited.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The number of running programs of a kind.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

/// One of them, until it is dropped.
pub(crate) struct Counted(Count);

impl Count {
    /// One more, unless there are `most`.
    pub(crate) fn take(&self, most: usize) -> Option<Counted> {
        // Counted before it is compared, so that two requests at once cannot both take the last
        // place. If there are `most`, dropping it takes the count back.
        let counted = Counted(self.clone());
        (self.0.fetch_add(1, Relaxed) < most).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_program_has_ended() {
        let count = Count::default();
        let (one, two) = (count.take(2), count.take(2));
        assert!(one.is_some() && two.is_some() && count.take(2).is_none());
        drop(one);
        assert!(count.take(2).is_some());
    }
    /// A request that is refused must not take a place, also while others end.
    #[test]
    fn there_are_never_more_than_the_most() {
        const MOST: usize = 3;
        let (count, running, most) = (Count::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let Some(place) = count.take(MOST) else { continue };
                        let now = running.fetch_add(1, Relaxed) + 1;
                        most.fetch_max(now, Relaxed);
                        running.fetch_sub(1, Relaxed);
                        drop(place);
                    }
                });
            }
        });
        assert!((1..=MOST).contains(&most.into_inner()));
        let places: Vec<_> = (0..MOST).map(|_| count.take(MOST)).collect();
        assert!(places.iter().all(Option::is_some) && count.take(MOST).is_none());
    }
}
