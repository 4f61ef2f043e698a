//! Option values that are unsigned integers (RFC 7252, section 3.2).

use std::ops::Deref;

/// An encoded integer: as few bytes as possible, none for 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uint {
    bytes: [u8; 4],
    first: usize,
}

impl Uint {
    /// Encodes a value.
    pub fn encode(value: u32) -> Self {
        // 0 has 32 leading zeros, so no byte is left.
        Self { bytes: value.to_be_bytes(), first: value.leading_zeros() as usize / 8 }
    }

    /// Decodes a value of at most `most` bytes, 4 or fewer; none if it is longer.
    pub fn decode(value: &[u8], most: usize) -> Option<u32> {
        (value.len() <= most)
            .then(|| value.iter().fold(0, |sum: u32, byte| sum << 8 | u32::from(*byte)))
    }
}

impl Deref for Uint {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.first..]
    }
}
