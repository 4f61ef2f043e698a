//! Packets of MQTT 3.1.1 (OASIS, 2014), and of 3.1, which differs in the name of the protocol.

use crate::message::Message;

/// Maximum length of a packet, in bytes.
pub const MAX_PACKET: usize = 256 << 10;

/// A packet of a client or of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// The first packet of a client.
    Connect(Connect),
    /// The answer to it.
    ConnAck {
        /// Whether the gateway has a session of the client.
        present: bool,
        /// 0, or why it is refused (3.2.2.3).
        code: u8,
    },
    /// A message.
    Publish {
        /// Whether it was sent before.
        duplicate: bool,
        /// Its number, with QoS 1 and 2.
        id: u16,
        /// The message.
        message: Message,
    },
    /// QoS 1: the receiver has it.
    PubAck(u16),
    /// QoS 2: the receiver has it.
    PubRec(u16),
    /// QoS 2: the sender knows that.
    PubRel(u16),
    /// QoS 2: the receiver forgets the number.
    PubComp(u16),
    /// Filters with their maximum QoS.
    Subscribe {
        /// Number of the packet.
        id: u16,
        /// The filters.
        filters: Vec<(String, u8)>,
    },
    /// Granted QoS of each filter, or 0x80.
    SubAck {
        /// Number of the packet that it answers.
        id: u16,
        /// The codes.
        codes: Vec<u8>,
    },
    /// Filters that the client gives up.
    Unsubscribe {
        /// Number of the packet.
        id: u16,
        /// The filters.
        filters: Vec<String>,
    },
    /// The answer to it.
    UnsubAck(u16),
    /// The client is alive.
    PingReq,
    /// The answer to it.
    PingResp,
    /// The client ends the connection, without its will.
    Disconnect,
}

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connect {
    /// Version of the protocol: 4 for 3.1.1, 3 for 3.1. Of others, only this is read.
    pub level: u8,
    /// Name of the client; empty for any.
    pub client: String,
    /// Whether it begins a new session, which ends with the connection.
    pub clean: bool,
    /// Maximum time between packets, in seconds; 0 for any.
    pub keep_alive: u16,
    /// The message to publish if the connection is lost.
    pub will: Option<Message>,
}

/// A packet that the standard forbids, or that is too long; the connection must be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// The rest of a packet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(Malformed("too short"))?;
        self.0 = rest;
        Ok(head)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Result<u16, Malformed> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A packet's number, which is not 0 (2.3.1).
    fn id(&mut self) -> Result<u16, Malformed> {
        match self.number()? {
            0 => Err(Malformed("a packet has number 0")),
            id => Ok(id),
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number()?;
        self.take(length.into())
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("not UTF-8 text"))?;
        match text.contains('\0') {
            true => Err(Malformed("a text with a zero")),
            false => Ok(text.to_owned()),
        }
    }
}

/// QoS of two bits.
fn qos(bits: u8) -> Result<u8, Malformed> {
    match bits & 3 {
        3 => Err(Malformed("QoS 3")),
        qos => Ok(qos),
    }
}

