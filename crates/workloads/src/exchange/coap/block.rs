//! Block options (RFC 7959, section 2.2).

/// A block: which, whether more follow, and its size as an exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Its number, from 0.
    pub number: u32,
    /// Whether more follow.
    pub more: bool,
    /// The size is 2 to the power of this and 4; 7 is BERT's, of 1024 (RFC 8323).
    pub exponent: u8,
}

impl Block {
    /// The block `number` of a size that is 16, 32 and so on to 1024.
    pub fn sized(number: u32, more: bool, size: usize) -> Self {
        let exponent = (size.clamp(16, 1024).ilog2() - 4) as u8;
        Self { number, more, exponent }
    }

    /// As an option's value has it.
    pub fn of(value: &[u8]) -> Self {
        let whole = value.iter().take(3).fold(0, |whole, byte| whole << 8 | u32::from(*byte));
        Self { number: whole >> 4, more: whole & 8 != 0, exponent: (whole & 7) as u8 }
    }

    /// The option's value: as few bytes as there must be.
    pub fn bytes(self) -> Vec<u8> {
        let whole = self.number << 4 | u32::from(self.more) << 3 | u32::from(self.exponent);
        let bytes = whole.to_be_bytes();
        let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
        bytes[first..].to_vec()
    }

    /// Bytes of a block.
    pub fn size(self) -> usize {
        16 << self.exponent.min(6)
    }

    /// Where the block begins.
    pub fn offset(self) -> usize {
        self.number as usize * self.size()
    }

    /// This block of `whole`, with whether more follow; nothing behind the end.
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
        // A whole number of blocks has no empty one after the last.
        assert!(!Block::sized(1, false, 32).cut(&[0; 64]).unwrap().0.more);
    }
}
