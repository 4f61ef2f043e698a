//! Reason codes of MQTT 5 (section 2.4), as far as the gateway sends or tests them.

/// Success, and QoS 0 of a subscription.
pub const SUCCESS: u8 = 0;
/// A DISCONNECT that asks for the will.
pub const WITH_WILL: u8 = 0x04;
/// An UNSUBSCRIBE without such a subscription.
pub const NO_SUBSCRIPTION: u8 = 0x11;
/// Codes from here on are failures. Without a more precise one.
pub const UNSPECIFIED: u8 = 0x80;
/// Bytes that are no packet.
pub const MALFORMED: u8 = 0x81;
/// A packet that is not allowed.
pub const PROTOCOL_ERROR: u8 = 0x82;
/// A message that this gateway cannot publish.
pub const NOT_POSSIBLE: u8 = 0x83;
/// The version of the protocol is not supported.
pub const VERSION: u8 = 0x84;
/// The name of the client is not valid.
pub const CLIENT_NAME: u8 = 0x85;
/// Too much waits for the hub.
pub const BUSY: u8 = 0x89;
/// An authentication method that the gateway does not have.
pub const AUTHENTICATION: u8 = 0x8c;
/// The client was silent for longer than its keep alive.
pub const KEEP_ALIVE: u8 = 0x8d;
/// Another connection has the session.
pub const TAKEN_OVER: u8 = 0x8e;
/// The filter is not valid.
pub const FILTER: u8 = 0x8f;
/// The packet's number is not in use.
pub const UNKNOWN_ID: u8 = 0x92;
/// More messages without an acknowledgement than the receive maximum.
pub const TOO_MANY: u8 = 0x93;
/// A topic alias that is not valid.
pub const ALIAS: u8 = 0x94;
/// A packet of more than the maximum.
pub const TOO_LARGE: u8 = 0x95;
/// A limit of the gateway.
pub const QUOTA: u8 = 0x97;
/// Shared subscriptions are not supported.
pub const NO_SHARED: u8 = 0x9e;

/// The reason why the gateway ends a connection, for people.
pub fn text(code: u8) -> &'static str {
    match code {
        MALFORMED => "a packet is malformed",
        PROTOCOL_ERROR => "a packet is not allowed here",
        KEEP_ALIVE => "no packet within one and a half times the keep alive",
        TAKEN_OVER => "another connection uses this client identifier",
        TOO_MANY => "more messages of QoS 2 are not released than the receive maximum of CONNACK",
        ALIAS => "a topic alias is out of range",
        TOO_LARGE => "a packet exceeds the maximum packet size of CONNACK",
        _ => "the gateway cannot go on",
    }
}