impl Packet {
    /// The first packet of these bytes and its length; `None` if it is not complete.
    ///
    /// # Errors
    /// [`Malformed`] if there is no valid packet.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let (mut length, mut shift, mut at) = (0_usize, 0, 1);
        loop {
            let Some(byte) = bytes.get(at) else { return Ok(None) };
            length |= usize::from(byte & 0x7f) << shift;
            (at, shift) = (at + 1, shift + 7);
            if byte & 0x80 == 0 {
                break;
            }
            // A length has at most four bytes (2.2.3).
            if shift > 21 {
                return Err(Malformed("a length of five bytes"));
            }
        }
        // Checked before the bytes are there, so that a length alone cannot fill the memory.
        if length > MAX_PACKET {
            return Err(Malformed("a packet of more than 256 KiB"));
        }
        let Some(body) = bytes.get(at..at + length) else { return Ok(None) };
        let mut body = Reader(body);
        let packet = Self::body(bytes[0], &mut body)?;
        // Of other versions only the level is read, so that the answer can refuse it.
        match body.0.is_empty() || matches!(&packet, Self::Connect(Connect { level: 5.., .. })) {
            true => Ok(Some((packet, at + length))),
            false => Err(Malformed("bytes after the end of a packet")),
        }
    }

    fn body(head: u8, body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (kind, flags) = (head >> 4, head & 15);
        // PUBREL, SUBSCRIBE and UNSUBSCRIBE have the flags 0010 (2.2.2).
        let fixed = if matches!(kind, 6 | 8 | 10) { 2 } else { 0 };
        if kind != 3 && flags != fixed {
            return Err(Malformed("reserved flags"));
        }
        Ok(match kind {
            1 => Self::Connect(connect(body)?),
            2 => Self::ConnAck { present: body.byte()? & 1 == 1, code: body.byte()? },
            3 => {
                let (qos, topic) = (qos(flags >> 1)?, body.text()?);
                if !crate::topic::is_topic(&topic) {
                    return Err(Malformed("an empty topic, or one with a wildcard"));
                }
                let id = if qos > 0 { body.id()? } else { 0 };
                let payload = body.take(body.0.len())?.into();
                let message = Message { topic, payload, qos, retain: flags & 1 == 1 };
                Self::Publish { duplicate: flags & 8 == 8, id, message }
            }
            4 => Self::PubAck(body.id()?),
            5 => Self::PubRec(body.id()?),
            6 => Self::PubRel(body.id()?),
            7 => Self::PubComp(body.id()?),
            8 => {
                let (id, mut filters) = (body.id()?, Vec::new());
                while !body.0.is_empty() {
                    let (filter, bits) = (body.text()?, body.byte()?);
                    if bits > 2 {
                        return Err(Malformed("a QoS above 2"));
                    }
                    filters.push((filter, bits));
                }
                if filters.is_empty() {
                    return Err(Malformed("no filter"));
                }
                Self::Subscribe { id, filters }
            }
            9 => Self::SubAck { id: body.id()?, codes: body.take(body.0.len())?.to_vec() },
            10 => {
                let (id, mut filters) = (body.id()?, Vec::new());
                while !body.0.is_empty() {
                    filters.push(body.text()?);
                }
                if filters.is_empty() {
                    return Err(Malformed("no filter"));
                }
                Self::Unsubscribe { id, filters }
            }
            11 => Self::UnsubAck(body.id()?),
            12 => Self::PingReq,
            13 => Self::PingResp,
            14 => Self::Disconnect,
            _ => return Err(Malformed("an unknown kind of packet")),
        })
    }

    /// The bytes of the packet. A CONNECT has neither name nor password.
    pub fn encode(&self) -> Vec<u8> {
        let (head, body) = match self {
            Self::Connect(connect) => (0x10, write_connect(connect)),
            Self::ConnAck { present, code } => (0x20, vec![u8::from(*present), *code]),
            Self::Publish { duplicate, id, message } => {
                let flags = u8::from(*duplicate) << 3 | message.qos << 1;
                let mut body = text(&message.topic);
                if message.qos > 0 {
                    body.extend(id.to_be_bytes());
                }
                body.extend(&message.payload[..]);
                (0x30 | flags | u8::from(message.retain), body)
            }
            Self::PubAck(id) => (0x40, id.to_be_bytes().to_vec()),
            Self::PubRec(id) => (0x50, id.to_be_bytes().to_vec()),
            Self::PubRel(id) => (0x62, id.to_be_bytes().to_vec()),
            Self::PubComp(id) => (0x70, id.to_be_bytes().to_vec()),
            Self::Subscribe { id, filters } => {
                let each = |(filter, qos): &(String, u8)| [text(filter), vec![*qos]].concat();
                let filters: Vec<u8> = filters.iter().flat_map(each).collect();
                (0x82, [&id.to_be_bytes()[..], &filters].concat())
            }
            Self::SubAck { id, codes } => (0x90, [&id.to_be_bytes()[..], codes].concat()),
            Self::Unsubscribe { id, filters } => {
                let filters: Vec<u8> = filters.iter().flat_map(|filter| text(filter)).collect();
                (0xa2, [&id.to_be_bytes()[..], &filters].concat())
            }
            Self::UnsubAck(id) => (0xb0, id.to_be_bytes().to_vec()),
            Self::PingReq => (0xc0, Vec::new()),
            Self::PingResp => (0xd0, Vec::new()),
            Self::Disconnect => (0xe0, Vec::new()),
        };
        let mut bytes = vec![head];
        let mut rest = body.len();
        loop {
            let more = rest > 127;
            bytes.push((rest & 0x7f) as u8 | u8::from(more) << 7);
            rest >>= 7;
            if !more {
                break;
            }
        }
        bytes.extend(body);
        bytes
    }
}

