//! Block options (RFC 7959, section 2.2).

/// A block option: number, more flag and size exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Block number, from 0.
    pub number: u32,
    /// Whether more blocks follow.
    pub more: bool,
    /// The size is 2 to the power of (exponent + 4); 7 is BERT, with 1024 (RFC 8323).
    pub exponent: u8,
}

impl Block {
    /// Block `number` with a block size of 16, 32, ... 1024.
    pub fn sized(number: u32, more: bool, size: usize) -> Self {
        let exponent = (size.clamp(16, 1024).ilog2() - 4) as u8;
        Self { number, more, exponent }
    }

    /// Decodes an option value.
    pub fn of(value: &[u8]) -> Self {
        let whole = value.iter().take(3).fold(0, |whole, byte| whole << 8 | u32::from(*byte));
        Self { number: whole >> 4, more: whole & 8 != 0, exponent: (whole & 7) as u8 }
    }

    /// Encodes the option value, with the minimum number of bytes.
    pub fn bytes(self) -> Vec<u8> {
        let whole = self.number << 4 | u32::from(self.more) << 3 | u32::from(self.exponent);
        let bytes = whole.to_be_bytes();
        let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
        bytes[first..].to_vec()
    }

    /// Block size in bytes.
    pub fn size(self) -> usize {
        16 << self.exponent.min(6)
    }

    /// Byte offset of the block.
    pub fn offset(self) -> usize {
        self.number as usize * self.size()
    }

    /// This block of `whole`, with the more flag set; none if it starts after the end.
    pub fn cut(self, whole: &[u8]) -> Option<(Self, &[u8])> {
        let rest = whole.get(self.offset()..)?;
        let part = &rest[..rest.len().min(self.size())];
        Some((Self { more: rest.len() > part.len(), ..self }, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_in_the_standard() {
        // RFC 7959, section 3: 2:0/1/64 and 2:1/1/64 and 1:1/0/128.
        assert_eq!(Block::sized(0, true, 64).bytes(), [0b1010]);
        assert_eq!(Block::sized(1, true, 64).bytes(), [0b1_1010]);
        assert_eq!(Block::sized(1, false, 128).bytes(), [0b1_0011]);
        assert!(Block::sized(0, false, 16).bytes().is_empty(), "zero has no bytes");
        assert_eq!(Block::sized(5000, true, 1024).bytes().len(), 3);
        for block in [Block::sized(0, false, 16), Block::sized(70_000, true, 256)] {
            assert_eq!(Block::of(&block.bytes()), block);
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
