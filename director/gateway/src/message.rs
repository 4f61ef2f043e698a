//! Messages of clients, and the frames in which gateways exchange them: messages of the director.

use std::sync::Arc;

/// A message of a client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// Its topic.
    pub topic: String,
    /// Its content.
    pub payload: Arc<[u8]>,
    /// Its level of delivery, 0 to 2.
    pub qos: u8,
    /// Whether it is kept for later subscribers; on delivery, whether it was kept.
    pub retain: bool,
    /// MQTT 5: the properties of its content, as they are written.
    pub properties: Option<Arc<[u8]>>,
    /// MQTT 5: when it expires. In packets, frames and wills the time that is left, in seconds; in a
    /// gateway the gateway's second.
    pub until_s: Option<u64>,
    /// Who must not get it back, if a subscription says so.
    pub publisher: Option<Publisher>,
}

/// A client's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publisher {
    /// The start of its gateway.
    pub start: u32,
    /// Its number at this gateway.
    pub session: u32,
}

impl Message {
    /// Approximate size in a frame, in bytes.
    pub fn size(&self) -> usize {
        let properties = self.properties.as_ref().map_or(0, |all| all.len());
        // 21: the number, the flags, three lengths of up to two bytes, the time and, seldom, the publisher.
        self.topic.len() + self.payload.len() + properties + 21
    }

    /// The message, which has arrived in this second of the gateway.
    pub fn arrived(self, now_s: u64) -> Self {
        Self { until_s: self.until_s.map(|left_s| left_s.saturating_add(now_s)), ..self }
    }

    /// The message, which leaves the gateway in this second.
    pub fn leaving(&self, now_s: u64) -> Self {
        Self { until_s: self.until_s.map(|until_s| until_s.saturating_sub(now_s)), ..self.clone() }
    }

    /// Whether it must not be delivered any more: up to a second late, never early.
    pub fn is_expired(&self, now_s: u64) -> bool {
        self.until_s.is_some_and(|until_s| until_s < now_s)
    }
}

/// Bits of a message's first byte, above its QoS.
const RETAIN: u8 = 4;
const PROPERTIES: u8 = 8;
const EXPIRES: u8 = 16;
const PUBLISHER: u8 = 32;
/// Bit of a subscription, above its QoS.
const NOTHING_RETAINED: u8 = 4;

/// A message with its number: a start of a gateway uses each number once, so that a message that is
/// sent again is delivered once.
pub type Numbered = (u32, Message);

/// A frame of a device's gateway; `start` identifies the start of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Up {
    /// The gateway has started: what the hub knew of an earlier start is void.
    Hello,
    /// Messages of clients, in order.
    Publish(Vec<Numbered>),
    /// Wants messages; `after` is the topic of the last retained message that it has.
    Subscribe {
        /// The filter.
        filter: String,
        /// Its maximum QoS.
        qos: u8,
        /// Whether retained messages are to follow.
        retained: bool,
        /// Where retained messages go on.
        after: Option<String>,
    },
    /// No client of the device wants these any more.
    Unsubscribe(String),
    /// The will of a client, or that it has none any more. The hub publishes it if the device is
    /// silent for one and a half periods.
    Will {
        /// The client.
        client: String,
        /// Its will, with the time from its publication on in which it expires.
        will: Option<Message>,
        /// The period in seconds.
        period_s: u16,
    },
    /// The device is alive.
    Alive,
    /// A device that keeps its sessions has subscribed again: what it has not subscribed to since its
    /// start is void.
    Subscribed,
    /// A device that keeps its sessions has stored these messages of the hub's storage.
    Stored(Vec<u32>),
}

/// Bit of a device's start: it keeps sessions over a restart, so that what waits for it stays.
pub const KEEPS: u32 = 1 << 31;

/// The answer to a [`Up::Subscribe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribed {
    /// Granted QoS, or 0x80.
    pub code: u8,
    /// Whether there are more retained messages.
    pub more: bool,
    /// Retained messages.
    pub retained: Vec<Message>,
}

/// A frame of the hub's gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Down {
    /// The hub has started, and knows nothing of the device.
    Hello,
    /// Messages for the device's clients, in order. The name of the hub's storage, if it has one: then numbers
    /// are those of all its starts.
    Deliver(Option<u32>, Vec<Numbered>),
}