/// A text with its length. It ends at 65,535 bytes, or before: never inside a character.
fn text(text: &str) -> Vec<u8> {
    let length = text.floor_char_boundary(usize::from(u16::MAX));
    [&(length as u16).to_be_bytes()[..], &text.as_bytes()[..length]].concat()
}

fn connect(body: &mut Reader<'_>) -> Result<Connect, Malformed> {
    let (name, level) = (body.text()?, body.byte()?);
    if !matches!(name.as_str(), "MQTT" | "MQIsdp") {
        return Err(Malformed("not MQTT"));
    }
    if !matches!(level, 3 | 4) {
        return Ok(Connect { level, ..Connect::default() });
    }
    let (flags, keep_alive) = (body.byte()?, body.number()?);
    if flags & 1 == 1 {
        return Err(Malformed("reserved flags"));
    }
    let client = body.text()?;
    let will = match flags & 4 {
        // MQTT 3.1.1, 3.1.2.6 and 3.1.2.7: then QoS and retain of the will are 0.
        0 if flags & 0x38 != 0 => return Err(Malformed("QoS or retain of a will without a will")),
        0 => None,
        _ => {
            let (topic, payload) = (body.text()?, body.bytes()?.into());
            if !crate::topic::is_topic(&topic) {
                return Err(Malformed("a will without a topic, or with a wildcard"));
            }
            let qos = qos(flags >> 3)?;
            Some(Message { topic, payload, qos, retain: flags & 0x20 != 0 })
        }
    };
    // 3.1.2.9: without a name there is no password.
    if flags & 0xc0 == 0x40 {
        return Err(Malformed("a password without a name"));
    }
    // Name and password: the gateway is for programs on its own machine, and checks neither.
    for bit in [0x80, 0x40] {
        if flags & bit != 0 {
            body.bytes()?;
        }
    }
    Ok(Connect { level, client, clean: flags & 2 != 0, keep_alive, will })
}

