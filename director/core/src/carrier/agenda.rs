//! Which exchanges of a hub have something to send, and when.

use crate::Instant;
use crate::switch::MemberId;
use alloc::collections::{BTreeMap, BTreeSet};

/// When the exchange with each member is to be polled next: most members of a large group have
/// nothing to send at a time.
#[derive(Default)]
pub(super) struct Agenda {
    /// Those that may have a datagram now.
    active: BTreeSet<MemberId>,
    /// Times of others, and the same by member.
    times: BTreeSet<(Instant, MemberId)>,
    wakes: BTreeMap<MemberId, Instant>,
    /// Those that may have events.
    pub changed: BTreeSet<MemberId>,
}

impl Agenda {
    /// The state of an exchange changes.
    pub fn touch(&mut self, member: MemberId) {
        self.active.insert(member);
        self.changed.insert(member);
        if let Some(at) = self.wakes.remove(&member) {
            self.times.remove(&(at, member));
        }
    }

    /// An exchange has nothing to send before `until`.
    pub fn rest(&mut self, member: MemberId, until: Option<Instant>) {
        self.active.remove(&member);
        if let Some(at) = until {
            self.times.insert((at, member));
            self.wakes.insert(member, at);
        }
    }

    /// Some may have a datagram now, because of the time.
    pub fn wake(&mut self, now: Instant) {
        while let Some((_, member)) = self.times.first().filter(|(at, _)| *at <= now).copied() {
            self.touch(member);
        }
    }

    /// The first that may have a datagram, from `first` on.
    pub fn next(&self, first: MemberId) -> Option<MemberId> {
        self.active.range(first..).chain(self.active.range(..first)).next().copied()
    }

    /// Time of the next poll.
    pub fn wake_at(&self) -> Option<Instant> {
        self.times.first().map(|(at, _)| *at)
    }
}