/// The rest of a frame, or of a record on a disk.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A number of four bytes.
    pub fn number(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// A length of one to four bytes, seven bits each, lowest first.
    pub fn length(&mut self) -> Option<usize> {
        let mut length = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            length |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(length);
            }
        }
        None
    }

    /// Bytes with their length.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    /// A text with its length.
    pub fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    /// What [`write_message`] has written.
    pub fn message(&mut self) -> Option<Message> {
        let (flags, topic) = (self.byte()?, self.text()?);
        let payload = self.bytes()?.into();
        let (qos, retain) = (flags & 3, flags & RETAIN != 0);
        let properties: Option<Arc<[u8]>> = match flags & PROPERTIES {
            0 => None,
            _ => Some(self.bytes()?.into()),
        };
        let until_s = match flags & EXPIRES {
            0 => None,
            _ => Some(self.number()?.into()),
        };
        let publisher = match flags & PUBLISHER {
            0 => None,
            _ => Some(Publisher { start: self.number()?, session: self.number()? }),
        };
        let valid = qos < 3
            && flags < 64
            && director::topic::is_topic(&topic)
            && properties.as_deref().is_none_or(crate::property::is_content);
        valid.then_some(Message { topic, payload, qos, retain, properties, until_s, publisher })
    }

    fn numbered(&mut self) -> Option<Vec<Numbered>> {
        let mut all = Vec::new();
        while !self.0.is_empty() {
            all.push((self.number()?, self.message()?));
        }
        Some(all)
    }
}

/// Appends bytes with their length.
pub fn write_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    crate::wire::write_length(to, bytes.len());
    to.extend(bytes);
}

/// Appends a message.
pub fn write_message(to: &mut Vec<u8>, message: &Message) {
    let parts = [
        (message.retain, RETAIN),
        (message.properties.is_some(), PROPERTIES),
        (message.until_s.is_some(), EXPIRES),
        (message.publisher.is_some(), PUBLISHER),
    ];
    let bits = parts.iter().filter(|(has, _)| *has).map(|(_, bit)| bit).sum::<u8>();
    to.push(message.qos | bits);
    write_bytes(to, message.topic.as_bytes());
    write_bytes(to, &message.payload);
    message.properties.iter().for_each(|all| write_bytes(to, all));
    if let Some(left_s) = message.until_s {
        to.extend(u32::try_from(left_s).unwrap_or(u32::MAX).to_be_bytes());
    }
    if let Some(Publisher { start, session }) = message.publisher {
        to.extend([start.to_be_bytes(), session.to_be_bytes()].concat());
    }
}

fn write_numbered(to: &mut Vec<u8>, messages: &[Numbered]) {
    for (number, message) in messages {
        to.extend(number.to_be_bytes());
        write_message(to, message);
    }
}

/// The kind, and the start of the sender.
fn head(kind: u8, start: u32) -> Vec<u8> {
    [&[kind], &start.to_be_bytes()[..]].concat()
}

/// A retained message on a disk: the time, the topic, and the message unless it is removed.
pub fn write_stored(time_s: u64, topic: &str, message: Option<&Message>) -> Vec<u8> {
    let mut bytes = time_s.to_be_bytes().to_vec();
    write_bytes(&mut bytes, topic.as_bytes());
    message.into_iter().for_each(|message| write_message(&mut bytes, message));
    bytes
}

/// What [`write_stored`] has written.
pub fn read_stored(bytes: &[u8]) -> Option<(u64, String, Option<Message>)> {
    let mut rest = Reader(bytes);
    let time_s = rest.take(8)?.try_into().ok().map(u64::from_be_bytes)?;
    let topic = rest.text()?;
    let message = if rest.0.is_empty() { None } else { Some(rest.message()?) };
    Some((time_s, topic, message))
}

impl Up {
    /// The bytes of the frame.
    pub fn encode(&self, start: u32) -> Vec<u8> {
        let kind = match self {
            Self::Hello => 0,
            Self::Publish(_) => 1,
            Self::Subscribe { .. } => 2,
            Self::Unsubscribe(_) => 3,
            Self::Will { .. } => 4,
            Self::Alive => 5,
            Self::Subscribed => 6,
            Self::Stored(_) => 7,
        };
        let mut bytes = head(kind, start);
        match self {
            Self::Hello | Self::Alive | Self::Subscribed => {}
            Self::Publish(messages) => write_numbered(&mut bytes, messages),
            Self::Stored(numbers) => {
                numbers.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
            }
            Self::Subscribe { filter, qos, retained, after } => {
                bytes.push(qos | if *retained { 0 } else { NOTHING_RETAINED });
                write_bytes(&mut bytes, filter.as_bytes());
                // A topic is not empty.
                write_bytes(&mut bytes, after.as_deref().unwrap_or_default().as_bytes());
            }
            Self::Unsubscribe(filter) => write_bytes(&mut bytes, filter.as_bytes()),
            Self::Will { client, will, period_s } => {
                bytes.extend(period_s.to_be_bytes());
                write_bytes(&mut bytes, client.as_bytes());
                will.iter().for_each(|will| write_message(&mut bytes, will));
            }
        }
        bytes
    }

