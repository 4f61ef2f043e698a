//! Packets from a client.

use crate::packet::{HEAD, MAX_PACKET, Packet, Publish};
use crate::reason;
use crate::wire::Malformed;
use std::collections::HashMap;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;

/// Maximum number of topics for which a client of MQTT 5 can use a number.
pub const MAX_ALIASES: u16 = 16;
/// Size of a read, in bytes.
pub const READ: usize = 4_096;
/// First byte of a CONNECT (3.1.1).
const CONNECT: u8 = 0x10;
/// First byte of a TLS handshake (RFC 8446, 5.1).
const TLS: u8 = 0x16;
/// Begin of an HTTP upgrade (RFC 6455, 4.1).
const HTTP: &[u8] = b"GET ";

/// Why no packet follows.
pub enum End {
    /// The connection is over.
    Lost,
    /// The gateway ends it; a client of MQTT 5 gets the reason code.
    Refused(Malformed),
}

impl From<Malformed> for End {
    fn from(error: Malformed) -> Self {
        Self::Refused(error)
    }
}

/// Packets from a client.
pub struct Packets {
    stream: OwnedReadHalf,
    buffer: Vec<u8>,
    /// Protocol level, from the first packet on.
    level: u8,
    /// Topics with a number.
    aliases: HashMap<u16, String>,
}

impl Packets {
    /// Those of a new connection.
    pub fn new(stream: OwnedReadHalf) -> Self {
        Self { stream, buffer: Vec::new(), level: 0, aliases: HashMap::new() }
    }

    /// The next packet; the first one is a CONNECT.
    pub async fn next(&mut self) -> Result<Packet, End> {
        loop {
            let is_other = |first: &u8| self.level == 0 && *first != CONNECT;
            if self.buffer.first().is_some_and(is_other) {
                return Err(Malformed::protocol("its first packet is not CONNECT").into());
            }
            if let Some((packet, length)) = Packet::decode(&self.buffer, self.level)? {
                self.buffer.drain(..length);
                return self.resolve(packet);
            }
            let mut more = [0; READ];
            let length = self.stream.read(&mut more).await.map_err(|_| End::Lost)?;
            if length == 0 {
                return Err(End::Lost);
            }
            if self.buffer.len() > MAX_PACKET + HEAD + READ {
                let why = "a packet of more than 256 KiB";
                return Err(Malformed { why, code: reason::TOO_LARGE }.into());
            }
            self.buffer.extend(&more[..length]);
        }
    }

    /// What happened, and the fix, for the operator.
    pub fn explain(&self, refused: Malformed) -> String {
        if self.level == 0 && self.buffer.first() == Some(&TLS) {
            return "it speaks TLS: this port is without TLS. Use the client without TLS (mqtt://, not \
                    mqtts://)"
                .to_owned();
        }
        if self.level == 0 && self.buffer.first() == HTTP.first() {
            return "it speaks HTTP, for example MQTT over WebSocket: use plain MQTT over TCP (mqtt://, not \
                    ws:// or http://)"
                .to_owned();
        }
        match refused.code {
            reason::TOO_LARGE => format!(
                "it sent a packet of {} B, and the limit is {MAX_PACKET} B ({} KiB): send smaller messages",
                packet_length(&self.buffer),
                MAX_PACKET >> 10
            ),
            _ => format!(
                "it sent a packet that is not valid MQTT ({}): check that the client speaks MQTT 5 or 3.1.1 on \
                 this port",
                refused.why
            ),
        }
    }

    /// The packet with its topic in place of an alias.
    fn resolve(&mut self, packet: Packet) -> Result<Packet, End> {
        let mut publish = match packet {
            Packet::Connect(_) if self.level != 0 => {
                return Err(Malformed::protocol("a second CONNECT").into());
            }
            Packet::ConnAck { .. }
            | Packet::SubAck { .. }
            | Packet::UnsubAck { .. }
            | Packet::PingResp => {
                return Err(Malformed::protocol("a packet that only a server sends").into());
            }
            Packet::Connect(connect) => {
                self.level = connect.level;
                return Ok(Packet::Connect(connect));
            }
            Packet::Publish(publish) => publish,
            other => return Ok(other),
        };
        // Only servers send identifiers of subscriptions (3.3.4).
        if !publish.subscriptions.is_empty() {
            return Err(
                Malformed::protocol("a message with an identifier of a subscription").into()
            );
        }
        if let Some(alias) = publish.alias.take() {
            resolve(&mut self.aliases, alias, &mut publish)?;
        }
        Ok(Packet::Publish(publish))
    }
}

/// Defines an alias by a message with a topic; gives the topic to one without (3.3.2.3.4).
fn resolve(
    aliases: &mut HashMap<u16, String>,
    alias: u16,
    publish: &mut Publish,
) -> Result<(), End> {
    if !(1..=MAX_ALIASES).contains(&alias) {
        return Err(
            Malformed { why: "a topic alias above the maximum", code: reason::ALIAS }.into()
        );
    }
    let topic = &mut publish.message.topic;
    if topic.is_empty() {
        let known = aliases.get(&alias).ok_or(Malformed::protocol("an unknown topic alias"))?;
        topic.clone_from(known);
    } else {
        aliases.insert(alias, topic.clone());
    }
    Ok(())
}

/// The length of a packet without its head, which begins with these bytes (1.5.5).
fn packet_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    for (index, byte) in bytes.iter().skip(1).take(HEAD - 1).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            break;
        }
    }
    length
}
