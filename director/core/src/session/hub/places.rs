//! Members and handshakes at addresses that the hub did not know at its start.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::MemberId;
use crate::{Instant, Span};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// Keys to try within a second: a flood of hellos must not take all of the hub's time. One takes a
/// few microseconds.
const MAX_TRIES: u32 = 20_000;
const SECOND: Span = Span::from_s(1);

/// Members that the hub did not know report every 30 s. After this time
/// without a report, their place is vacant.
const SILENT: Span = Span::from_s(100);

/// A known member that has been asked for this time, and has not answered, may be at another address.
/// The other end repeats its hello for longer (docs/director-wire.md).
const DEAF: Span = Span::from_s(10);
/// A member is asked again if it has not answered for this time, so that a lost datagram does not make
/// it deaf.
const ASK_EVERY: Span = Span::from_s(1);
/// What is known of a member holds for this time: recorded hellos must not cause more invitations.
const KNOWN: Span = Span::from_s(60);
/// Minimum time between two hellos for which known members are sought: it takes time for each of them.
const SEEK_EVERY: Span = Span::from_ms(100);

/// Minimum time between two reports of hellos that no key opens, from the address of a member: anyone can
/// send them.
const REPORT_EVERY: Span = Span::from_s(60);

/// A known member that is asked whether it is still at its address.
struct Sought {
    /// Since when it has not answered.
    since: Instant,
    /// When it was asked last.
    asked: Instant,
    /// Whether it has answered.
    is_found: bool,
}

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
    /// Times of the last reports of members, and the same in order of time.
    reported: BTreeMap<MemberId, Instant>,
    by_time: BTreeSet<(Instant, MemberId)>,
    /// Known members, since a hello came from an unknown address.
    sought: BTreeMap<MemberId, Sought>,
    /// The next time at which known members may be sought.
    seek_at: Instant,
    /// Whether no key opens the hello in hand, and the operator is to know.
    pub is_refused: bool,
    /// The next times at which the operator may learn of such hellos from addresses of members, and from
    /// others.
    report_at: BTreeMap<Option<MemberId>, Instant>,
}

impl Strangers {
    /// Whether the hub did not know a member at its start.
    pub fn includes(&self, member: MemberId) -> bool {
        member >= self.first
    }

    /// Whether the operator may learn of a hello that no key opens. Those from the address of a member have
    /// a limit each, so that no forged hello uses up that of another.
    pub fn may_report(&self, from: Option<MemberId>, now: Instant) -> bool {
        self.report_at.get(&from).is_none_or(|at| now >= *at)
    }

    /// No key opens the hello in hand.
    pub fn refuse(&mut self, from: Option<MemberId>, now: Instant) {
        self.is_refused = true;
        // Unknown addresses have limits where the sockets are.
        let every = if from.is_some() { REPORT_EVERY } else { SECOND };
        self.report_at.insert(from, now + every);
    }

    /// Records that a member is present.
    pub fn record_report(&mut self, member: MemberId, now: Instant) {
        if self.includes(member) {
            self.forget(member);
            self.reported.insert(member, now);
            self.by_time.insert((now, member));
        }
    }

    /// Whether known members may be sought now.
    pub fn may_seek(&mut self, now: Instant) -> bool {
        let is_due = now >= self.seek_at;
        if is_due {
            self.seek_at = now + SEEK_EVERY;
        }
        is_due
    }

    /// A known member may be at another address; returns whether it is to be asked now.
    pub fn seek(&mut self, member: MemberId, now: Instant) -> bool {
        let fresh = || Sought { since: now, asked: now, is_found: false };
        let mut is_due = false;
        let known = self.sought.entry(member).or_insert_with(|| {
            is_due = true;
            fresh()
        });
        if now >= known.asked + KNOWN {
            (*known, is_due) = (fresh(), true);
        } else if !known.is_found && now >= known.asked + ASK_EVERY {
            (known.asked, is_due) = (now, true);
        }
        is_due
    }

    /// A known member has sent something new, or another end has begun to take its place.
    pub fn found(&mut self, member: MemberId) {
        if let Some(sought) = self.sought.get_mut(&member) {
            sought.is_found = true;
        }
    }

    /// The known member that has not answered for longest, if one is certainly not at its address.
    pub fn deaf(&self, now: Instant) -> Option<MemberId> {
        let is_deaf = |own: &Sought| !own.is_found && now >= own.since + DEAF;
        let deaf = self.sought.iter().filter(|(_, sought)| is_deaf(sought));
        deaf.min_by_key(|(_, sought)| sought.since).map(|(member, _)| *member)
    }

    /// Expects no reports of a member.
    pub fn forget(&mut self, member: MemberId) {
        if let Some(at) = self.reported.remove(&member) {
            self.by_time.remove(&(at, member));
        }
    }

    /// The member that has not reported for longest.
    pub fn most_silent(&self) -> Option<MemberId> {
        self.by_time.first().map(|(_, member)| *member)
    }

    /// Time at which the first silent member counts as gone.
    pub fn wake(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at + SILENT)
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
