//! Duplicate detection: each message is delivered once, whichever model carries it.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;

/// Size of the windows over a hub's messages, in messages: 16 times as many as a hub has open.
pub const MESSAGES: usize = 1 << 14;
/// Messages after which an older one may be below such a window: a whole word leaves it at a time.
pub const OVERTAKEN: u64 = MESSAGES as u64 - 64;

/// Replay window over the message numbers of a sender.
#[derive(Debug, Clone)]
pub struct Window {
    /// The smallest number in the window; all smaller numbers count as received.
    from: u64,
    /// One bit per number from `from` on, in a ring.
    bits: Vec<u64>,
}

impl Window {
    /// A window of `numbers` message numbers, rounded up to a multiple of 64; at least 64.
    pub fn new(numbers: usize) -> Self {
        Self { from: 0, bits: vec![0; numbers.div_ceil(64).max(1)] }
    }

    /// The same, in which all numbers before `next` count as received.
    pub fn beginning_at(next: u64, numbers: usize) -> Self {
        let mut window = Self { from: next / 64 * 64, ..Self::new(numbers) };
        (window.from..next).for_each(|number| {
            window.insert(number);
        });
        window
    }

    fn room(&self) -> u64 {
        self.bits.len() as u64 * 64
    }

    /// Marks `number` as received; returns whether it was new. A number below the window is
    /// not new: losing a message is better than delivering it twice. Senders end messages
    /// before they are below the window (`OVERTAKEN`).
    pub fn insert(&mut self, number: u64) -> bool {
        if self.is_below(number) {
            return false;
        }
        if number - self.from >= self.room() {
            self.advance(number - self.room() + 1);
        }
        let (word, bit) = self.place(number);
        let new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        new
    }

    /// Whether a number was received, or is below the window.
    pub fn has(&self, number: u64) -> bool {
        if number < self.from {
            return true;
        }
        let (word, bit) = self.place(number);
        number - self.from < self.room() && self.bits[word] & bit != 0
    }

    /// Whether a number is below the window, so that it is not known whether it was received.
    pub fn is_below(&self, number: u64) -> bool {
        number < self.from
    }

    /// A number that was received may be received again, as long as the window has it.
    pub fn remove(&mut self, number: u64) {
        if number >= self.from && number - self.from < self.room() {
            let (word, bit) = self.place(number);
            self.bits[word] &= !bit;
        }
    }

    fn place(&self, number: u64) -> (usize, u64) {
        ((number / 64) as usize % self.bits.len(), 1 << (number % 64))
    }

    /// Moves the window up to `from` or the next multiple of 64.
    fn advance(&mut self, from: u64) {
        // Whole words only, so up to 63 numbers leave early: lost rather than delivered twice.
        let (old, new) = (self.from / 64, from.div_ceil(64));
        if new - old >= self.bits.len() as u64 {
            self.bits.fill(0);
        } else {
            for word in old..new {
                let place = (word % self.bits.len() as u64) as usize;
                self.bits[place] = 0;
            }
        }
        self.from = new * 64;
    }
}

/// Restores a full number from its low 16 bits: the candidate nearest to `near`.
pub fn widen(low: u16, near: u64) -> u64 {
    // Right as long as both ends differ by less than 2^15; a hub has 1,024 messages open.
    widen_from(low.into(), u16::BITS, near)
}

/// The same from the low `bits`, fewer than 64: right as long as both ends differ by less than half of
/// what they count.
pub fn widen_from(low: u64, bits: u32, near: u64) -> u64 {
    let all = 1_u64 << bits;
    let base = near & !(all - 1);
    let candidates = [base.checked_sub(all), Some(base), base.checked_add(all)];
    let numbers = candidates.into_iter().flatten().map(|base| base | low);
    numbers.min_by_key(|number| number.abs_diff(near)).unwrap_or(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn each_passes_once_in_any_order() {
        let mut window = Window::new(128);
        for number in [5, 0, 3, 127, 64] {
            assert!(window.insert(number) && !window.insert(number) && window.has(number));
        }
        assert!(!window.has(1));
        window.remove(3);
        assert!(!window.has(3) && window.has(0) && window.insert(3));
        // The sender restarts far ahead.
        assert!(window.insert(1 << 40) && !window.insert(1 << 40));
        window.remove(5);
        assert!(!window.insert(5), "too old");
    }

    #[test]
    fn what_was_before_the_begin_is_not_new() {
        for next in [0, 1, 63, 64, 65, 1_000, 1 << 40] {
            let mut window = Window::beginning_at(next, 128);
            assert!((0..next.min(200)).all(|back| !window.insert(next - 1 - back)), "{next}");
            assert!((0..128).all(|ahead| window.insert(next + ahead)), "{next}");
        }
    }

    proptest! {
        #[test]
        fn nothing_passes_twice_and_what_is_near_passes(
            steps in prop::collection::vec((0_u64..200, any::<bool>()), 1..400)
        ) {
            let (mut window, mut seen, mut next) = (Window::new(256), HashSet::new(), 0_u64);
            for (back, fresh) in steps {
                let number = if fresh { next } else { next.saturating_sub(back) };
                next = next.max(number + 1);
                let new = window.insert(number);
                if new {
                    prop_assert!(seen.insert(number), "{number} twice");
                } else {
                    // The window drops at most one word early.
                    prop_assert!(seen.contains(&number) || next - number > 192);
                }
            }
        }

        #[test]
        fn numbers_widen_to_the_nearest(near in 0_u64..1 << 40, off in -30_000_i64..30_000) {
            let number = near.saturating_add_signed(off);
            prop_assert_eq!(widen(number as u16, near), number);
            let close = near.saturating_add_signed(off / 16);
            prop_assert_eq!(widen_from(close % (1 << 12), 12, near), close);
        }
    }
}
