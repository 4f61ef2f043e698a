//! Parses messages in place, RFC 7252, section 3.

/// The maximum token length, in bytes (section 3).
pub const TOKEN_LENGTH: usize = 8;

/// Message types (section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The receiver acknowledges it.
    Confirmable,
    /// The receiver does not acknowledge it.
    NonConfirmable,
    /// Acknowledges a confirmable message.
    Acknowledgement,
    /// Rejects a message.
    Reset,
}

/// A well-formed message.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Its type.
    pub kind: Kind,
    /// Class and detail: 2.05 is 0x45.
    pub code: u8,
    /// The message ID.
    pub id: u16,
    /// 0 to 8 bytes.
    pub token: &'a [u8],
    options: &'a [u8],
    /// The bytes after the payload marker; empty without one.
    pub payload: &'a [u8],
}

/// A malformed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// The message ID, if the message is recognisable as confirmable: the recipient must
    /// reject it with a reset (section 4.2).
    pub reset: Option<u16>,
}

impl Kind {
    fn of(first: u8) -> Self {
        match (first >> 4) & 3 {
            0 => Self::Confirmable,
            1 => Self::NonConfirmable,
            2 => Self::Acknowledgement,
            _ => Self::Reset,
        }
    }

    /// The type's two bits in the first byte.
    pub fn bits(self) -> u8 {
        match self {
            Self::Confirmable => 0,
            Self::NonConfirmable => 1,
            Self::Acknowledgement => 2,
            Self::Reset => 3,
        }
    }
}

impl<'a> Message<'a> {
    /// Parses a message.
    ///
    /// # Errors
    /// The bytes are no well-formed message; with the reset that the recipient must send,
    /// if any.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let silent = Malformed { reset: None };
        let header: [u8; 4] = bytes.get(..4).and_then(|h| h.try_into().ok()).ok_or(silent)?;
        // Other versions are silently ignored (section 3).
        if header[0] >> 6 != 1 {
            return Err(silent);
        }
        let (kind, code) = (Kind::of(header[0]), header[1]);
        let id = u16::from_be_bytes([header[2], header[3]]);
        // A malformed message of another type is ignored (sections 4.2, 4.3).
        let wrong = Malformed { reset: (kind == Kind::Confirmable).then_some(id) };
        let length = usize::from(header[0] & 0x0f);
        // Classes 1, 6 and 7 are reserved; an empty message is only a header (section 4.1).
        if length > TOKEN_LENGTH
            || matches!(code >> 5, 1 | 6 | 7)
            || code == 0 && (bytes.len() > 4 || length > 0)
        {
            return Err(wrong);
        }
        let token = bytes.get(4..4 + length).ok_or(wrong)?;
        let rest = &bytes[4 + length..];
        let (options, payload) = split(rest).ok_or(wrong)?;
        Ok(Self { kind, code, id, token, options, payload })
    }

    /// Whether it has any options.
    pub fn has_options(&self) -> bool {
        !self.options.is_empty()
    }

    /// The number and value of each option, in ascending order.
    pub fn options(&self) -> Options<'a> {
        Options { rest: self.options, number: 0 }
    }

    /// Whether it is a request: class 0 with a detail.
    pub fn is_request(&self) -> bool {
        self.code != 0 && self.code < 0x20
    }

    /// Whether it is a response: class 2, 4 or 5.
    pub fn is_response(&self) -> bool {
        // Codes 2.00 to 5.31 (section 12.1); `parse` rejects those beyond.
        self.code >= 0x40
    }
}

/// The options of a message.
pub struct Options<'a> {
    rest: &'a [u8],
    number: u16,
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);
    fn next(&mut self) -> Option<Self::Item> {
        let (number, value, rest) = option(self.rest, self.number)?;
        (self.rest, self.number) = (rest, number);
        Some((number, value))
    }
}

