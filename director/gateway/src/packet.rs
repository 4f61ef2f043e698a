//! Packets of MQTT 5 (OASIS, 2019), of 3.1.1 (2014), and of 3.1, which differs in the name of the
//! protocol. Sections are those of MQTT 5.

use crate::message::Message;
use crate::property::Properties;

/// Maximum length of a packet without its head, in bytes.
pub const MAX_PACKET: usize = 256 << 10;
/// Maximum length of the head of a packet, in bytes.
pub const HEAD: usize = 5;
/// The protocol level of MQTT 5; 4 is 3.1.1, and 3 is 3.1.
pub const MQTT_5: u8 = 5;

/// A packet of a client or of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// The first packet of a client.
    Connect(Box<Connect>),
    /// The answer to it.
    ConnAck {
        /// Whether the gateway has a session of the client.
        present: bool,
        /// 0, or why it is refused, in the codes of the client's version.
        code: u8,
        /// What the gateway supports, for clients of MQTT 5.
        properties: Properties,
    },
    /// A message.
    Publish(Publish),
    /// QoS 1: the receiver has it, or why it has not.
    PubAck(Ack),
    /// QoS 2: the receiver has it, or why it has not.
    PubRec(Ack),
    /// QoS 2: the sender knows that.
    PubRel(Ack),
    /// QoS 2: the receiver forgets the number.
    PubComp(Ack),
    /// Filters with their options.
    Subscribe {
        /// Number of the packet.
        id: u16,
        /// The filters.
        filters: Vec<(String, Options)>,
    },
    /// Granted QoS of each filter, or why it is refused.
    SubAck {
        /// Number of the packet that it answers.
        id: u16,
        /// The reason codes of MQTT 5; clients of earlier versions get 0x80 for a refusal.
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
    UnsubAck {
        /// Number of the packet that it answers.
        id: u16,
        /// A reason code for each filter; only clients of MQTT 5 get them.
        codes: Vec<u8>,
    },
    /// The client is alive.
    PingReq,
    /// The answer to it.
    PingResp,
    /// The end of the connection. The gateway sends it to clients of MQTT 5 only.
    Disconnect {
        /// Why.
        code: u8,
        /// How long the session lasts, in seconds, if that changes.
        expires_s: Option<u32>,
        /// The reason in words, if the gateway sends one.
        reason: Option<&'static str>,
    },
}

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connect {
    /// Version of the protocol: 5, 4 for 3.1.1, 3 for 3.1. Of others, only this is read.
    pub level: u8,
    /// Name of the client; empty for any.
    pub client: String,
    /// Whether it begins a new session.
    pub clean: bool,
    /// Maximum time between packets, in seconds; 0 for any.
    pub keep_alive: u16,
    /// The message to publish if the connection is lost.
    pub will: Option<Message>,
    /// How long after the loss, in seconds.
    pub will_delay_s: u32,
    /// MQTT 5: time that the session lasts after the connection, in seconds; `u32::MAX` for ever.
    pub expires_s: u32,
    /// Maximum number of messages to the client without its acknowledgement; 0 for any.
    pub receive_maximum: u16,
    /// Maximum length of a packet to the client, in bytes; 0 for any.
    pub maximum_packet: u32,
    /// Whether it wants an authentication that the gateway does not have.
    pub has_method: bool,
}

impl Connect {
    /// Time that the session lasts after the connection, in seconds; `u32::MAX` for ever.
    pub fn lifetime_s(&self) -> u32 {
        match self.level {
            MQTT_5 => self.expires_s,
            // Earlier versions have one flag for both (3.1.1, 3.1.2.4).
            _ if self.clean => 0,
            _ => u32::MAX,
        }
    }
}

/// A message on its way to or from a client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Publish {
    /// Whether it was sent before.
    pub duplicate: bool,
    /// Its number, with QoS 1 and 2.
    pub id: u16,
    /// The message.
    pub message: Message,
    /// What the client calls the topic from now on; then the topic may be empty (3.3.2.3.4).
    pub alias: Option<u16>,
    /// Identifiers of the subscriptions that it is for (3.3.2.3.8).
    pub subscriptions: Vec<u32>,
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Number of the packet that it answers.
    pub id: u16,
    /// Its reason code; earlier versions have none.
    pub code: u8,
}

impl Ack {
    /// A success.
    pub fn new(id: u16) -> Self {
        Self { id, code: crate::reason::SUCCESS }
    }
}

/// Options of a subscription (3.8.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Maximum QoS.
    pub qos: u8,
    /// Whether the client gets none of its messages back.
    pub no_local: bool,
    /// Whether messages keep their retain flag.
    pub as_published: bool,
    /// When retained messages follow: 0 always, 1 for a new subscription, 2 never.
    pub retained: u8,
    /// The identifier that messages for it carry.
    pub identifier: Option<u32>,
}

impl Options {
    /// A subscription of MQTT 3.1.1.
    pub fn of(qos: u8) -> Self {
        Self { qos, ..Self::default() }
    }
}
