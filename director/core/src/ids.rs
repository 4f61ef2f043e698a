//! Numbers of messages and members.

/// A message number; the same on all models.
pub type MessageId = u64;
/// A member of the group; a single peer is a group of one.
pub type MemberId = u32;
