//! MQTT's control packets (OASIS, MQTT 3.1.1 and 5.0, section 2).

use crate::messages::Messages;
use crate::parser::{Grammar, Need};

/// Types of control packets (2.2.1).
const CONNECT: u8 = 1;
const PUBLISH: u8 = 3;
/// From version 5 on, a PUBLISH has properties.
const WITH_PROPERTIES: u8 = 5;
/// The length of the parsed part of a CONNECT: the protocol name and version.
const CONNECT_HEAD: usize = 9;
/// The maximum length of a message to accept when searching in the middle of a stream.
const MAX_PLAUSIBLE: u64 = 1 << 20;

/// The parser's position in a control packet.
#[derive(Debug, Clone, Copy)]
enum At {
    Fixed,
    ConnectHead {
        kind: u8,
        left: u64,
    },
    Topic {
        first: u8,
        left: u64,
    },
    Identifier {
        left: u64,
    },
    Properties {
        left: u64,
    },
    /// Up to the end of the packet of this type.
    Rest {
        kind: u8,
    },
    /// Up to the identifier of a PUBLISH.
    TopicBody {
        first: u8,
        left: u64,
    },
    PropertiesBody {
        left: u64,
    },
}

#[derive(Debug)]
pub(crate) struct Mqtt {
    at: At,
    /// The version from the CONNECT.
    pub version: Option<u8>,
}

impl Mqtt {
    pub(crate) const FIRST: Need = Need::Header(2);

    pub(crate) fn new() -> Self {
        Self { at: At::Fixed, version: None }
    }

    /// Whether a connection begins like this: with a CONNECT of any version.
    pub(crate) fn begins(bytes: &[u8]) -> bool {
        let Some((length, size)) = bytes.get(1..).and_then(variable) else { return false };
        let body = &bytes[1 + size..];
        bytes[0] == CONNECT << 4
            // The variable header of a CONNECT has 10 bytes in version 3.1.1 (section 3.1.2), and
            // more in others.
            && length >= 10
            && (body.starts_with(b"\0\x04MQTT") || body.starts_with(b"\0\x06MQIsdp"))
    }

    fn rest(&mut self, kind: u8, left: u64) -> Need {
        self.at = At::Rest { kind };
        if kind == PUBLISH { Need::Payload(left) } else { Need::Pass(left) }
    }

    fn publish_tail(&mut self, left: u64) -> Need {
        if self.version >= Some(WITH_PROPERTIES) && left > 0 {
            self.at = At::Properties { left };
            return Need::Header(1);
        }
        self.rest(PUBLISH, left)
    }

    fn fixed(&mut self, header: &[u8]) -> Need {
        if !known(header[0]) {
            return Need::Invalid;
        }
        let Some((left, _)) = variable(&header[1..]) else {
            return if header.len() < 5 { Need::More } else { Need::Invalid };
        };
        let kind = header[0] >> 4;
        if kind == PUBLISH {
            // The length of the topic has 2 bytes.
            if left < 2 {
                return Need::Invalid;
            }
            self.at = At::Topic { first: header[0], left: left - 2 };
            return Need::Header(2);
        }
        if kind == CONNECT && left >= CONNECT_HEAD as u64 {
            self.at = At::ConnectHead { kind, left: left - CONNECT_HEAD as u64 };
            return Need::Header(CONNECT_HEAD);
        }
        self.rest(kind, left)
    }
}

impl Grammar for Mqtt {
    const LONGEST: usize = CONNECT_HEAD;

    fn next(&mut self, header: &[u8], messages: &mut Messages) -> Need {
        match self.at {
            At::Fixed => self.fixed(header),
            At::ConnectHead { kind, left } => {
                // `MQTT`, or `MQIsdp` in 3.1, followed by the version.
                let version = if header[1] == 4 { header[6] } else { header[8] };
                self.version = Some(version);
                self.rest(kind, left)
            }
            At::Topic { first, left } => {
                let topic = u64::from(u16::from_be_bytes([header[0], header[1]]));
                if topic > left {
                    return Need::Invalid;
                }
                self.at = At::TopicBody { first, left: left - topic };
                Need::Pass(topic)
            }
            // QoS 0 has no packet identifier (3.1.1, section 3.3.2.2).
            At::TopicBody { first, left } if first & 6 == 0 => self.publish_tail(left),
            At::TopicBody { left, .. } if left >= 2 => {
                self.at = At::Identifier { left: left - 2 };
                Need::Header(2)
            }
            At::TopicBody { .. } => Need::Invalid,
            At::Identifier { left } => self.publish_tail(left),
            At::Properties { left } => match variable(header) {
                Some((length, size)) if length + size as u64 <= left => {
                    self.at = At::PropertiesBody { left: left - length - size as u64 };
                    Need::Pass(length)
                }
                None if header.len() < 4 => Need::More,
                _ => Need::Invalid,
            },
            At::PropertiesBody { left } => self.rest(PUBLISH, left),
            At::Rest { kind } => {
                messages.mqtt[usize::from(kind)] += 1;
                messages.all += 1;
                self.restart()
            }
        }
    }

    fn restart(&mut self) -> Need {
        self.at = At::Fixed;
        Self::FIRST
    }

    fn plausible(&self, bytes: &[u8]) -> bool {
        let Some((left, size)) = bytes.get(1..).and_then(variable) else { return false };
        let topic = bytes.get(1 + size..3 + size).map(|t| u16::from_be_bytes([t[0], t[1]]));
        known(bytes[0])
            && left <= MAX_PLAUSIBLE
            && match bytes[0] >> 4 {
                PUBLISH => topic.is_some_and(|topic| u64::from(topic) + 2 <= left),
                // All others are short, and a segment usually ends with one.
                _ => bytes.len() as u64 >= 1 + size as u64 + left,
            }
    }
}

