//! Reproducible draws: xorshift64*.

/// A stream of draws.
pub struct Draws(u64);

impl Draws {
    /// Draws from a seed; `stream` separates streams of one seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut draws = Self((seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1);
        // Neighbouring seeds have similar first outputs.
        for _ in 0..8 {
            draws.next();
        }
        draws
    }

    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`, which is above 0.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    /// Whether something of this probability (0 to 1) happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        ((self.next() >> 11) as f64 / (1_u64 << 53) as f64) < probability
    }
}
