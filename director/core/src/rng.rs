//! Random numbers: ChaCha20 (RFC 8439) from a 256-bit seed. One output says nothing of another.

use crate::crypto::hmac;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng as _, SeedableRng};
use core::fmt;

/// The seed of all random decisions of an end of a session: 256 bits, from the system's generator
/// or, in tests and simulations, from a number.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

impl Seed {
    /// From 256 random bits. Two starts of an end must not use the same ones.
    pub fn new(bits: [u8; 32]) -> Self {
        Self(bits)
    }

    /// From the system's generator.
    ///
    /// # Errors
    /// [`NoRandomness`] if the system provides none.
    #[cfg(feature = "std")]
    pub fn from_system() -> Result<Self, NoRandomness> {
        let mut bits = [0; 32];
        let system = ring::rand::SystemRandom::new();
        ring::rand::SecureRandom::fill(&system, &mut bits).map_err(|_| NoRandomness)?;
        Ok(Self(bits))
    }

    /// From a number, for tests and simulations that must be reproducible: it provides no security.
    pub fn reproducible(number: u64) -> Self {
        Self([0; 32]).child(number)
    }

    /// A seed for a part of this end.
    #[must_use]
    pub fn child(&self, number: u64) -> Self {
        // A pseudorandom function: a child discloses nothing of its parent or of other children.
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let tag = hmac::sign(&key, &number.to_be_bytes());
        let mut bits = [0; 32];
        bits.copy_from_slice(tag.as_ref());
        Self(bits)
    }

    /// Its bits.
    #[cfg_attr(
        not(any(feature = "quic", feature = "io")),
        expect(dead_code, reason = "only QUIC and storages need them")
    )]
    pub(crate) fn bits(&self) -> [u8; 32] {
        self.0
    }
}

/// The system provides no random numbers.
#[cfg(feature = "std")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot read random numbers from the system")]
pub struct NoRandomness;

/// The generator.
#[derive(Debug)]
pub(crate) struct Rng(ChaCha20Rng);

impl Rng {
    /// From a seed.
    pub fn new(seed: &Seed) -> Self {
        Self(ChaCha20Rng::from_seed(seed.0))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Random bytes, for keys and identifiers.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// A seed for a part of this end.
    pub fn seed(&mut self) -> Seed {
        Seed(self.bytes())
    }

    /// A uniform number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        // 53 bits, the precision of an `f64`: each value is exact, and 1 is not reached.
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_spread_and_seeds_differ() {
        for seed in [0, 1, u64::MAX] {
            let mut rng = Rng::new(&Seed::reproducible(seed));
            let mean = (0..10_000).map(|_| rng.uniform()).sum::<f64>() / 1e4;
            assert!((mean - 0.5).abs() < 0.02, "{seed}: {mean}");
        }
        let first: std::collections::HashSet<u64> =
            (0..10_000).map(|seed| Rng::new(&Seed::reproducible(seed)).bits()).collect();
        assert_eq!(first.len(), 10_000);
        let seed = Seed::from_system().unwrap();
        assert_ne!(seed, Seed::from_system().unwrap());
        assert_ne!(seed.child(1), seed.child(2));
        assert_eq!(seed.child(1), seed.child(1));
    }

    /// The first block of RFC 8439, appendix A.1, test vector 1: key and nonce of zeros.
    #[test]
    fn it_is_chacha20() {
        let mut rng = Rng::new(&Seed::new([0; 32]));
        let first = [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90];
        assert_eq!(rng.bytes::<8>(), first);
    }
}
