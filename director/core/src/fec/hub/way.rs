//! Ways of a message: by multicast to the group, or by unicast to a single member.

use crate::switch::MessageId;
use core::ops::RangeInclusive;

/// A message on its way to the group, or to a single member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::fec) struct Way {
    pub message: MessageId,
    /// The receiver, if there is only one.
    pub only: Option<u16>,
}

impl Way {
    /// To the group.
    pub fn group(message: MessageId) -> Self {
        Self { message, only: None }
    }

    /// To a single member.
    pub fn single(message: MessageId, member: u16) -> Self {
        Self { message, only: Some(member) }
    }

    /// All ways of a message.
    pub fn all(message: MessageId) -> RangeInclusive<Self> {
        Self::group(message)..=Self::single(message, u16::MAX)
    }
}
