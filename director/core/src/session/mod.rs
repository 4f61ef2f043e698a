//! A session: a hub (root endpoint) and its members (leaf endpoints). The session changes the
//! model of its messages over time. No I/O and no clock; [`crate::io`] provides both.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
mod explain;
mod hub;
mod member;
mod multicast;
mod security;

pub use crate::uplink::MessageFrom;
pub use explain::Explanation;
pub use hub::Hub;
pub use member::{Member, MemberEvent};
pub use security::{KeyError, Security};

use crate::conditions::Conditions;
use crate::model::ModelId;
use crate::policy::Settings;
use crate::properties::TransportProperties;
use crate::switch::{MemberId, MessageId};
use crate::targets::{Pattern, QosTargets};
use crate::topic::TopicError;
use crate::uplink::{LIFETIME, MAX_BYTES, UplinkError};
use crate::{Instant, Span};
use core::net::{Ipv4Addr, SocketAddr};

/// Session configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Communication pattern.
    pub pattern: Pattern,
    /// Requested transport properties.
    pub properties: TransportProperties,
    /// Quality-of-service targets.
    pub targets: QosTargets,
    /// Security.
    pub security: Security,
    /// Assumed network conditions before the first estimate.
    pub assumed: Conditions,
    /// Header bytes on the wire below a datagram: those of IP, UDP, and the frame.
    pub below: usize,
    /// Bytes of IP and UDP headers among them: 28 with IPv4, 48 with IPv6.
    pub headers: usize,
    /// Multicast group.
    pub group: SocketAddr,
    /// Thresholds for a model change.
    pub settings: Settings,
    /// Allowed models; empty for all available ones.
    pub models: Vec<ModelId>,
    /// Number of places for members that the hub does not know at its start: they join by a hello
    /// from any address. Their numbers follow those of known members.
    pub places: usize,
    /// Models of external stacks that are configured; empty without any.
    pub outside: Vec<ModelId>,
    /// Lifetime of messages without a separate one, if it ends before the deadline of
    /// [`QosTargets`]. With `None` and without a deadline, messages stay open until they are
    /// answered, or until newer ones take their place.
    pub lifetime: Option<Span>,
    /// Whether the hub signs its messages: all members have the group's secret, so without it a member
    /// could pose as the hub towards others. Needs [`Security::Keys`], and 64 bytes per message; members of a hub that
    /// signs take no others.
    pub signed: bool,
    /// See [`Member::with_keep_alive`]; of no effect at a hub.
    pub keep_alive: Option<Span>,
}

impl Config {
    /// A session of this pattern with default conditions: an idle local network.
    pub fn new(pattern: Pattern, security: Security) -> Self {
        Self {
            pattern,
            properties: TransportProperties::default(),
            targets: QosTargets::default(),
            security,
            assumed: Conditions::default(),
            // Ethernet has 14 bytes, IPv4 20 and UDP 8; `headers` has the last two.
            below: 42,
            headers: 28,
            // In the local scope of administratively scoped multicast (RFC 2365, 6.1).
            group: SocketAddr::from((Ipv4Addr::new(239, 255, 77, 77), 5_777)),
            settings: Settings::default(),
            models: Vec::new(),
            places: 0,
            outside: Vec::new(),
            lifetime: Some(LIFETIME),
            signed: false,
            keep_alive: None,
        }
    }

    /// Maximum datagram size in bytes: the MTU minus IP and UDP headers.
    pub fn datagram(&self) -> usize {
        // A datagram over IPv4 has at most 65,507 bytes, also where an interface's MTU is larger.
        (self.assumed.mtu as usize).saturating_sub(self.headers).min(65_000)
    }
}

/// Why a session cannot start, or cannot take a message.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A key is too short, or missing.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// No model suits the session.
    #[error("no available model suits the session: {0}")]
    NoModel(String),
    /// No members, or too many.
    #[error("a session has 1 to 65,534 members, not {0}: list members, or set `places` for some")]
    Members(usize),
    /// The model has rejected a message.
    #[error("{0} cannot carry the message: {1}")]
    Refused(ModelId, String),
    /// Too many messages are open.
    #[error(
        "{0} messages are open, and 1,024 or 4 MiB of a member can be: wait until one of them is over, then \
         send again"
    )]
    Full(usize),
    /// The message has this number of bytes, more than a member can have open.
    #[error("the message has {0} bytes, and {MAX_BYTES} are the maximum: send it in parts")]
    TooLong(usize),
    /// The session has no such member; it has this number of members and places.
    #[error("there is no member {0}: the session has {1} members and places, with numbers from 0")]
    NoMember(MemberId, u16),
    /// A member that is not revoked cannot get another key.
    #[error(
        "member {0} is not revoked and has another key, which goes on: revoke it, then admit it with the new key"
    )]
    NotRevoked(MemberId),
    /// A topic or filter is not valid.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// A message cannot be stored, or the member has no storage.
    #[error("{0}")]
    Storage(String),
    /// The session is over.
    #[error("the session is over")]
    Over,
}

impl SessionError {
    /// The error of a member with this number of open messages.
    pub(crate) fn of_uplink(error: UplinkError, open: usize) -> Self {
        match error {
            UplinkError::Full => Self::Full(open),
            UplinkError::TooLong(bytes) => Self::TooLong(bytes),
        }
    }

    /// A message is to be stored, and there is no storage.
    pub(crate) fn no_storage() -> Self {
        Self::Storage("there is no storage: set one before the session starts".to_owned())
    }

    /// Why none of the models suits: the reasons of those that this end has, and those that it lacks.
    fn no_model(
        because: impl Iterator<Item = String>,
        chosen: &[ModelId],
        present: &[ModelId],
    ) -> Self {
        let absent = chosen.iter().filter(|model| !present.contains(model));
        let why = "not in this build, or its stack is not enabled";
        let absent = absent.map(|model| format!("{model}: {why}"));
        Self::NoModel(because.chain(absent).collect::<Vec<_>>().join(", "))
    }
}

/// An event at a hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A member has answered a message; once per message and member.
    Answer {
        /// The message.
        message: MessageId,
        /// The member.
        member: MemberId,
        /// The answer.
        bytes: Vec<u8>,
    },
    /// A member has acknowledged a message of a pattern without answers.
    Acknowledged {
        /// The message.
        message: MessageId,
        /// The member.
        member: MemberId,
    },
    /// A message is finished: all members have answered or acknowledged it, or its deadline has
    /// passed.
    Over {
        /// The message.
        message: MessageId,
        /// The members that have not.
        lacking: Vec<MemberId>,
    },
    /// A member has joined.
    Joined(MemberId),
    /// A member has left; it may come back.
    Left(MemberId),
    /// A member has sent a message. It ends when the application accepts it ([`Hub::accept`]) or,
    /// if it is a request (`answered`), answers it ([`Hub::answer`]).
    Message {
        /// The sender and the message's number.
        from: MessageFrom,
        /// The message.
        bytes: Vec<u8>,
        /// Whether the member waits for an answer.
        answered: bool,
    },
    /// A member has sent a message of a topic. It ends when the application accepts it
    /// ([`Hub::accept`]); then it goes on to the other members that have subscribed to the topic.
    Published {
        /// The sender and the message's number.
        from: MessageFrom,
        /// The topic.
        topic: String,
        /// The message.
        bytes: Vec<u8>,
    },
    /// The session changes its model.
    ModelChange {
        /// The old model.
        from: ModelId,
        /// The new model.
        to: ModelId,
        /// Time of the change.
        at: Instant,
    },
}
