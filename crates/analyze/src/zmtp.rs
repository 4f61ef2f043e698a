//! ZMTP, ZeroMQ's protocol (RFC 15, 23 and 37 of the ZeroMQ project).

use crate::message_names::ZMTP as NAMES;
use crate::messages::Messages;
use crate::parser::{Grammar, Need};

/// Places in `NAMES`.
const GREETING: usize = 0;
const MESSAGE: usize = 1;
const FRAME: usize = 2;
const FIRST_COMMAND: usize = 3;

/// The length of the greeting's part that all versions from 2 on share, up to the version.
const SIGNATURE: usize = 11;
/// The length of the rest: before version 3 the socket type, from version 3 on the rest of
/// 64 bytes.
const REST_2: u64 = 1;
const REST_3: u64 = 53;
/// Flags of a frame.
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
/// The maximum length of the parsed part of a command name, including its length byte.
const NAME: u64 = 10;
/// The length of a frame from which on a stream that is joined in its middle does not count as
/// ZMTP.
const MAX_PLAUSIBLE: u64 = 1 << 24;

#[derive(Debug, Clone, Copy)]
enum At {
    Signature,
    Greeting,
    Flags,
    Length { flags: u8 },
    CommandName { left: u64 },
    Body { flags: u8 },
}

#[derive(Debug)]
pub(crate) struct Zmtp {
    at: At,
}

impl Zmtp {
    pub(crate) const FIRST: Need = Need::Header(SIGNATURE);

    pub(crate) fn new() -> Self {
        Self { at: At::Signature }
    }

    /// Whether a stream begins like this.
    pub(crate) fn begins(bytes: &[u8]) -> bool {
        bytes.len() >= 10 && bytes[0] == 0xff && bytes[9] & 1 == 1 && bytes[1..8] == [0; 7]
    }

    fn body(&mut self, flags: u8, length: u64) -> Need {
        if flags & COMMAND == 0 {
            self.at = At::Body { flags };
            return Need::Payload(length);
        }
        let head = length.min(NAME);
        // Longer names than those that are counted are `other command`.
        self.at = At::CommandName { left: length - head };
        if head == 0 { Need::Invalid } else { Need::Header(head as usize) }
    }
}

impl Grammar for Zmtp {
    const LONGEST: usize = SIGNATURE;

    fn next(&mut self, header: &[u8], messages: &mut Messages) -> Need {
        match self.at {
            At::Signature => {
                if !Self::begins(header) {
                    return Need::Invalid;
                }
                self.at = At::Greeting;
                Need::Pass(if header[10] >= 3 { REST_3 } else { REST_2 })
            }
            At::Greeting => {
                messages.zmtp[GREETING] += 1;
                messages.all += 1;
                self.restart()
            }
            At::Flags => {
                let flags = header[0];
                if !known(flags) {
                    return Need::Invalid;
                }
                self.at = At::Length { flags };
                Need::Header(if flags & LONG == 0 { 1 } else { 8 })
            }
            At::Length { flags } => {
                let length = header.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                // Lengths have 63 bits in ZMTP.
                if length >> 63 == 1 { Need::Invalid } else { self.body(flags, length) }
            }
            At::CommandName { left } => {
                let length = usize::from(header[0]);
                let name = header.get(1..=length).unwrap_or_default();
                let known = NAMES[FIRST_COMMAND..].iter().position(|n| n.as_bytes() == name);
                messages.zmtp[known.map_or(NAMES.len() - 1, |place| FIRST_COMMAND + place)] += 1;
                messages.all += 1;
                self.at = At::Body { flags: COMMAND };
                Need::Pass(left)
            }
            At::Body { flags } => {
                if flags & COMMAND == 0 {
                    messages.zmtp[FRAME] += 1;
                }
                if flags & (COMMAND | MORE) == 0 {
                    messages.zmtp[MESSAGE] += 1;
                    // Only the last frame completes a message.
                    messages.all += 1;
                }
                self.restart()
            }
        }
    }

    fn restart(&mut self) -> Need {
        self.at = At::Flags;
        Need::Header(1)
    }

    fn plausible(&self, bytes: &[u8]) -> bool {
        let Some(&flags) = bytes.first() else { return false };
        let length = match (flags & LONG, bytes.get(1..9)) {
            (0, _) => bytes.get(1).map(|length| u64::from(*length)),
            (_, Some(long)) => Some(long.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))),
            _ => None,
        };
        known(flags) && length.is_some_and(|length| (1..MAX_PLAUSIBLE).contains(&length))
    }
}

fn known(flags: u8) -> bool {
    // A command has no further frames.
    flags <= 7 && flags & (COMMAND | MORE) != COMMAND | MORE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::Parser;
    use crate::stream::Piece;

    #[test]
    fn greeting_commands_and_messages_byte_by_byte() {
        let mut all = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
        all.resize(64, 0);
        all.extend(b"\x04\x06\x05READY");
        all.extend(b"\x01\x03one\x02\0\0\0\0\0\0\x01\0");
        all.extend([9; 256]);
        all.extend(b"\x04\x0e\x09SUBSCRIBEabcd");
        let mut parser = Parser::new(Zmtp::new(), Zmtp::FIRST);
        let mut messages = Messages::default();
        let mut payload = 0;
        for byte in &all {
            payload += parser.take(Piece::Bytes(&[*byte]), &mut messages).payload;
        }
        assert_eq!(messages.zmtp[..6], [1, 1, 2, 1, 0, 1]);
        assert_eq!((payload, messages.all), (259, 4));
    }
}
