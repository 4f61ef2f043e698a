//! Seeded choices: the same seed gives the same lab and the same commands.

/// A stream of random numbers (SplitMix64, see `units::words`).
pub struct Dice(Box<dyn Iterator<Item = u64>>);

impl Dice {
    /// The random numbers of `purpose` in the sequence of `seed`. Commands and checks use separate
    /// streams, so that a new check does not change the commands of a seed.
    pub fn new(seed: u64, purpose: u64) -> Self {
        Self(Box::new(units::words(
            seed.wrapping_mul(0x0001_0000_0001).wrapping_add(purpose << 56),
        )))
    }

    /// A number below `limit`, which is above 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.0.next().unwrap_or(0) % limit as u64) as usize
    }

    /// True with a probability of `percent`.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `all`, which is not empty.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// One of `all`, by weight.
    pub fn weighted<T: Copy>(&mut self, all: &[(usize, T)]) -> T {
        let mut left = self.below(all.iter().map(|(weight, _)| weight).sum());
        for (weight, value) in all {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *value,
            }
        }
        all[0].1
    }
}
