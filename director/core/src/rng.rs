//! Seeded, reproducible random numbers.

/// Step of SplitMix64: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// One step of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
/// Generators, OOPSLA 2014): similar seeds give unrelated states.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The generator xorshift64* (Marsaglia; Vigna).
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// From a seed; 0 is valid.
    pub fn new(seed: u64) -> Self {
        // `mix` is a bijection, so seeds differ in their states. xorshift must not start at 0.
        let state = mix(seed);
        Self(if state == 0 { GOLDEN } else { state })
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A uniform number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_spread_and_seeds_differ() {
        for seed in [0, 1, u64::MAX] {
            let mut rng = Rng::new(seed);
            let mean = (0..10_000).map(|_| rng.uniform()).sum::<f64>() / 1e4;
            assert!((mean - 0.5).abs() < 0.02, "{seed}: {mean}");
        }
        let first: std::collections::HashSet<u64> =
            (0..10_000).map(|seed| Rng::new(seed).bits()).collect();
        assert_eq!(first.len(), 10_000, "each seed draws otherwise, 2 as well as 3");
    }
}
