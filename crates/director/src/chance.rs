//! What chance decides, from a seed: the same each time.

/// Draws by xorshift64* (Marsaglia; Vigna).
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// From a seed; 0 is as good as any other.
    pub fn new(seed: u64) -> Self {
        // The generator's state is never 0.
        Self(seed ^ 0x9E37_79B9_7F4A_7C15 | 1)
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from 0 to below 1.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_spread_and_seeds_differ() {
        for seed in [0, 1, u64::MAX] {
            let mut chance = Chance::new(seed);
            let mean = (0..10_000).map(|_| chance.share()).sum::<f64>() / 1e4;
            assert!((mean - 0.5).abs() < 0.02, "{seed}: {mean}");
        }
        assert_ne!(Chance::new(2).bits(), Chance::new(4).bits());
    }
}
