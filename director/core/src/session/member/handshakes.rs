//! Handshakes of a member: when it says hello, and what it does with answers.

use crate::counts::{Age, Counts};
use crate::envelope::{self, Echo, FromMember, Invitation};
use crate::handshake::{Initiator, Welcome};
use crate::keys::{Psk, Root, SessionId};
use crate::model::Models;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::rng::Rng;
use crate::{Instant, Span};
use alloc::collections::VecDeque;

/// Initial interval between hellos; doubled up to a factor of 32.
const HELLO_EVERY: Span = Span::from_ms(500);
/// Minimum interval of hellos that datagrams of anyone can cause.
const PROMPTED_EVERY: Span = Span::from_ms(250);
/// The same for a member that is in a session, and for datagrams that are no part of a handshake.
const JOINED_EVERY: Span = Span::from_s(2);
/// After this many hellos a new handshake starts: the hub may have forgotten the previous one.
const HELLOS: u32 = 6;
/// Minimum time before: datagrams of the hub cause hellos too, and the answer to a former hello may still wait in
/// a queue of many seconds.
const FORGOTTEN: Span = Span::from_s(15);
/// After this many hellos, and this time, a new handshake names an announced session.
const UNNAMED: u32 = 2;
const NAMED_EVERY: Span = Span::from_s(2);
/// Maximum handshakes in progress, as many as a hub keeps of a member: the answer to a former hello can be
/// late, over 1 kbit/s by many seconds.
const MAX_HANDSHAKES: usize = 4;
/// Hellos that an announcement causes at a member in a session; without an answer it stays there.
const TRIES: u32 = 4;

/// The keys with the hub, and the control messages that they have sealed.
pub(super) struct Link {
    pub root: Root,
    pub welcome: Welcome,
    counts: Counts,
}

impl Link {
    /// The keys of a handshake with this welcome.
    fn new(root: Root, welcome: Welcome) -> Self {
        let counts = Counts::new(&root);
        Self { root, welcome, counts }
    }

    /// Opens an invitation; `None` within if it is not newer than the last.
    pub fn open(&mut self, datagram: &[u8]) -> Option<Option<Invitation>> {
        let (count, invitation) = Invitation::open(&self.root, datagram)?;
        match self.counts.receive(count) {
            Age::New => Some(Some(invitation)),
            Age::Old => Some(None),
            Age::Foreign => None,
        }
    }

    /// Seals a control message to the hub.
    pub fn control(
        &mut self,
        epoch: u32,
        what: fn(u32, Models) -> FromMember,
        have: Models,
    ) -> Vec<u8> {
        let what = what(self.counts.next(), have.with_bundles());
        envelope::seal_member(&self.root, epoch, self.welcome.member, &what)
    }

    /// Seals a report that the member is there; the hub may have received no datagrams of up to `waits`
    /// bytes.
    pub fn alive(&mut self, epoch: u32, have: Models, waits: u16) -> Vec<u8> {
        let what = FromMember::Alive(self.counts.next(), have.with_bundles(), waits);
        envelope::seal_member(&self.root, epoch, self.welcome.member, &what)
    }

    /// Seals a report of an epoch to the hub in a datagram of at least `size` bytes.
    pub fn ready(&mut self, epoch: u32, have: Models, echo: Echo, size: usize) -> Vec<u8> {
        let what = FromMember::Ready(self.counts.next(), have.with_bundles(), echo);
        envelope::seal_padded(&self.root, epoch, self.welcome.member, &what, size)
    }
}

/// Handshakes in progress.
#[derive(Default)]
pub(super) struct Handshakes {
    /// Without an answer, oldest first.
    open: VecDeque<Initiator>,
    /// Keys of the last complete handshake, until the hub's first invitation arrives.
    pub complete: Option<Link>,
    /// Time at which the newest began, and the session that it and a later one name.
    began_at: Instant,
    named: Option<SessionId>,
    announced: Option<SessionId>,
    /// Time of the next and of the last hello, and the number of hellos of the newest handshake.
    hello_at: Instant,
    said_at: Option<Instant>,
    hellos: u32,
    /// Hellos left, for a member in a session.
    left: u32,
    /// Time from a hello to its answer, if it was sent once.
    pub round_trip: Option<Span>,
}

impl Handshakes {
    /// Whether a member in a session has reason to join another one.
    pub fn are_wanted(&self) -> bool {
        self.left > 0
    }

    /// The member has joined: takes the keys, and forgets the rest.
    pub fn finish(&mut self) -> Option<Link> {
        // The time of the last hello stays: announcements of anyone cause no more hellos than
        // `JOINED_EVERY` permits.
        let Self { said_at, round_trip, .. } = *self;
        core::mem::replace(self, Self { said_at, round_trip, ..Self::default() }).complete
    }

