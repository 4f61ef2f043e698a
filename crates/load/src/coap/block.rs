//! The Block option, RFC 7959, section 2.2.

use trace::LARGEST_BLOCK;

/// The number of blocks: block numbers have 20 bits.
const BLOCK_NUMBERS: u32 = 1 << 20;

/// A Block option: block number, size, and whether more blocks follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// From 0.
    pub number: u32,
    pub more: bool,
    /// The size exponent: 0 is 16 B, 6 is 1024 B.
    pub exponent: u8,
}

impl Block {
    /// The block of this size at `offset`, which is a multiple of the size; None beyond the
    /// largest block number.
    pub fn at(offset: usize, size: usize, more: bool) -> Option<Self> {
        let number = u32::try_from(offset / size).ok().filter(|number| *number < BLOCK_NUMBERS)?;
        Some(Self { number, more, exponent: exponent(size) })
    }

    /// Decodes an option's value; None if it is too long or has the reserved exponent 7.
    pub fn decode(value: &[u8]) -> Option<Self> {
        if value.len() > 3 {
            return None;
        }
        let bits = value.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
        let exponent = (bits & 7) as u8;
        (exponent < 7).then_some(Self { number: bits >> 4, more: bits & 8 != 0, exponent })
    }

    /// Encodes the option's value in the minimum number of bytes: the bytes and their
    /// number.
    pub fn encode(self) -> ([u8; 4], usize) {
        let bits = self.number << 4 | u32::from(self.more) << 3 | u32::from(self.exponent);
        let skipped = bits.leading_zeros() as usize / 8;
        let mut bytes = [0; 4];
        bytes[..4 - skipped].copy_from_slice(&bits.to_be_bytes()[skipped..]);
        (bytes, 4 - skipped)
    }

    /// The block size, in bytes.
    pub fn size(self) -> usize {
        16 << self.exponent
    }

    /// The block's offset, in bytes.
    pub fn offset(self) -> usize {
        self.number as usize * self.size()
    }
}

/// The size exponent of a power of two from 16 to 1024.
pub(crate) fn exponent(size: usize) -> u8 {
    size.clamp(16, usize::from(LARGEST_BLOCK)).ilog2() as u8 - 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_standard() {
        // RFC 7959, section 3: 2:0/1/128 is 0x0b, 2:1/0/64 is 0x12.
        let first = Block { number: 0, more: true, exponent: 3 };
        assert_eq!(Block::decode(&[0x0b]), Some(first));
        assert_eq!((first.size(), first.offset(), first.encode().0[0]), (128, 0, 0x0b));
        assert_eq!(Block::decode(&[]), Block::at(0, 16, false));
        assert_eq!(Block::at(0, 16, false).unwrap().encode().1, 0);
        let far = Block::at(4_096 * 1_024, 1_024, true).unwrap();
        assert_eq!(far.encode(), ([0x01, 0x00, 0x0e, 0], 3));
        assert_eq!(Block::decode(&[0x07]), None, "reserved");
        assert_eq!(Block::decode(&[0; 4]), None, "too long");
        assert_eq!(Block::at(1 << 24, 16, true), None, "beyond all numbers");
    }

    #[test]
    fn every_block_reads_back() {
        for number in [0, 1, 15, 16, 4_095, 4_096, BLOCK_NUMBERS - 1] {
            for exponent in 0..7 {
                for more in [false, true] {
                    let block = Block { number, more, exponent };
                    let (bytes, length) = block.encode();
                    assert_eq!(Block::decode(&bytes[..length]), Some(block));
                    assert_eq!(Block::at(block.offset(), block.size(), more), Some(block));
                }
            }
        }
    }
}
