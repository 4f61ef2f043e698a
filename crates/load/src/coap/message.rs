//! Messages looked at where they lie, RFC 7252, section 3.

/// The longest token (section 3).
pub(crate) const TOKEN_LENGTH: usize = 8;

/// Kinds of messages (section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Confirmable,
    NonConfirmable,
    Acknowledgement,
    Reset,
}

/// A message whose parts are known to be sound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub kind: Kind,
    /// Class and detail: 2.05 is 0x45.
    pub code: u8,
    pub id: u16,
    pub token: &'a [u8],
    options: &'a [u8],
    /// What follows the marker; nothing if there is none.
    pub payload: &'a [u8],
}

/// What bytes are that are no sound message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// The message id, if it can be told that the message was to be confirmable: its recipient
    /// rejects it by a reset (section 4.2).
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

    /// Its two bits in the first byte.
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
    /// Looks at a message.
    ///
    /// # Errors
    /// Bytes that are none, with what their recipient owes the sender.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let silent = Malformed { reset: None };
        let header: [u8; 4] = bytes.get(..4).and_then(|h| h.try_into().ok()).ok_or(silent)?;
        // Other versions are ignored in silence (section 3).
        if header[0] >> 6 != 1 {
            return Err(silent);
        }
        let (kind, code) = (Kind::of(header[0]), header[1]);
        let id = u16::from_be_bytes([header[2], header[3]]);
        let wrong = Malformed { reset: (kind == Kind::Confirmable).then_some(id) };
        let length = usize::from(header[0] & 0x0f);
        // Classes 1, 6 and 7 are reserved; an empty message is its header alone (section 4.1).
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

    /// The number and the value of each option, in ascending order.
    pub fn options(&self) -> Options<'a> {
        Options { rest: self.options, number: 0 }
    }

    /// Whether it is a request: class 0 with a detail.
    pub fn is_request(&self) -> bool {
        self.code != 0 && self.code < 0x20
    }

    /// Whether it is a response: class 2, 4 or 5.
    pub fn is_response(&self) -> bool {
        self.code >= 0x40
    }
}

/// The options of a message.
pub(crate) struct Options<'a> {
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

/// The option that the bytes begin with, after one of the number `before`, and what follows
/// it; nothing if they are no sound option (section 3.1).
fn option(bytes: &[u8], before: u16) -> Option<(u16, &[u8], &[u8])> {
    let (first, mut rest) = bytes.split_first()?;
    let delta = extended(first >> 4, &mut rest)?;
    let length = usize::from(extended(first & 0x0f, &mut rest)?);
    let number = before.checked_add(delta)?;
    let (value, rest) = rest.split_at_checked(length)?;
    Some((number, value, rest))
}

/// Options and payload of what follows the token; nothing if they are not sound.
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

/// A delta or length with its one or two further bytes.
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
        15 => None,
        small => Some(u16::from(small)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coap::template;
    use coap_lite::Packet;
    use proptest::prelude::*;
    use trace::Method;

    #[test]
    fn what_is_no_message_is_seen() {
        let sound = template(Method::Get, "10.0.0.1", "r1", 0, false);
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
            // Ours refuses reserved classes and empty markers, too.
            prop_assert!(ours.is_err() || theirs.is_ok(), "{bytes:02x?}");
            let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return Ok(()) };
            prop_assert_eq!(ours.payload, theirs.payload.as_slice());
            prop_assert_eq!(ours.token, theirs.get_token());
            let count: usize = theirs.options().map(|(_, values)| values.len()).sum();
            prop_assert_eq!(ours.options().count(), count);
        }
    }
}
