//! A session: a hub and its members, whose messages go by one model now and by another
//! later. No I/O and no clock; [`crate::io`] has both.

mod explain;
mod hub;
mod member;
mod reach;

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

/// Whether a session is protected. It is, unless this says otherwise by name.
#[derive(Clone)]
pub enum Security {
    /// By a key that both ends have: 16 bytes at least, drawn at random, or exported from
    /// TLS.
    Key(Vec<u8>),
    /// Not at all: whoever is on the way can read, change and make up messages.
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
    /// The root of a session's keys.
    ///
    /// # Errors
    /// When the key is too short.
    pub fn root(&self, session: u64) -> Result<Root, ShortKey> {
        match self {
            Self::Key(key) => Root::new(key, session),
            Self::InsecureOnPurpose => Ok(Root::insecure(session)),
        }
    }
}

/// What a session is to be.
#[derive(Debug, Clone)]
pub struct Config {
    /// Who talks to whom.
    pub pattern: Pattern,
    /// What is asked of the transport.
    pub properties: TransportProperties,
    /// What is to be reached.
    pub targets: QosTargets,
    /// Whether it is protected.
    pub security: Security,
    /// What the network is thought to be like before anything is seen of it.
    pub assumed: Conditions,
    /// Bytes on the wire below a datagram: 28 of IPv4 and UDP and those of the frame.
    pub below: usize,
    /// The group that multicast models use.
    pub group: SocketAddrV4,
    /// When a change is worth it.
    pub settings: Settings,
    /// The only models that may be used; all that there are if it is empty.
    pub models: Vec<ModelId>,
    /// The models of other stacks that there are means for; none where nobody has them.
    pub outside: Vec<ModelId>,
}

impl Config {
    /// A session of this pattern with a key, on a quiet local network.
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

    /// Bytes of a datagram at most: what IPv4 and UDP leave of a packet.
    pub fn datagram(&self) -> usize {
        (self.assumed.mtu as usize).saturating_sub(28).min(65_000)
    }
}

/// Why there is no session, or a message is not taken.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The key is too short.
    #[error(transparent)]
    Key(#[from] ShortKey),
    /// No model suits.
    #[error("no model suits a session of this pattern: {0}")]
    NoModel(String),
    /// There are no members, or too many.
    #[error("a session has 1 to 65,534 members, not {0}")]
    Members(usize),
    /// The model cannot carry a message.
    #[error("{0} cannot carry the message: {1}")]
    Refused(ModelId, String),
    /// The session is over.
    #[error("the session is over")]
    Over,
}

/// What happens in a hub's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A member has answered a message; once for each message and member.
    Answer {
        /// The message.
        message: MessageId,
        /// Who.
        member: MemberId,
        /// The answer.
        bytes: Vec<u8>,
    },
    /// A member has a message that is not answered.
    Acknowledged {
        /// The message.
        message: MessageId,
        /// Who.
        member: MemberId,
    },
    /// Nobody is waited for any more; who has not answered or acknowledged it by its
    /// deadline.
    Over {
        /// The message.
        message: MessageId,
        /// Who is lacking.
        lacking: Vec<MemberId>,
    },
    /// A member is there.
    Joined(MemberId),
    /// The session goes over to another model.
    ModelChange {
        /// From which.
        from: ModelId,
        /// To which.
        to: ModelId,
        /// At what time.
        at: Nanos,
    },
}
