//! Writes messages into existing buffers, without allocation.

use crate::{Kind, TOKEN_LENGTH, Uint};

/// A message under construction. If it does not fit into its buffer, its length is 0.
pub struct Writer<'a> {
    room: &'a mut [u8],
    at: usize,
    number: u16,
    fits: bool,
}

impl<'a> Writer<'a> {
    /// Begins a message with this header.
    pub fn new(room: &'a mut [u8], kind: Kind, code: u8, id: u16, token: &[u8]) -> Self {
        let fits = token.len() <= TOKEN_LENGTH;
        let mut this = Self { room, at: 0, number: 0, fits };
        this.put(&[1 << 6 | kind.bits() << 4 | (token.len() & 0x0f) as u8, code]);
        this.put(&id.to_be_bytes());
        this.put(token);
        this
    }

    /// Adds an option; option numbers must not decrease.
    pub fn option(&mut self, number: u16, value: &[u8]) {
        let (delta, more_delta) = nibble(number.saturating_sub(self.number));
        let (length, more_length) = nibble(u16::try_from(value.len()).unwrap_or(u16::MAX));
        // Deltas cannot be negative.
        self.fits &= number >= self.number;
        self.number = number;
        self.put(&[delta << 4 | length]);
        for (nibble, more) in [(delta, more_delta), (length, more_length)] {
            match nibble {
                13 => self.put(&[more as u8]),
                14 => self.put(&more.to_be_bytes()),
                _ => {}
            }
        }
        self.put(value);
    }

    /// Adds an option with an integer value in the minimum number of bytes (RFC 7252,
    /// section 3.2).
    pub fn uint(&mut self, number: u16, value: u32) {
        self.option(number, &Uint::encode(value));
    }

    /// Adds the payload. Returns the length of the message.
    pub fn end(mut self, payload: &[u8]) -> usize {
        if !payload.is_empty() {
            self.put(&[0xff]);
            self.put(payload);
        }
        if self.fits { self.at } else { 0 }
    }

    /// Adds a payload of `count` copies of this byte. Returns the length of the message.
    pub fn end_filled(mut self, byte: u8, count: usize) -> usize {
        if count > 0 {
            self.put(&[0xff]);
            match self.room.get_mut(self.at..self.at.saturating_add(count)) {
                Some(room) => room.fill(byte),
                None => self.fits = false,
            }
            self.at = self.at.saturating_add(count);
        }
        if self.fits { self.at } else { 0 }
    }

    fn put(&mut self, bytes: &[u8]) {
        match self.room.get_mut(self.at..self.at + bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => self.fits = false,
        }
        self.at += bytes.len();
    }
}

/// A delta or length as its four bits and its extension value (RFC 7252, section 3.1).
fn nibble(value: u16) -> (u8, u16) {
    match value {
        0..13 => (value as u8, 0),
        13..269 => (13, value - 13),
        _ => (14, value - 269),
    }
}

/// Writes a message without options. Returns its length.
pub fn answer(
    room: &mut [u8],
    kind: Kind,
    code: u8,
    id: u16,
    token: &[u8],
    payload: &[u8],
) -> usize {
    Writer::new(room, kind, code, id, token).end(payload)
}

/// Writes an empty message (header only). Returns its length.
pub fn empty(room: &mut [u8], kind: Kind, id: u16) -> usize {
    answer(room, kind, 0, id, &[], &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, code::CONTENT};
    use coap_lite::{CoapOption, MessageType, Packet};
    use proptest::prelude::*;

    #[test]
    fn answers_are_what_another_codec_reads() {
        let mut room = [0; 64];
        let length = answer(&mut room, Kind::Acknowledgement, CONTENT, 7, b"tok", b"21.5");
        let packet = Packet::from_bytes(&room[..length]).unwrap();
        assert_eq!(packet.header.get_type(), MessageType::Acknowledgement);
        assert_eq!(packet.header.message_id, 7);
        assert_eq!((packet.get_token(), packet.payload.as_slice()), (&b"tok"[..], &b"21.5"[..]));
        assert_eq!(packet.header.code.to_string(), "2.05");
        assert_eq!(answer(&mut room[..8], Kind::Reset, 0, 7, b"", b"too long here"), 0);
        assert_eq!(answer(&mut room, Kind::Reset, 0, 7, b"nine byte", b""), 0);
        let mut writer = Writer::new(&mut room, Kind::Confirmable, CONTENT, 7, b"");
        writer.option(23, b"");
        writer.option(11, b"descending");
        assert_eq!(writer.end(b""), 0);
    }

    proptest! {
        #[test]
        fn options_of_any_number_and_length_read_back(
            mut numbers in proptest::collection::vec(any::<u16>(), 0..8),
            length in 0usize..600,
            value in any::<u32>(),
            filled in 0usize..300,
        ) {
            numbers.sort_unstable();
            let mut room = [0; 8_192];
            let mut writer = Writer::new(&mut room, Kind::Confirmable, CONTENT, 1, b"token");
            let bytes = vec![7; length];
            for number in &numbers {
                writer.option(*number, &bytes);
            }
            let last = numbers.last().copied().unwrap_or(0);
            writer.uint(last, value);
            let end = writer.end_filled(b'x', filled);
            let message = Message::parse(&room[..end]).unwrap();
            let read: Vec<u16> = message.options().map(|(number, _)| number).collect();
            numbers.push(last);
            prop_assert_eq!(&read, &numbers);
            let (_, uint) = message.options().last().unwrap();
            let read = uint.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
            prop_assert!(read == u64::from(value) && uint.first() != Some(&0));
            prop_assert_eq!(message.payload.len(), filled);
            let packet = Packet::from_bytes(&room[..end]).unwrap();
            prop_assert!(packet.get_option(CoapOption::from(last)).is_some());
        }
    }
}
