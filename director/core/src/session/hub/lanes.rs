//! The lanes of members' messages, at the hub.

use crate::Instant;
use crate::agenda::Agenda;
use crate::switch::MemberId;
use crate::uplink::{Lane, Publication, SenderId};
use alloc::collections::{BTreeMap, BTreeSet};

/// The lane to one start of a member.
pub(super) struct MemberLane {
    /// Counts the starts of the member.
    pub start: u32,
    /// The hub's end.
    pub lane: Lane,
    /// The sender of stored messages, if it has introduced itself.
    pub sender: Option<SenderId>,
    /// Messages without a reply.
    pub open: BTreeMap<u32, Unanswered>,
}

/// A message without a reply.
pub(super) struct Unanswered {
    /// The end of its lifetime.
    pub until: Instant,
    /// Its length, in bytes.
    pub length: usize,
    /// What goes on to other members when the application has taken it.
    pub publication: Option<Publication>,
}

/// The lanes to members, and who has left.
#[derive(Default)]
pub(super) struct Uplinks {
    /// The lanes. After each change of one, [`Self::agenda`] must be touched.
    pub lanes: BTreeMap<MemberId, MemberLane>,
    /// When each lane has something to send.
    pub agenda: Agenda<MemberId>,
    /// The member after the one that was served last.
    pub turn: MemberId,
    /// Members that have left, and may come back.
    pub left: BTreeSet<MemberId>,
    /// The starts of members that have said that they leave: what they sent before may arrive after it.
    pub over: BTreeMap<MemberId, u32>,
}
