//! Security of the sessions that are measured.

use director::session::Security;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    Plain,
    /// With one key for all.
    Encrypted,
    /// With a key for each member, and signed messages of the hub.
    Signed,
}

pub const ALL: [Protection; 3] = [Protection::Plain, Protection::Encrypted, Protection::Signed];

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Encrypted => "encrypted",
            Self::Signed => "signed",
        })
    }
}

fn key_of(member: usize) -> Vec<u8> {
    format!("the key of member {member:08}").into_bytes()
}

impl Protection {
    pub fn of_hub(self, members: usize) -> Security {
        match self {
            Self::Signed => Security::Keys((0..members).map(key_of).collect()),
            _ => self.of_member(0),
        }
    }

    pub fn of_member(self, member: usize) -> Security {
        match self {
            Self::Plain => Security::InsecureOnPurpose,
            Self::Encrypted => Security::Key(b"a key that all of them have".to_vec()),
            Self::Signed => Security::Key(key_of(member)),
        }
    }
}
