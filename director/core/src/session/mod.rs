//! A session: a hub (root endpoint) and its members (leaf endpoints). The session changes the
//! model of its messages over time. No I/O and no clock; [`crate::io`] provides both.

mod explain;
mod hub;
mod member;
mod multicast;

pub use explain::Explanation;
pub use hub::Hub;
pub use member::{Member, MemberEvent};

use crate::Nanos;
use crate::conditions::Conditions;
use crate::keys::{Root, ShortKey};
use crate::model::ModelId;
use crate::policy::Settings;
use crate::properties::TransportProperties;
use crate::switch::{MemberId, MessageId};
use crate::targets::{Pattern, QosTargets};
use std::net::SocketAddrV4;

/// Security of a session. It can only be disabled explicitly.
#[derive(Clone)]
pub enum Security {
    /// Pre-shared key: at least 16 random bytes, or a key exported from TLS.
    Key(Vec<u8>),
    /// No security: everyone on the path can read, change and forge messages.
    InsecureOnPurpose,
}

impl std::fmt::Debug for Security {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "Key(..)",
            Self::InsecureOnPurpose => "InsecureOnPurpose",
        })
    }
}

impl Security {
    /// The root key of a session.
    ///
    /// # Errors
    /// [`ShortKey`] if the key is too short.
    pub fn root(&self, session: u64) -> Result<Root, ShortKey> {
        match self {
            Self::Key(key) => Root::new(key, session),
            Self::InsecureOnPurpose => Ok(Root::insecure(session)),
        }
    }
}

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
    /// Header bytes on the wire below a datagram: 28 of IPv4 and UDP plus those of the frame.
    pub below: usize,
    /// Multicast group.
    pub group: SocketAddrV4,
    /// Thresholds for a model change.
    pub settings: Settings,
    /// Allowed models; empty for all available ones.
    pub models: Vec<ModelId>,
    /// Models of external stacks that are configured; empty without any.
    pub outside: Vec<ModelId>,
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
            below: 42,
            group: SocketAddrV4::new([239, 255, 77, 77].into(), 5_777),
            settings: Settings::default(),
            models: Vec::new(),
            outside: Vec::new(),
        }
    }

    /// Maximum datagram size in bytes: the MTU minus IPv4 and UDP headers.
    pub fn datagram(&self) -> usize {
        (self.assumed.mtu as usize).saturating_sub(28).min(65_000)
    }
}

/// Why a session cannot start, or cannot take a message.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The key is too short.
    #[error(transparent)]
    Key(#[from] ShortKey),
    /// No model suits the session.
    #[error("no available model suits the session: {0}")]
    NoModel(String),
    /// No members, or too many.
    #[error("a session has 1 to 65,534 members, not {0}")]
    Members(usize),
    /// The model has rejected a message.
    #[error("{0} cannot carry the message: {1}")]
    Refused(ModelId, String),
    /// The session is over.
    #[error("the session is over")]
    Over,
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
    /// The session changes its model.
    ModelChange {
        /// The old model.
        from: ModelId,
        /// The new model.
        to: ModelId,
        /// Time of the change.
        at: Nanos,
    },
}