fn write_connect(connect: &Connect) -> Vec<u8> {
    let mut flags = u8::from(connect.clean) << 1;
    let mut rest = text(&connect.client);
    if let Some(will) = &connect.will {
        flags |= 4 | will.qos << 3 | u8::from(will.retain) << 5;
        rest.extend(text(&will.topic));
        rest.extend((will.payload.len() as u16).to_be_bytes());
        rest.extend(&will.payload[..]);
    }
    let head = [text("MQTT"), vec![connect.level, flags]].concat();
    [&head[..], &connect.keep_alive.to_be_bytes(), &rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(qos: u8, retain: bool) -> Message {
        Message { topic: "a/b".to_owned(), payload: b"17"[..].into(), qos, retain }
    }

    #[test]
    fn packets_are_those_of_the_standard() {
        // Figure 3.6 and the examples of 3.3.
        let connect = Connect {
            level: 4,
            client: "c".to_owned(),
            clean: true,
            keep_alive: 10,
            will: Some(message(1, true)),
        };
        let bytes = Packet::Connect(connect.clone()).encode();
        assert_eq!(bytes[..12], [0x10, 22, 0, 4, b'M', b'Q', b'T', b'T', 4, 0x2e, 0, 10]);
        assert_eq!(Packet::decode(&bytes), Ok(Some((Packet::Connect(connect), bytes.len()))));
        let publish = Packet::Publish { duplicate: true, id: 10, message: message(1, false) };
        assert_eq!(publish.encode(), [0x3a, 9, 0, 3, b'a', b'/', b'b', 0, 10, b'1', b'7']);
        let long = Message { payload: vec![0; 200].into(), ..message(0, false) };
        let long = Packet::Publish { duplicate: false, id: 0, message: long };
        let bytes = long.encode();
        assert_eq!(bytes[..3], [0x30, 0xcd, 1]);
        assert_eq!(Packet::decode(&bytes[..100]), Ok(None));
        assert_eq!(Packet::decode(&bytes), Ok(Some((long, bytes.len()))));
        let subscribe = Packet::Subscribe { id: 1, filters: vec![("#".to_owned(), 2)] };
        assert_eq!(subscribe.encode(), [0x82, 6, 0, 1, 0, 1, b'#', 2]);
        // A name and a password are read over; MQTT 5 is recognised.
        let named = [0x10, 17, 0, 4, b'M', b'Q', b'T', b'T', 4, 0xc2, 0, 0, 0, 0, 0, 1, b'n', 0, 0];
        assert!(matches!(Packet::decode(&named), Ok(Some((Packet::Connect(_), 19)))));
        let five = [0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 60, 0, 0, 0];
        assert!(matches!(
            Packet::decode(&five),
            Ok(Some((Packet::Connect(Connect { level: 5, .. }), 15)))
        ));
    }

    #[test]
    fn what_the_standard_forbids_is_refused() {
        for (bytes, why) in [
            (&[0x36, 5, 0, 1, b'a', 0, 1][..], "QoS 3"),
            (&[0x30, 3, 0, 1, b'#'], "an empty topic, or one with a wildcard"),
            (&[0x32, 5, 0, 1, b'a', 0, 0], "a packet has number 0"),
            (&[0x80, 2, 0, 1], "reserved flags"),
            (&[0x82, 2, 0, 1], "no filter"),
            (&[0xa2, 2, 0, 1], "no filter"),
            (
                &[0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 4, 0x22, 0, 10, 0, 1, b'c'],
                "QoS or retain of a will without a will",
            ),
            (
                &[0x10, 15, 0, 4, b'M', b'Q', b'T', b'T', 4, 0x42, 0, 10, 0, 1, b'c', 0, 0],
                "a password without a name",
            ),
            (&[0x30, 0xff, 0xff, 0xff, 0xff, 1], "a length of five bytes"),
            (&[0x30, 0xff, 0xff, 0x7f], "a packet of more than 256 KiB"),
            (&[0x40, 3, 0, 1, 0], "bytes after the end of a packet"),
            (&[0xf0, 0], "an unknown kind of packet"),
            (&[0x30, 3, 0, 9, b'a'], "too short"),
            (&[0x30, 3, 0, 1, 0xff], "not UTF-8 text"),
        ] {
            assert_eq!(Packet::decode(bytes), Err(Malformed(why)));
        }
    }

    #[test]
    fn a_text_never_ends_inside_a_character() {
        let written = text(&"ü".repeat(40_000));
        assert_eq!(written[..2], 65_534_u16.to_be_bytes());
        assert_eq!(std::str::from_utf8(&written[2..]).unwrap().chars().count(), 32_767);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(Some((packet, length))) = Packet::decode(&bytes) {
                prop_assert!(length <= bytes.len());
                let again = packet.encode();
                if !matches!(packet, Packet::Connect(_)) {
                    prop_assert_eq!(Packet::decode(&again), Ok(Some((packet, again.len()))));
                }
            }
        }
    }
}
