//! Messages that members send at any time: telemetry and alarms (without an answer), and requests
//! to the hub's application. They do not depend on the session's model: each start of a member has
//! a separate lane to the hub, with the ARQ of `udp-arq` and keys of its handshake, and is known
//! by these keys, not by its address.
//!
//! Each message ends as exactly one [`Outcome`], at its deadline at the latest.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
mod lane;
mod sender;
mod stored;
mod topics;

pub(crate) use lane::{
    INTRODUCE, LEAVE, Lane, MEMORY, MESSAGE, PUBLISH, Path, RECEIPT, REQUEST, STORED, SUBSCRIBE,
    reply, take_member,
};
pub(crate) use sender::Uplink;
pub(crate) use stored::{MAX_BACK, Stored};
pub use stored::{SenderId, StoredChange, StoredMessage, StoredState};
pub(crate) use topics::{Publication, Subscriptions};

use crate::Span;
use crate::switch::MemberId;

/// Properties of a message (RFC 9622, 9.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageProperties {
    /// Time from sending to the end of the message: `msgLifetime`.
    pub lifetime: Span,
    /// Messages with a lower value are sent first: `msgPriority`.
    pub priority: u32,
    /// Whether the message outlasts this start of the member, which needs a storage: the next start
    /// sends it again, and the hub's application gets it once.
    pub stored: bool,
}

/// Default lifetime of a message: no message stays open for ever.
pub const LIFETIME: Span = Span::from_s(60);

impl Default for MessageProperties {
    fn default() -> Self {
        Self { lifetime: LIFETIME, priority: 100, stored: false }
    }
}

/// Why the hub's application will never have a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// None of it was sent before its lifetime ended or the hub restarted.
    #[error(
        "none of it was sent: the member had not joined, others went first, or the hub restarted"
    )]
    Unsent,
    /// The hub, or its application, has refused it.
    #[error("the hub has refused it: its queue is full, or its application does not answer")]
    Refused,
    /// It has too many chunks for datagrams of this size.
    #[error("{}", too_long(*bytes, *most))]
    TooLong {
        /// Its size, in bytes; 0 if an earlier version has stored the outcome.
        bytes: usize,
        /// The maximum with datagrams of this size, in bytes.
        most: usize,
    },
}

fn too_long(bytes: usize, most: usize) -> String {
    match bytes {
        0 => "it is too long for 256 datagrams: send it in parts".into(),
        _ => format!(
            "it has {bytes} bytes, and {most} are the maximum with datagrams of this size: send it in parts"
        ),
    }
}

/// How a message ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The hub's application has taken it. The answer, if it was a request.
    Acknowledged(Option<Vec<u8>>),
    /// The hub's application will never have it.
    Failed(Failure),
    /// It was sent, and neither is known: the lifetime is over, or the hub has restarted.
    Unknown,
}

/// Why a message is not accepted; none of it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UplinkError {
    /// Too many are open.
    #[error(
        "{MAX_OPEN} messages or {MAX_BYTES} bytes are open: wait for an outcome, then send again"
    )]
    Full,
    /// It has this number of bytes, more than a member can have open.
    #[error("the message has {0} bytes, and {MAX_BYTES} are the maximum: send it in parts")]
    TooLong(usize),
}

impl UplinkError {
    /// The error for a message with this number of bytes that has no room.
    pub(crate) fn of(bytes: usize) -> Self {
        if bytes > MAX_BYTES { Self::TooLong(bytes) } else { Self::Full }
    }
}

/// Maximum number of open messages of a member, and of their bytes.
pub(crate) const MAX_OPEN: usize = 1_024;
pub(crate) const MAX_BYTES: usize = 4 << 20;

/// Identifies a member's message at the hub: the member, its start, the message's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageFrom {
    /// The member.
    pub member: MemberId,
    pub(crate) start: u32,
    pub(crate) number: u32,
}
