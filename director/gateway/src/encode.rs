//! Writing packets.

use crate::message::Message;
use crate::packet::{Ack, Connect, HEAD, MQTT_5, Options, Packet, Publish};
use crate::property::{Properties, id};
use crate::reason;
use crate::wire::{text, write_length};

impl Packet {
    /// The bytes of the packet for a connection of this protocol level. A CONNECT has neither name
    /// nor password, and the level that it says.
    pub fn encode(&self, level: u8) -> Vec<u8> {
        let is_5 = level == MQTT_5;
        // An empty list of properties.
        let none = if is_5 { &[0][..] } else { &[] };
        let (head, body) = match self {
            Self::Connect(connect) => (0x10, write_connect(connect)),
            Self::ConnAck { present, code, properties } => {
                let properties = if is_5 { properties.encode() } else { Vec::new() };
                (0x20, [&[u8::from(*present), *code], &properties[..]].concat())
            }
            Self::Publish(publish) => write_publish(publish, is_5),
            Self::PubAck(ack) => (0x40, write_ack(*ack, is_5)),
            Self::PubRec(ack) => (0x50, write_ack(*ack, is_5)),
            Self::PubRel(ack) => (0x62, write_ack(*ack, is_5)),
            Self::PubComp(ack) => (0x70, write_ack(*ack, is_5)),
            Self::Subscribe { id, filters } => (0x82, write_subscribe(*id, filters, is_5)),
            Self::SubAck { id, codes } => {
                // 3.1.1, 3.9.3: one code for all failures.
                let code = |code: &u8| if is_5 { *code } else { (*code).min(reason::UNSPECIFIED) };
                let codes: Vec<u8> = codes.iter().map(code).collect();
                (0x90, [&id.to_be_bytes()[..], none, &codes].concat())
            }
            Self::Unsubscribe { id, filters } => {
                let filters: Vec<u8> = filters.iter().flat_map(|filter| text(filter)).collect();
                (0xa2, [&id.to_be_bytes()[..], none, &filters].concat())
            }
            Self::UnsubAck { id, codes } => {
                let codes = if is_5 { &codes[..] } else { &[] };
                (0xb0, [&id.to_be_bytes()[..], none, codes].concat())
            }
            Self::PingReq => (0xc0, Vec::new()),
            Self::PingResp => (0xd0, Vec::new()),
            Self::Disconnect { code, expires_s, reason } => {
                (0xe0, if is_5 { write_disconnect(*code, *expires_s, *reason) } else { Vec::new() })
            }
        };
        let mut bytes = Vec::with_capacity(body.len() + HEAD);
        bytes.push(head);
        write_length(&mut bytes, body.len());
        bytes.extend(body);
        bytes
    }
}

fn write_disconnect(code: u8, expires_s: Option<u32>, why: Option<&str>) -> Vec<u8> {
    let mut properties = Properties::default();
    if let Some(time_s) = expires_s {
        properties = properties.long(id::SESSION_EXPIRY, time_s);
    }
    if let Some(why) = why {
        properties = properties.text(id::REASON, why);
    }
    // A success without properties is empty (3.14.2.1).
    match code == reason::SUCCESS && properties == Properties::default() {
        true => Vec::new(),
        false => [&[code][..], &properties.encode()].concat(),
    }
}

fn write_ack(ack: Ack, is_5: bool) -> Vec<u8> {
    let mut body = ack.id.to_be_bytes().to_vec();
    if is_5 && ack.code != reason::SUCCESS {
        body.push(ack.code);
    }
    body
}

/// The properties of a message that its sender has set.
fn message_properties(message: &Message) -> Properties {
    let content = Properties::default().written(message.properties.as_deref().unwrap_or_default());
    match message.until_s {
        // In a packet it is what is left of at most 32 bits.
        Some(left_s) => content.long(id::EXPIRY, u32::try_from(left_s).unwrap_or(u32::MAX)),
        None => content,
    }
}

fn write_publish(publish: &Publish, is_5: bool) -> (u8, Vec<u8>) {
    let Publish { duplicate, id: number, message, alias, subscriptions } = publish;
    let mut body = text(&message.topic);
    if message.qos > 0 {
        body.extend(number.to_be_bytes());
    }
    if is_5 {
        let mut properties = message_properties(message);
        if let Some(alias) = alias {
            properties = properties.number(id::ALIAS, *alias);
        }
        for subscription in subscriptions {
            properties = properties.length(id::SUBSCRIPTION, *subscription);
        }
        body.extend(properties.encode());
    }
    body.extend(&message.payload[..]);
    let flags = u8::from(*duplicate) << 3 | message.qos << 1 | u8::from(message.retain);
    (0x30 | flags, body)
}

fn write_subscribe(number: u16, filters: &[(String, Options)], is_5: bool) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    if is_5 {
        // One for the whole packet.
        let identifier = filters.first().and_then(|(_, options)| options.identifier);
        let properties = Properties::default();
        let properties = match identifier {
            Some(identifier) => properties.length(id::SUBSCRIPTION, identifier),
            None => properties,
        };
        body.extend(properties.encode());
    }
    for (filter, options) in filters {
        body.extend(text(filter));
        let flags = u8::from(options.no_local) << 2 | u8::from(options.as_published) << 3;
        body.push(options.qos | flags | options.retained << 4);
    }
    body
}

fn write_connect(connect: &Connect) -> Vec<u8> {
    let is_5 = connect.level == MQTT_5;
    let mut flags = u8::from(connect.clean) << 1;
    let mut rest = Vec::new();
    if is_5 {
        let mut properties = Properties::default();
        if connect.expires_s > 0 {
            properties = properties.long(id::SESSION_EXPIRY, connect.expires_s);
        }
        if connect.receive_maximum > 0 {
            properties = properties.number(id::RECEIVE_MAXIMUM, connect.receive_maximum);
        }
        if connect.maximum_packet > 0 {
            properties = properties.long(id::MAXIMUM_PACKET, connect.maximum_packet);
        }
        rest.extend(properties.encode());
    }
    rest.extend(text(&connect.client));
    if let Some(will) = &connect.will {
        flags |= 4 | will.qos << 3 | u8::from(will.retain) << 5;
        if is_5 {
            let mut properties = message_properties(will);
            if connect.will_delay_s > 0 {
                properties = properties.long(id::WILL_DELAY, connect.will_delay_s);
            }
            rest.extend(properties.encode());
        }
        rest.extend(text(&will.topic));
        rest.extend((will.payload.len() as u16).to_be_bytes());
        rest.extend(&will.payload[..]);
    }
    let head = [text("MQTT"), vec![connect.level, flags]].concat();
    [&head[..], &connect.keep_alive.to_be_bytes(), &rest].concat()
}
