//! Properties of MQTT 5 packets (section 2.2.2).

use crate::wire::{Malformed, Reader, text, write_length};

/// Numbers of properties.
pub mod id {
    pub const FORMAT: u8 = 0x01;
    pub const EXPIRY: u8 = 0x02;
    pub const CONTENT_TYPE: u8 = 0x03;
    pub const RESPONSE_TOPIC: u8 = 0x08;
    pub const CORRELATION: u8 = 0x09;
    pub const SUBSCRIPTION: u8 = 0x0b;
    pub const SESSION_EXPIRY: u8 = 0x11;
    pub const ASSIGNED_NAME: u8 = 0x12;
    pub const SERVER_KEEP_ALIVE: u8 = 0x13;
    pub const METHOD: u8 = 0x15;
    pub const AUTHENTICATION: u8 = 0x16;
    pub const PROBLEMS: u8 = 0x17;
    pub const WILL_DELAY: u8 = 0x18;
    pub const REQUEST_RESPONSE: u8 = 0x19;
    pub const RESPONSE: u8 = 0x1a;
    pub const REFERENCE: u8 = 0x1c;
    pub const REASON: u8 = 0x1f;
    pub const RECEIVE_MAXIMUM: u8 = 0x21;
    pub const ALIAS_MAXIMUM: u8 = 0x22;
    pub const ALIAS: u8 = 0x23;
    pub const MAXIMUM_QOS: u8 = 0x24;
    pub const RETAIN: u8 = 0x25;
    pub const USER: u8 = 0x26;
    pub const MAXIMUM_PACKET: u8 = 0x27;
    pub const WILDCARDS: u8 = 0x28;
    pub const IDENTIFIERS: u8 = 0x29;
    pub const SHARED: u8 = 0x2a;
}

/// Properties of a message that belong to its content: they go unchanged to subscribers.
pub const CONTENT: &[u8] =
    &[id::FORMAT, id::CONTENT_TYPE, id::RESPONSE_TOPIC, id::CORRELATION, id::USER];

/// The value of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    Number(u32),
    /// A text.
    Text(&'a str),
    /// Bytes, or the name and value of a user property.
    Other,
}

/// A property.
#[derive(Debug, Clone, Copy)]
pub struct Property<'a> {
    /// Its number.
    pub id: u8,
    /// Its value.
    pub value: Value<'a>,
    /// All of its bytes.
    pub bytes: &'a [u8],
}

impl<'a> Property<'a> {
    /// Its number; 0 for one that is not a number.
    pub fn number(&self) -> u32 {
        match self.value {
            Value::Number(number) => number,
            Value::Text(_) | Value::Other => 0,
        }
    }

    fn read(rest: &mut Reader<'a>) -> Result<Self, Malformed> {
        let all = rest.0;
        // All numbers have one byte so far.
        let id = rest.byte()?;
        let value = match id {
            id::FORMAT
            | id::PROBLEMS
            | id::REQUEST_RESPONSE
            | id::MAXIMUM_QOS
            | id::RETAIN
            | id::WILDCARDS
            | id::IDENTIFIERS
            | id::SHARED => match rest.byte()? {
                flag @ 0..=1 => Value::Number(flag.into()),
                _ => return Err(Malformed::protocol("a flag that is neither 0 nor 1")),
            },
            id::EXPIRY | id::SESSION_EXPIRY | id::WILL_DELAY => Value::Number(rest.long()?),
            id::MAXIMUM_PACKET => Value::Number(not_zero(rest.long()?)?),
            id::SERVER_KEEP_ALIVE | id::ALIAS_MAXIMUM => Value::Number(rest.number()?.into()),
            id::RECEIVE_MAXIMUM => Value::Number(not_zero(rest.number()?.into())?),
            // 0 has a reason code of its property: the reader of aliases refuses it.
            id::ALIAS => Value::Number(rest.number()?.into()),
            id::SUBSCRIPTION => Value::Number(not_zero(rest.length()? as u32)?),
            id::CONTENT_TYPE
            | id::RESPONSE_TOPIC
            | id::ASSIGNED_NAME
            | id::METHOD
            | id::RESPONSE
            | id::REFERENCE
            | id::REASON => Value::Text(rest.text()?),
            id::CORRELATION | id::AUTHENTICATION => {
                rest.bytes()?;
                Value::Other
            }
            id::USER => {
                rest.text()?;
                rest.text()?;
                Value::Other
            }
            _ => return Err(Malformed::bytes("an unknown property")),
        };
        if let (id::RESPONSE_TOPIC, Value::Text(topic)) = (id, value)
            && !director::topic::is_topic(topic)
        {
            return Err(Malformed::protocol("an empty response topic, or one with a wildcard"));
        }
        Ok(Self { id, value, bytes: &all[..all.len() - rest.0.len()] })
    }
}

fn not_zero(number: u32) -> Result<u32, Malformed> {
    match number {
        0 => Err(Malformed::protocol("a property that must not be 0 is 0")),
        _ => Ok(number),
    }
}

/// Reads properties with their length; each is passed to `each`.
///
/// # Errors
/// [`Malformed`] if one is not valid, not among `allowed`, or occurs twice.
pub fn read<'a>(
    body: &mut Reader<'a>,
    allowed: &[&[u8]],
    each: impl FnMut(Property<'a>),
) -> Result<(), Malformed> {
    let length = body.length()?;
    read_all(Reader(body.take(length)?), allowed, each)
}

/// Whether bytes are properties of a message's content.
pub fn is_content(bytes: &[u8]) -> bool {
    read_all(Reader(bytes), &[CONTENT], |_| ()).is_ok()
}

fn read_all<'a>(
    mut rest: Reader<'a>,
    allowed: &[&[u8]],
    mut each: impl FnMut(Property<'a>),
) -> Result<(), Malformed> {
    let mut seen = 0_u64;
    while !rest.0.is_empty() {
        let property = Property::read(&mut rest)?;
        if !allowed.iter().any(|some| some.contains(&property.id)) {
            return Err(Malformed::protocol("a property of another packet"));
        }
        let bit = 1 << (property.id & 63);
        // A user property may occur any number of times (3.3.2.3.7), and a message may be for several
        // subscriptions (3.3.2.3.8).
        if seen & bit != 0 && !matches!(property.id, id::USER | id::SUBSCRIPTION) {
            return Err(Malformed::protocol("a property that occurs twice"));
        }
        seen |= bit;
        each(property);
    }
    Ok(())
}

/// Properties to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties(Vec<u8>);

impl Properties {
    /// Adds a flag.
    pub fn flag(mut self, id: u8, flag: bool) -> Self {
        self.0.extend([id, u8::from(flag)]);
        self
    }

    /// Adds a number of two bytes.
    pub fn number(mut self, id: u8, number: u16) -> Self {
        self.0.push(id);
        self.0.extend(number.to_be_bytes());
        self
    }

    /// Adds a number of four bytes.
    pub fn long(mut self, id: u8, number: u32) -> Self {
        self.0.push(id);
        self.0.extend(number.to_be_bytes());
        self
    }

    /// Adds a number of one to four bytes.
    pub fn length(mut self, id: u8, number: u32) -> Self {
        self.0.push(id);
        write_length(&mut self.0, number as usize);
        self
    }

    /// Adds a text.
    pub fn text(mut self, id: u8, value: &str) -> Self {
        self.0.push(id);
        self.0.extend(text(value));
        self
    }

    /// Adds properties that are written already.
    pub fn written(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// The properties with their length.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() + 4);
        write_length(&mut bytes, self.0.len());
        bytes.extend(&self.0);
        bytes
    }
}
