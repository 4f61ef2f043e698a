//! Fields of MQTT packets: numbers, texts, lengths (MQTT 3.1.1 and 5, section 1.5).

/// A packet that the standard forbids, or that is too long; the connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// What is wrong.
    pub why: &'static str,
    /// The reason code that an MQTT 5 client gets.
    pub code: u8,
}

impl Malformed {
    /// Bytes that are no packet.
    pub const fn bytes(why: &'static str) -> Self {
        Self { why, code: crate::reason::MALFORMED }
    }

    /// A packet that is well formed, and not allowed.
    pub const fn protocol(why: &'static str) -> Self {
        Self { why, code: crate::reason::PROTOCOL_ERROR }
    }
}

/// The rest of a packet.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next bytes.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(Malformed::bytes("too short"))?;
        self.0 = rest;
        Ok(head)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A number of two bytes.
    pub fn number(&mut self) -> Result<u16, Malformed> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A number of four bytes.
    pub fn long(&mut self) -> Result<u32, Malformed> {
        self.take(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A packet's number, which is not 0 (2.3.1).
    pub fn id(&mut self) -> Result<u16, Malformed> {
        match self.number()? {
            0 => Err(Malformed::bytes("a packet has number 0")),
            id => Ok(id),
        }
    }

    /// A number of one to four bytes, seven bits each, lowest first.
    pub fn length(&mut self) -> Result<usize, Malformed> {
        let mut length = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            length |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(length);
            }
        }
        Err(Malformed::bytes("a length of five bytes"))
    }

    /// Bytes with their length.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number()?;
        self.take(length.into())
    }

    /// A text with its length.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        let text =
            std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::bytes("not UTF-8 text"))?;
        match text.contains('\0') {
            true => Err(Malformed::bytes("a text with a zero")),
            false => Ok(text),
        }
    }
}

/// A text with its length. It ends at 65,535 bytes, or before: never inside a character.
pub fn text(text: &str) -> Vec<u8> {
    let length = text.floor_char_boundary(usize::from(u16::MAX));
    [&(length as u16).to_be_bytes()[..], &text.as_bytes()[..length]].concat()
}

/// Appends a number as [`Reader::length`] reads it; it has 28 bits.
pub fn write_length(to: &mut Vec<u8>, length: usize) {
    let mut rest = length;
    while rest > 127 {
        to.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_never_ends_inside_a_character() {
        let written = text(&"ü".repeat(40_000));
        assert_eq!(written[..2], 65_534_u16.to_be_bytes());
        assert_eq!(std::str::from_utf8(&written[2..]).unwrap().chars().count(), 32_767);
    }

    #[test]
    fn lengths_are_those_of_the_standard() {
        // Table 1-1 of MQTT 5.
        for length in [0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455] {
            let mut bytes = Vec::new();
            write_length(&mut bytes, length);
            assert_eq!(Reader(&bytes).length(), Ok(length));
        }
    }
}
