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
}