    /// Sends the next hello early: a datagram of the hub, or of anyone, gives reason.
    pub fn prompt(&mut self, now: Instant) {
        self.hello_within(PROMPTED_EVERY, now);
    }

    /// Something else than a handshake arrives at a member that is not in a session: a hub sends, to
    /// its former start or to others, so hellos are lost by chance and not for lack of a path.
    pub fn heard(&mut self, now: Instant) {
        self.hello_within(JOINED_EVERY, now);
    }

    /// Says hello this time after the last one, or now if it has passed.
    fn hello_within(&mut self, time: Span, now: Instant) {
        let earliest = self.said_at.map_or(now, |at| at + time);
        self.hello_at = self.hello_at.min(earliest.max(now));
    }

    /// The next hello, if it is time, and the time of the one after it.
    pub fn hello(
        &mut self,
        psk: Option<&Psk>,
        rng: &mut Rng,
        now: Instant,
    ) -> (Option<Vec<u8>>, Instant) {
        if now < self.hello_at {
            return (None, self.hello_at);
        }
        // A hub that does not answer may want to see that the hello is not a recorded one.
        let named = self.announced.is_none() || self.announced == self.named;
        let anew = !named && self.hellos >= UNNAMED && now >= self.began_at + NAMED_EVERY;
        let forgotten = self.hellos >= HELLOS && now >= self.began_at + FORGOTTEN;
        if self.open.is_empty() || forgotten || anew {
            let session = self.announced;
            self.open.push_back(Initiator::new(psk, rng.bytes(), session.as_ref()));
            (self.hellos, self.began_at, self.named) = (0, now, session);
            if self.open.len() > MAX_HANDSHAKES {
                self.open.pop_front();
            }
        }
        self.hello_at = now + HELLO_EVERY * (1 << self.hellos.min(5));
        self.said_at = Some(now);
        self.hellos += 1;
        self.left = self.left.saturating_sub(1);
        (self.open.back().map(|newest| newest.hello().to_vec()), self.hello_at)
    }

    /// Someone announces a session. If this member is not in it (`joined`), it says hello soon.
    pub fn announced(&mut self, session: SessionId, joined: Option<SessionId>, now: Instant) {
        self.announced = Some(session);
        let Some(joined) = joined else { return self.prompt(now) };
        // While it follows one announcement, others change nothing: a flood of them must not
        // restart its handshake again and again.
        if joined != session && self.left == 0 {
            let earliest = self.said_at.map_or(now, |at| at + JOINED_EVERY);
            (self.left, self.hellos, self.hello_at) = (TRIES, 0, earliest.max(now));
            self.open.clear();
        }
    }

    /// The hub answers a hello of this member, which is in the session `joined`, or someone claims
    /// to.
    pub fn welcomed(&mut self, datagram: &[u8], joined: Option<SessionId>, now: Instant) {
        let mut open = self.open.iter_mut();
        let Some((root, welcome)) = open.find_map(|open| open.finish(datagram)) else { return };
        if joined == Some(welcome.session) {
            // The present keys stay: answers that they have sealed are under way.
            self.left = 0;
            self.open.clear();
        } else {
            // After several equal hellos it is unknown which one was answered (Karn's algorithm,
            // RFC 6298, 3).
            let said_at = self.said_at.filter(|_| self.hellos == 1);
            self.round_trip = said_at.map(|at| now - at);
            self.complete = Some(Link::new(root, welcome));
            // The invitation after it may be lost, and the next hello be many seconds away.
            let since = self.said_at.map_or(Span::ZERO, |at| now - at);
            self.hello_at = self.hello_at.min(now + since.max(HELLO_EVERY));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;
    use std::collections::BTreeSet;

    /// Times of the first hello of each handshake within a minute, in ms, if the hub's datagrams cause
    /// others every 250 ms until `until`.
    fn begun(until: u64) -> Vec<u64> {
        let (mut handshakes, mut rng) = (Handshakes::default(), Rng::new(&Seed::reproducible(1)));
        let (mut known, mut begun) = (BTreeSet::new(), Vec::new());
        for ms in (0..60_000).step_by(250) {
            let now = Instant::START + Span::from_ms(ms);
            if ms < until {
                handshakes.prompt(now);
            }
            if let (Some(hello), _) = handshakes.hello(None, &mut rng, now)
                && known.insert(hello)
            {
                begun.push(ms);
            }
        }
        begun
    }

    /// What failed before: six hellos within 1.5 s began the next handshake, and the answer to the first one came
    /// through a long queue, after four others had taken its place.
    #[test]
    fn hellos_that_the_hub_causes_do_not_end_a_handshake() {
        assert_eq!(begun(0), [0, 31_500]);
        assert_eq!(begun(60_000), [0, 15_000, 30_000, 45_000]);
    }
}