/// Whether a first byte has a valid type with valid flags.
fn known(first: u8) -> bool {
    match first >> 4 {
        0 => false,
        // Both bits of QoS must not be set (3.1.1, section 3.3.1.2).
        PUBLISH => first & 6 != 6,
        // 8 | 10 => | PUBREL, SUBSCRIBE and UNSUBSCRIBE have the flags 0010, all others 0000
        // (3.1.1, section 2.2.2).
        6 | 8 | 10 => first & 15 == 2,
        _ => first & 15 == 0,
    }
}

/// A variable byte integer and its length (version 5, section 1.5.5).
fn variable(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (place, byte) in bytes.iter().take(4).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, place + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{Parser, Shares};
    use crate::stream::Piece;

    /// CONNECT of version 5, a PUBLISH of QoS 1 with properties, PINGREQ.
    fn stream() -> Vec<u8> {
        let mut all = b"\x10\x0d\0\x04MQTT\x05\x02\0\x3c\0\0\0".to_vec();
        all.extend(b"\x32\x0f\0\x01a\0\x07\x02\x01\x01payload");
        all.extend(b"\xc0\0");
        all
    }

    fn take(pieces: &[&[u8]]) -> (Messages, Shares) {
        let mut parser = Parser::new(Mqtt::new(), Mqtt::FIRST);
        let (mut messages, mut shares) = (Messages::default(), Shares::default());
        for piece in pieces {
            let more = parser.take(Piece::Bytes(piece), &mut messages);
            shares.messaging += more.messaging;
            shares.payload += more.payload;
        }
        (messages, shares)
    }

    #[test]
    fn remaining_lengths_are_those_of_the_standard() {
        // MQTT 3.1.1, table 2.4.
        let table: [(&[u8], u64); 8] = [
            (&[0x00], 0),
            (&[0x7f], 127),
            (&[0x80, 0x01], 128),
            (&[0xff, 0x7f], 16_383),
            (&[0x80, 0x80, 0x01], 16_384),
            (&[0xff, 0xff, 0x7f], 2_097_151),
            (&[0x80, 0x80, 0x80, 0x01], 2_097_152),
            (&[0xff, 0xff, 0xff, 0x7f], 268_435_455),
        ];
        for (bytes, length) in table {
            assert_eq!(variable(bytes), Some((length, bytes.len())));
            assert_eq!(variable(&[bytes, &[9, 9]].concat()), Some((length, bytes.len())));
            assert_eq!(variable(&bytes[..bytes.len() - 1]), None, "cut off");
            let mut parser = Parser::new(Mqtt::new(), Mqtt::FIRST);
            let mut messages = Messages::default();
            // A SUBACK of this length, of which only the head is there, then a PINGREQ.
            parser.take(Piece::Bytes(&[&[0x90][..], bytes].concat()), &mut messages);
            parser.take(Piece::Missing(length), &mut messages);
            parser.take(Piece::Bytes(b"\xc0\0"), &mut messages);
            assert_eq!(
                (messages.mqtt[9], messages.mqtt[12], messages.resyncs),
                (1, 1, 0),
                "{length}"
            );
        }
        // Five bytes are malformed (2.2.3).
        assert_eq!(variable(&[0xff, 0xff, 0xff, 0xff, 0x01]), None);
        let mut messages = Messages::default();
        let mut parser = Parser::new(Mqtt::new(), Mqtt::FIRST);
        parser.take(Piece::Bytes(&[0x90, 0xff, 0xff, 0xff, 0xff, 0x01]), &mut messages);
        assert_eq!(messages.all, 0);
        assert!(messages.skipped > 0);
    }

    #[test]
    fn first_bytes_are_valid_as_the_table_of_flags_says() {
        // MQTT 3.1.1, table 2.2; AUTH is of version 5.
        for first in 0..=255_u8 {
            let flags = first & 15;
            let valid = match first >> 4 {
                0 => false,
                // DUP, QoS 0 to 2, RETAIN.
                3 => flags >> 1 & 3 < 3,
                6 | 8 | 10 => flags == 0b0010,
                _ => flags == 0,
            };
            assert_eq!(known(first), valid, "{first:#x}");
        }
    }

    #[test]
    fn however_the_stream_was_cut() {
        let all = stream();
        assert!(Mqtt::begins(&all));
        for cut in 0..all.len() {
            for second in cut..all.len() {
                let (messages, shares) = take(&[&all[..cut], &all[cut..second], &all[second..]]);
                assert_eq!((messages.mqtt[1], messages.mqtt[3], messages.mqtt[12]), (1, 1, 1));
                assert_eq!((shares.payload, messages.resyncs), (7, 0));
                assert_eq!(shares.messaging as usize, all.len() - 7);
            }
        }
    }

    #[test]
    fn a_hole_in_a_body_does_no_harm_and_one_in_a_header_is_passed() {
        let all = stream();
        let mut parser = Parser::new(Mqtt::new(), Mqtt::FIRST);
        let mut messages = Messages::default();
        let (hole, tail) = (all.len() - 7, all.len() - 4);
        parser.take(Piece::Bytes(&all[..hole]), &mut messages);
        parser.take(Piece::Missing(3), &mut messages);
        parser.take(Piece::Bytes(&all[tail..]), &mut messages);
        assert_eq!((messages.all, messages.resyncs), (3, 0));
        parser.take(Piece::Missing(40), &mut messages);
        parser.take(Piece::Bytes(b"\xff\xff\xff\xff\xff"), &mut messages);
        parser.take(Piece::Bytes(b"\xd0\0"), &mut messages);
        assert_eq!((messages.mqtt[13], messages.resyncs, messages.skipped), (1, 1, 45));
    }
}
