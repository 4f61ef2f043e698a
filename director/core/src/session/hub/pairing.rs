//! The handshakes of a member, at the hub: keys in use, keys that wait for the member's proof.

use crate::counts::{Age, Counts};
use crate::envelope::{self, FromMember};
use crate::handshake::{Accepted, fingerprint};
use crate::keys::Root;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::MessageId;
use crate::{Instant, Span};
use alloc::collections::VecDeque;

/// Maximum handshakes of a member that wait for its proof.
const MAX_PENDING: usize = 4;
/// Maximum among them whose hellos do not name the session.
const MAX_UNNAMED: usize = 2;
/// Time after which no reaction to a welcome is under way. So long can a recorded hello occupy a
/// vacant place, if all members have one key (decision 87).
const LIVE: Span = Span::from_s(60);
/// Maximum remembered hellos of former handshakes: a recorded one must begin no new handshake.
const MAX_KNOWN: usize = 64;

/// Keys with one start of a member, and the control messages that they have sealed.
struct Link {
    root: Root,
    counts: Counts,
}

impl Link {
    /// Whether a message that opens proves that the member has these keys.
    fn is_proved_by(&self, what: &FromMember) -> bool {
        // Without security everything opens; only the count is of one start of the member.
        let is_new = |count| self.counts.age(count) == Age::New;
        self.root.seal_len() > 0 || what.count().is_some_and(is_new)
    }
}

/// A handshake that the hub has answered. The hello can be a recorded one, so nothing changes
/// until the member proves by a message that it has the keys.
struct Pending {
    hello: [u8; 16],
    /// Whether the hello names the session, so it was not recorded in another one.
    named: bool,
    welcome: Vec<u8>,
    link: Link,
    /// Whether its last hello has no answer yet.
    is_due: bool,
    /// Time at which the member should have reacted to the last answer.
    until: Option<Instant>,
}

/// What a hub does with a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hello {
    /// It begins a handshake.
    New,
    /// The handshake is in progress; the time until which it needs no other answer.
    Repeated(Option<Instant>),
    /// It belongs to a former handshake.
    Old,
}

/// The handshakes of a member.
#[derive(Default)]
pub(super) struct Pairing {
    current: Option<Link>,
    /// The keys before: its answers still count.
    previous: Option<Root>,
    /// Newest last.
    pending: VecDeque<Pending>,
    known: VecDeque<[u8; 16]>,
    /// Number of starts of the member that have proved keys.
    starts: u32,
}

impl Pairing {
    /// The member is revoked: its keys are of no use any more. Its next start is not one that it had
    /// before: replies to that are under way.
    pub fn revoke(&mut self) {
        let Self { known, starts, .. } = core::mem::take(self);
        *self = Self { known, starts, ..Self::default() };
    }

    /// Whether a hello is known.
    pub fn classify(&mut self, hello: &[u8]) -> Hello {
        let hello = fingerprint(hello);
        match self.pending.iter_mut().find(|pending| pending.hello == hello) {
            Some(pending) => {
                pending.is_due = true;
                Hello::Repeated(pending.until)
            }
            None if self.known.contains(&hello) => Hello::Old,
            None => Hello::New,
        }
    }

    /// Adds a handshake; drops the oldest above the limit. Returns `false` if the hello may be a
    /// recorded one of another session: it does not name this one, and others like it wait.
    pub fn begin(&mut self, hello: &[u8], accepted: Accepted) -> bool {
        let Accepted { root, message: welcome, named } = accepted;
        let named = named == Some(root.session());
        // Without security no hello names a session, so the limit would lock members out.
        if !named && root.seal_len() > 0 && self.must_name() {
            return false;
        }
        let link = Link { counts: Counts::new(&root), root };
        let (hello, is_due) = (fingerprint(hello), true);
        self.pending.push_back(Pending { hello, named, welcome, link, is_due, until: None });
        if self.pending.len() > MAX_PENDING {
            // A flood of recorded hellos must not push out a handshake that names this session.
            let unnamed = self.pending.iter().position(|pending| !pending.named);
            let dropped = self.pending.remove(unnamed.unwrap_or(0));
            dropped.into_iter().for_each(|dropped| self.forget(dropped.hello));
        }
        true
    }

    /// Whether further hellos must name the session.
    pub fn must_name(&self) -> bool {
        self.pending.iter().filter(|pending| !pending.named).count() >= MAX_UNNAMED
    }

