//! The Block option, RFC 7959, section 2.2.

use crate::Uint;

/// The largest block, in bytes.
const LARGEST: usize = 1_024;
/// The number of blocks: block numbers have 20 bits.
const BLOCK_NUMBERS: u32 = 1 << 20;
/// Reserved over UDP; over TCP a series of blocks of 1024 B in one message (RFC 8323, section 6).
const BERT: u8 = 7;

/// A Block option: block number, size, and whether more blocks follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// From 0.
    pub number: u32,
    /// Whether more blocks follow.
    pub more: bool,
    /// The size exponent: 0 is 16 B, 6 is 1024 B.
    pub exponent: u8,
}

impl Block {
    /// Block `number` of blocks of `size` bytes: 16, 32, ... 1024.
    pub fn sized(number: u32, more: bool, size: usize) -> Self {
        Self { number, more, exponent: exponent(size) }
    }

    /// The block of this size at `offset`, which is a multiple of the size; None beyond the
    /// largest block number.
    pub fn at(offset: usize, size: usize, more: bool) -> Option<Self> {
        // None rather than a wrapped number: a body beyond it cannot be carried in such blocks.
        let number = u32::try_from(offset / size).ok().filter(|number| *number < BLOCK_NUMBERS)?;
        Some(Self::sized(number, more, size))
    }

    /// Decodes an option's value; None if it is too long or has the reserved exponent 7.
    pub fn decode(value: &[u8]) -> Option<Self> {
        Self::decode_reliable(value).filter(|block| block.exponent != BERT)
    }

    /// Decodes an option's value of a message over TCP, where the exponent 7 is BERT; None if it
    /// is too long.
    pub fn decode_reliable(value: &[u8]) -> Option<Self> {
        let bits = Uint::decode(value, 3)?;
        Some(Self { number: bits >> 4, more: bits & 8 != 0, exponent: (bits & 7) as u8 })
    }

    /// Encodes the option's value.
    pub fn encode(self) -> Uint {
        // The number, then one bit for more, then three for the size (section 2.2).
        Uint::encode(self.number << 4 | u32::from(self.more) << 3 | u32::from(self.exponent))
    }

    /// The block size, in bytes.
    pub fn size(self) -> usize {
        // BERT counts in blocks of 1024 B, too (RFC 8323, section 6).
        16 << self.exponent.min(6)
    }

    /// The block's offset, in bytes.
    pub fn offset(self) -> usize {
        self.number as usize * self.size()
    }

    /// This block of `whole`, with the more flag set; None if it begins after the end.
    pub fn cut(self, whole: &[u8]) -> Option<(Self, &[u8])> {
        // A block may begin exactly at the end: the only block of an empty body.
        let rest = whole.get(self.offset()..)?;
        let part = &rest[..rest.len().min(self.size())];
        Some((Self { more: rest.len() > part.len(), ..self }, part))
    }
}

/// The size exponent of a power of two from 16 to 1024.
pub fn exponent(size: usize) -> u8 {
    size.clamp(16, LARGEST).ilog2() as u8 - 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_standard() {
        // RFC 7959, section 3: 2:0/1/128 is 0x0b, 2:1/0/64 is 0x12.
        let first = Block { number: 0, more: true, exponent: 3 };
        assert_eq!(Block::decode(&[0x0b]), Some(first));
        assert_eq!((first.size(), first.offset(), first.encode()[0]), (128, 0, 0x0b));
        assert_eq!(Block::decode(&[]), Block::at(0, 16, false));
        assert!(Block::at(0, 16, false).unwrap().encode().is_empty());
        let far = Block::at(4_096 * 1_024, 1_024, true).unwrap();
        assert_eq!(far.encode()[..], [0x01, 0x00, 0x0e]);
        assert_eq!(Block::decode(&[0x07]), None, "reserved");
        assert_eq!(Block::decode_reliable(&[0x17]).unwrap().offset(), 1_024, "BERT");
        assert_eq!(Block::decode(&[0; 4]), None, "too long");
        assert_eq!(Block::at(1 << 24, 16, true), None, "beyond all numbers");
    }

    #[test]
    fn every_block_reads_back() {
        for number in [0, 1, 15, 16, 4_095, 4_096, BLOCK_NUMBERS - 1] {
            for exponent in 0..7 {
                for more in [false, true] {
                    let block = Block { number, more, exponent };
                    assert_eq!(Block::decode(&block.encode()), Some(block));
                    assert_eq!(Block::at(block.offset(), block.size(), more), Some(block));
                }
            }
        }
    }

    #[test]
    fn a_payload_is_cut_into_blocks() {
        let whole = [7; 100];
        let block = |number| Block::sized(number, false, 64).cut(&whole);
        assert_eq!(block(0).map(|(block, part)| (block.more, part.len())), Some((true, 64)));
        assert_eq!(block(1).map(|(block, part)| (block.more, part.len())), Some((false, 36)));
        assert_eq!(block(2), None);
        let (block, part) = Block::sized(0, true, 16).cut(&[]).unwrap();
        assert_eq!((block.more, part.len()), (false, 0));
        // If the last block is full, no empty block follows.
        assert!(!Block::sized(1, false, 32).cut(&[0; 64]).unwrap().0.more);
    }
}