/// Parses the first option of the bytes, after an option with the number `before`. Returns
/// the option and the remaining bytes; None if it is malformed (section 3.1).
fn option(bytes: &[u8], before: u16) -> Option<(u16, &[u8], &[u8])> {
    let (first, mut rest) = bytes.split_first()?;
    let delta = extended(first >> 4, &mut rest)?;
    let length = usize::from(extended(first & 0x0f, &mut rest)?);
    // Numbers have 16 bits; a sum beyond is an error of the format.
    let number = before.checked_add(delta)?;
    let (value, rest) = rest.split_at_checked(length)?;
    Some((number, value, rest))
}

/// Splits the bytes after the token into options and payload; None if they are malformed.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut rest, mut number) = (bytes, 0);
    while let Some(first) = rest.first() {
        if *first == 0xff {
            // A marker without a payload is an error.
            let payload = &rest[1..];
            let options = &bytes[..bytes.len() - rest.len()];
            return (!payload.is_empty()).then_some((options, payload));
        }
        (number, _, rest) = option(rest, number)?;
    }
    Some((bytes, &[]))
}

/// Decodes a delta or length with its zero to two extension bytes.
fn extended(nibble: u8, rest: &mut &[u8]) -> Option<u16> {
    let take = |rest: &mut &[u8], count: usize| -> Option<u16> {
        let bytes = rest.get(..count)?;
        let value = bytes.iter().fold(0u16, |sum, byte| sum << 8 | u16::from(*byte));
        *rest = &rest[count..];
        Some(value)
    };
    match nibble {
        13 => take(rest, 1)?.checked_add(13),
        14 => take(rest, 2)?.checked_add(269),
        // Reserved for the payload marker (section 3.1).
        15 => None,
        small => Some(u16::from(small)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Writer, code, number};
    use coap_lite::Packet;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_message_is_seen() {
        let mut sound = [0; 15];
        let mut writer = Writer::new(&mut sound, Kind::NonConfirmable, code::GET, 1, &[1; 8]);
        writer.option(number::URI_PATH, b"r1");
        assert_eq!(writer.end(b""), sound.len());
        assert!(Message::parse(&sound).is_ok());
        for cut in 0..12 {
            assert!(Message::parse(&sound[..cut]).is_err(), "{cut}");
        }
        let reset = |bytes: &[u8]| Message::parse(bytes).unwrap_err().reset;
        assert_eq!(reset(&[0x80, 0x45, 0, 1]), None, "version 2");
        assert_eq!(reset(&[0x49, 0x45, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Some(7), "a long token");
        assert_eq!(reset(&[0x40, 0x25, 0, 1]), Some(1), "a reserved class");
        assert_eq!(reset(&[0x50, 0x25, 0, 1]), None, "not to be confirmed");
        assert_eq!(reset(&[0x40, 0x45, 0, 1, 0xff]), Some(1), "a marker alone");
        assert_eq!(reset(&[0x40, 0x45, 0, 1, 0xf0]), Some(1), "a reserved nibble");
        assert_eq!(reset(&[0x40, 0x45, 0, 1, 0xd0]), Some(1), "a cut option");
        assert_eq!(reset(&[0x41, 0, 0, 1, 5]), Some(1), "an empty message with a token");
        assert!(Message::parse(&[0x60, 0, 0, 1]).is_ok(), "an empty acknowledgement");
    }

    proptest! {
        #[test]
        fn any_bytes_are_no_panic_and_no_stricter_than_the_other_codec(
            mut bytes in proptest::collection::vec(any::<u8>(), 4..40),
        ) {
            bytes[0] = 0x40 | bytes[0] & 0x33;
            let ours = Message::parse(&bytes);
            let theirs = Packet::from_bytes(&bytes);
            // This parser also rejects reserved classes and empty markers.
            prop_assert!(ours.is_err() || theirs.is_ok(), "{bytes:02x?}");
            let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return Ok(()) };
            prop_assert_eq!(ours.payload, theirs.payload.as_slice());
            prop_assert_eq!(ours.token, theirs.get_token());
            let count: usize = theirs.options().map(|(_, values)| values.len()).sum();
            prop_assert_eq!(ours.options().count(), count);
        }
    }
}