    fn forget(&mut self, hello: [u8; 16]) {
        self.known.push_back(hello);
        if self.known.len() > MAX_KNOWN {
            self.known.pop_front();
        }
    }

    /// Whether this hello belongs to a handshake in progress or to a former one.
    pub fn knows(&self, hello: &[u8; 16]) -> bool {
        self.pending.iter().any(|pending| pending.hello == *hello) || self.known.contains(hello)
    }

    /// Whether a handshake waits for the member's proof.
    pub fn has_begun(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether the member has proved keys.
    pub fn is_paired(&self) -> bool {
        self.current.is_some()
    }

    /// Whether a handshake has begun whose member may still prove it.
    pub fn is_live(&self, now: Instant) -> bool {
        let live = |until: Instant| now < until + LIVE;
        self.pending.iter().any(|pending| pending.until.is_none_or(live))
    }

    /// Whether the reaction to an answer can be under way.
    pub fn is_asked(&self, now: Instant) -> bool {
        self.pending.iter().any(|pending| pending.until.is_some_and(|until| now < until))
    }

    /// The answer to the last hello, and the keys for the control message after it with its count.
    /// The member should have reacted at `until`.
    pub fn welcome(&mut self, until: Instant) -> Option<(Vec<u8>, &Root, u32)> {
        // If none was repeated, the one that has waited longest: only one of them is genuine.
        let first = |pending: &&mut Pending| (!pending.is_due, pending.until);
        let pending = self.pending.iter_mut().min_by_key(first)?;
        (pending.is_due, pending.until) = (false, Some(until));
        let Link { root, counts } = &mut pending.link;
        Some((pending.welcome.clone(), root, counts.next()))
    }

    /// The answer to this hello, as [`welcome`](Self::welcome) gives it.
    pub fn welcome_to(&mut self, hello: &[u8], until: Instant) -> Option<(Vec<u8>, &Root, u32)> {
        let hello = fingerprint(hello);
        let pending = self.pending.iter_mut().find(|pending| pending.hello == hello)?;
        (pending.is_due, pending.until) = (false, Some(until));
        let Link { root, counts } = &mut pending.link;
        Some((pending.welcome.clone(), root, counts.next()))
    }

    /// The proved keys, and the number of starts until them.
    pub fn keys(&self) -> Option<(&Root, u32)> {
        self.current.as_ref().map(|link| (&link.root, self.starts))
    }

    /// The keys for the next control message to the member, and its count. A handshake in progress
    /// does not change them: its hello can be a recorded one.
    pub fn control(&mut self) -> Option<(&Root, u32)> {
        let link = self.current.as_mut()?;
        Some((&link.root, link.counts.next()))
    }

    /// Opens a message of the member. `None` if it does not open, or is a replayed control message
    /// or one of a former start.
    pub fn open(
        &mut self,
        epoch: u32,
        near: MessageId,
        bytes: Vec<u8>,
    ) -> Option<(u32, FromMember)> {
        let open = |root: &Root, bytes| envelope::open_member(root, epoch, near, bytes);
        // Waiting keys first, the newest of them before others: their first message is the proof
        // that makes them current.
        for at in (0..self.pending.len()).rev() {
            let link = &self.pending[at].link;
            let opened =
                open(&link.root, bytes.clone()).filter(|(_, what)| link.is_proved_by(what));
            let Some((epoch, what)) = opened else { continue };
            self.confirm(at);
            return self.accept(what).map(|what| (epoch, what));
        }
        // What does not open is not kept.
        let copy = self.previous.is_some().then(|| bytes.clone());
        let opened = self.current.as_ref().and_then(|link| open(&link.root, bytes));
        if let Some((epoch, what)) = opened {
            return self.accept(what).map(|what| (epoch, what));
        }
        let answers =
            |what: &FromMember| matches!(what, FromMember::Answer(..) | FromMember::Acknowledge(_));
        // An answer of the former start is still true; a control message of it says nothing of this
        // one.
        let previous = self.previous.as_ref().zip(copy);
        previous.and_then(|(root, bytes)| open(root, bytes)).filter(|(_, what)| answers(what))
    }

    /// The member has proved that it has these keys.
    fn confirm(&mut self, at: usize) {
        // Handshakes that began later stay: the member may have restarted, and this is late.
        let later = self.pending.split_off((at + 1).min(self.pending.len()));
        let mut over = core::mem::replace(&mut self.pending, later);
        let Some(confirmed) = over.pop_back() else { return };
        let before = self.current.replace(confirmed.link);
        self.starts += 1;
        self.previous = before.map(|link| link.root);
        self.forget(confirmed.hello);
        for dropped in over {
            self.forget(dropped.hello);
        }
    }

    /// Drops control messages that are not newer than the last.
    fn accept(&mut self, what: FromMember) -> Option<FromMember> {
        let link = self.current.as_mut()?;
        let new = what.count().is_none_or(|count| link.counts.receive(count) == Age::New);
        new.then_some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Echo, seal_member};
    use crate::handshake::{Initiator, Welcome, respond};
    use crate::keys::Psk;
    use crate::model::Models;

    /// A handshake whose hello names the session, unless `own` is even.
    fn begin(pairing: &mut Pairing, own: u8) -> (Vec<u8>, Root) {
        let psk = Psk::new(b"a key that both ends have").unwrap();
        let welcome = Welcome {
            session: [9; 16],
            member: 2,
            members: 3,
            group: "239.1.2.3:5701".parse().unwrap(),
            answered: true,
            reports: false,
            store: None,
        };
        let session = Some(&welcome.session).filter(|_| own % 2 == 1);
        let mut member = Initiator::new(Some(&psk), [own; 32], session);
        let accepted = respond(Some(&psk), [own ^ 0x80; 32], member.hello(), &welcome).unwrap();
        let (root, _) = member.finish(&accepted.message).unwrap();
        pairing.begin(member.hello(), accepted);
        (member.hello().to_vec(), root)
    }

    fn ready(root: &Root, count: u32) -> Vec<u8> {
        seal_member(root, 5, 2, &FromMember::Ready(count, Models::ALL, Echo::Unknown))
    }

    #[test]
    fn keys_change_only_when_the_member_proves_them() {
        let mut pairing = Pairing::default();
        let (first_hello, first) = begin(&mut pairing, 1);
        assert_eq!(pairing.classify(&first_hello), Hello::Repeated(None));
        assert!(pairing.welcome(Instant::from_ns(7)).is_some());
        assert_eq!(pairing.classify(&first_hello), Hello::Repeated(Some(Instant::from_ns(7))));
        assert!(pairing.open(5, 0, ready(&first, 1)).is_some());
        assert!(pairing.open(5, 0, ready(&first, 1)).is_none(), "replayed");
        assert!(pairing.open(5, 0, ready(&first, 3)).is_some());
        assert!(pairing.open(5, 0, ready(&first, 2)).is_none(), "late");
        assert!(pairing.welcome(Instant::from_ns(8)).is_none(), "no handshake is in progress");
        assert_eq!(pairing.classify(&first_hello), Hello::Old);
        // A recorded hello of an earlier session begins handshakes that no member completes.
        for recorded in 10..30 {
            begin(&mut pairing, 2 * recorded);
        }
        assert_eq!(pairing.pending.len(), MAX_UNNAMED);
        assert!(pairing.open(5, 0, ready(&first, 4)).is_some(), "the keys still hold");
        let (_, second) = begin(&mut pairing, 3);
        for recorded in 30..60 {
            begin(&mut pairing, 2 * recorded);
        }
        let (_, third) = begin(&mut pairing, 5);
        assert_eq!(pairing.pending.len(), MAX_PENDING);
        let answer = seal_member(&first, 5, 2, &FromMember::Answer(7, b"reading".to_vec()));
        assert!(pairing.open(5, 7, ready(&second, 1)).is_some());
        assert_eq!(pairing.pending.len(), 1, "the member may have restarted since");
        assert!(pairing.open(5, 7, ready(&first, 9)).is_none(), "of the former start");
        assert!(
            pairing.open(5, 7, answer.clone()).is_some(),
            "it has answered before it restarted"
        );
        assert!(pairing.open(5, 7, ready(&third, 1)).is_some());
        assert!(pairing.open(5, 7, ready(&second, 2)).is_none());
        for start in 50..120 {
            let (_, root) = begin(&mut pairing, 2 * start + 1);
            pairing.open(5, 7, ready(&root, 1));
        }
        assert!(pairing.open(5, 7, answer.clone()).is_none());
        assert_eq!(pairing.known.len(), MAX_KNOWN);
    }
}