    /// The start of the sender, and the frame; `None` if it is not valid.
    pub fn decode(bytes: &[u8]) -> Option<(u32, Self)> {
        let mut rest = Reader(bytes);
        let (kind, start) = (rest.byte()?, rest.number()?);
        let frame = match kind {
            0 => Self::Hello,
            1 => Self::Publish(rest.numbered()?),
            2 => {
                let (bits, filter, after) = (rest.byte()?, rest.text()?, rest.text()?);
                let (qos, retained) = (bits & !NOTHING_RETAINED, bits & NOTHING_RETAINED == 0);
                let after = Some(after).filter(|text| !text.is_empty());
                Self::Subscribe { filter, qos, retained, after }
            }
            3 => Self::Unsubscribe(rest.text()?),
            4 => {
                let period_s = rest.take(2)?.try_into().ok().map(u16::from_be_bytes)?;
                let client = rest.text()?;
                let will = if rest.0.is_empty() { None } else { Some(rest.message()?) };
                Self::Will { client, will, period_s }
            }
            5 => Self::Alive,
            6 => Self::Subscribed,
            7 => {
                let mut numbers = Vec::new();
                while !rest.0.is_empty() {
                    numbers.push(rest.number()?);
                }
                Self::Stored(numbers)
            }
            _ => return None,
        };
        Some((start, frame))
    }
}

impl Subscribed {
    /// The bytes of the answer.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.code, u8::from(self.more)];
        self.retained.iter().for_each(|message| write_message(&mut bytes, message));
        bytes
    }

    /// The answer; `None` if it is not valid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Reader(bytes);
        let (code, more) = (rest.byte()?, rest.byte()? != 0);
        let mut retained = Vec::new();
        while !rest.0.is_empty() {
            retained.push(rest.message()?);
        }
        Some(Self { code, more, retained })
    }
}

impl Down {
    /// The bytes of the frame.
    pub fn encode(&self, start: u32) -> Vec<u8> {
        match self {
            Self::Hello => head(0, start),
            Self::Deliver(store, messages) => {
                let mut bytes = head(if store.is_some() { 2 } else { 1 }, start);
                store.iter().for_each(|store| bytes.extend(store.to_be_bytes()));
                write_numbered(&mut bytes, messages);
                bytes
            }
        }
    }

    /// The start of the sender, and the frame; `None` if it is not valid.
    pub fn decode(bytes: &[u8]) -> Option<(u32, Self)> {
        let mut rest = Reader(bytes);
        let (kind, start) = (rest.byte()?, rest.number()?);
        match kind {
            0 => Some((start, Self::Hello)),
            1 => Some((start, Self::Deliver(None, rest.numbered()?))),
            2 => Some((start, Self::Deliver(Some(rest.number()?), rest.numbered()?))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::{Properties, id};
    use proptest::prelude::*;

    fn message() -> impl Strategy<Value = Message> {
        let payload = prop::collection::vec(any::<u8>(), 0..300);
        let number = prop::option::of(any::<u32>());
        let flags = (0_u8..3, any::<bool>());
        let optional = (prop::option::of("[a-z]{0,9}"), number.clone(), number);
        ("[a-z]{1,9}", payload, flags, optional).prop_map(|(topic, payload, flags, optional)| {
            let ((qos, retain), (kind, left_s, session)) = (flags, optional);
            let written = |kind: String| Properties::default().text(id::CONTENT_TYPE, &kind);
            let properties = kind.map(|kind| written(kind).encode()[1..].into());
            let publisher = session.map(|session| Publisher { start: 7, session });
            let until_s = left_s.map(u64::from);
            let payload = payload.into();
            Message { topic, payload, qos, retain, properties, until_s, publisher }
        })
    }

    proptest! {
        #[test]
        fn frames_are_read_as_they_were_written(
            all in prop::collection::vec((any::<u32>(), message()), 1..4),
            filter in "[a-z/#+]{1,9}",
            after in prop::option::of("[a-z]{1,9}"),
            start: u32,
        ) {
            let messages: Vec<Message> = all.iter().map(|(_, message)| message.clone()).collect();
            for frame in [
                Up::Hello,
                Up::Publish(all.clone()),
                Up::Subscribe { filter: filter.clone(), qos: 2, retained: start % 2 == 0, after },
                Up::Unsubscribe(filter.clone()),
                Up::Will { client: filter.clone(), will: messages.first().cloned(), period_s: 60 },
                Up::Will { client: filter, will: None, period_s: 60 },
                Up::Alive,
                Up::Subscribed,
                Up::Stored(all.iter().map(|(number, _)| *number).collect()),
            ] {
                prop_assert_eq!(Up::decode(&frame.encode(start)), Some((start, frame)));
            }
            let stored = Down::Deliver(Some(start), all.clone());
            for frame in [Down::Hello, Down::Deliver(None, all), stored] {
                prop_assert_eq!(Down::decode(&frame.encode(start)), Some((start, frame)));
            }
            let answer = Subscribed { code: 1, more: true, retained: messages };
            prop_assert_eq!(Subscribed::decode(&answer.encode()), Some(answer));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = (Up::decode(&bytes), Down::decode(&bytes), Subscribed::decode(&bytes));
        }
    }
}
