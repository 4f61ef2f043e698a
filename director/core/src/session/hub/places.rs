//! Members and handshakes at addresses that the hub did not know at its start.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::MemberId;
use crate::{Instant, Span};
use alloc::collections::{BTreeMap, VecDeque};

/// Keys to try within a second: a flood of hellos must not take all of the hub's time. One takes a
/// few microseconds.
const MAX_TRIES: u32 = 20_000;
const SECOND: Span = Span::from_s(1);

/// Members that the hub did not know report every 30 s. After this time
/// without a report, their place is vacant.
const SILENT: Span = Span::from_s(100);

/// Members and handshakes at addresses that the hub did not know at its start.
#[derive(Default)]
pub(super) struct Strangers {
    /// Number of the first member without an address at the start.
    pub first: MemberId,
    /// Begin of the current second, and the number of keys that were tried in it.
    since: Instant,
    tries: u32,
    /// Datagrams to send to the source of the datagram in hand.
    pub replies: VecDeque<Vec<u8>>,
    /// Times of the last reports of members.
    pub reported: BTreeMap<MemberId, Instant>,
}

impl Strangers {
    /// Whether the hub did not know a member at its start.
    pub fn includes(&self, member: MemberId) -> bool {
        member >= self.first
    }

    /// Records that a member is present.
    pub fn record_report(&mut self, member: MemberId, now: Instant) {
        if self.includes(member) {
            self.reported.insert(member, now);
        }
    }

    /// Expects no reports of a member.
    pub fn forget(&mut self, member: MemberId) {
        self.reported.remove(&member);
    }

    /// Time at which the first silent member counts as gone.
    pub fn wake(&self) -> Option<Instant> {
        self.reported.values().min().map(|at| *at + SILENT)
    }

    /// Whether another key may be tried.
    pub fn may_try(&mut self, now: Instant) -> bool {
        if now >= self.since + SECOND {
            (self.since, self.tries) = (now, 0);
        }
        self.tries += 1;
        self.tries <= MAX_TRIES
    }
}
