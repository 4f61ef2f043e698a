//! Security of a session: who has which pre-shared key.

use crate::keys::{Psk, ShortKey};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::rng::Rng;
use crate::signature::Authority;
use crate::switch::MemberId;
use alloc::collections::{BTreeMap, BTreeSet};

/// Why pre-shared keys are of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A key is too short.
    #[error(transparent)]
    Short(#[from] ShortKey),
    /// The number of keys is not that of the members.
    #[error("there are {0} keys for {1} members: give each member one, in the members' order")]
    Count(usize, usize),
    /// Two members have the same key, so the hub could not tell which one says hello.
    #[error(
        "members {0} and {1} have the same key: give each one its own, or all of them one key (Security::Key)"
    )]
    Same(MemberId, MemberId),
    /// Signatures need a key for each member.
    #[error(
        "messages are signed only if each member has its own key, since with one key for all a member can pose as the hub anyway: give each one a key (Security::Keys), or do not sign"
    )]
    Signed,
}

/// Security of a session. It can only be disabled explicitly.
///
/// Pre-shared keys authenticate the two ends of a handshake, which makes fresh keys; no message is
/// sealed under a pre-shared key.
#[derive(Clone)]
pub enum Security {
    /// One pre-shared key for all: at least 16 random bytes. A member can pose as the hub or as
    /// another member.
    Key(Vec<u8>),
    /// At the hub, a pre-shared key for each member, in the members' order; those of places
    /// without a known member last. A member has its own
    /// as [`Security::Key`]. It cannot pose as another member, and can be revoked.
    Keys(Vec<Vec<u8>>),
    /// No security: everyone on the path can read, change and forge messages.
    InsecureOnPurpose,
}

impl core::fmt::Debug for Security {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Key(_) => f.write_str("Key(..)"),
            Self::Keys(keys) => write!(f, "Keys({} keys)", keys.len()),
            Self::InsecureOnPurpose => f.write_str("InsecureOnPurpose"),
        }
    }
}

impl Security {
    /// The key of a member; `None` without security.
    pub(super) fn of_member(&self) -> Result<Option<Psk>, KeyError> {
        match self {
            Self::Key(key) => Ok(Some(Psk::new(key)?)),
            Self::Keys(keys) => match &keys[..] {
                [key] => Ok(Some(Psk::new(key)?)),
                _ => Err(KeyError::Count(keys.len(), 1)),
            },
            Self::InsecureOnPurpose => Ok(None),
        }
    }

    /// The keys of a hub of this number of members.
    pub(super) fn of_hub(&self, members: usize) -> Result<Psks, KeyError> {
        let keys = match self {
            Self::Key(key) => MemberKeys::Shared(Psk::new(key)?),
            Self::Keys(keys) if keys.len() == members => {
                let mut all: Vec<Psk> = Vec::with_capacity(members);
                for key in keys {
                    all.push(Psk::new(key)?);
                }
                check_different(&all)?;
                MemberKeys::Each(all)
            }
            Self::Keys(keys) => return Err(KeyError::Count(keys.len(), members)),
            Self::InsecureOnPurpose => MemberKeys::None,
        };
        Ok(Psks { keys, revoked: BTreeSet::new() })
    }
}

/// Checks that no key is there twice.
fn check_different(keys: &[Psk]) -> Result<(), KeyError> {
    let mut known = BTreeMap::new();
    for (key, member) in keys.iter().zip(0..) {
        if let Some(other) = known.insert(key.bytes(), member) {
            return Err(KeyError::Same(other, member));
        }
    }
    Ok(())
}

enum MemberKeys {
    None,
    Shared(Psk),
    Each(Vec<Psk>),
}

/// The members' pre-shared keys, at the hub.
pub(super) struct Psks {
    keys: MemberKeys,
    revoked: BTreeSet<MemberId>,
}

impl Psks {
    /// Whether messages are sealed.
    pub fn is_secure(&self) -> bool {
        !matches!(self.keys, MemberKeys::None)
    }

    /// Whether each member has its own key.
    pub fn are_separate(&self) -> bool {
        matches!(self.keys, MemberKeys::Each(_))
    }

    /// How the hub signs its messages, if it does.
    pub fn authority(&self, signed: bool, rng: &mut Rng) -> Result<Authority, KeyError> {
        match signed {
            true if !self.are_separate() => Err(KeyError::Signed),
            true => Ok(Authority::new(rng.bytes())),
            false => Ok(Authority::default()),
        }
    }

    /// A member's key, or `None` within if there is no security; `None` if it is revoked.
    pub fn of(&self, member: MemberId) -> Option<Option<&Psk>> {
        if self.revoked.contains(&member) {
            return None;
        }
        match &self.keys {
            MemberKeys::None => Some(None),
            MemberKeys::Shared(key) => Some(Some(key)),
            MemberKeys::Each(keys) => keys.get(member as usize).map(Some),
        }
    }

    /// Refuses handshakes of a member from now on.
    pub fn revoke(&mut self, member: MemberId) {
        self.revoked.insert(member);
    }

    /// Whether this is a member's key; always, if members have none each.
    pub fn is_key(&self, member: MemberId, key: &[u8]) -> Result<bool, KeyError> {
        match &self.keys {
            MemberKeys::Each(keys) => {
                let key = Psk::new(key)?;
                Ok(keys.get(member as usize).is_none_or(|known| *known == key))
            }
            MemberKeys::None | MemberKeys::Shared(_) => Ok(true),
        }
    }

    /// Accepts a member again, with this key if each member has one.
    pub fn admit(&mut self, member: MemberId, key: &[u8]) -> Result<(), KeyError> {
        if let MemberKeys::Each(keys) = &mut self.keys
            && let Some(known) = keys.get_mut(member as usize)
        {
            let key = Psk::new(key)?;
            let former = core::mem::replace(known, key);
            if let Err(same) = check_different(keys) {
                keys[member as usize] = former;
                return Err(same);
            }
        }
        self.revoked.remove(&member);
        Ok(())
    }
}
