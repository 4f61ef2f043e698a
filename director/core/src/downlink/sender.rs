//! The hub's end: which members get a message when, and what became of it.

use super::{HubChange, HubMessage, HubState, Outcomes, Receiver};
use crate::agenda::Agenda;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::store::{StoreId, StoredNumber, Token};
use crate::switch::{MemberId, MessageId};
use crate::uplink::{Failure, MAX_BACK, MAX_BYTES, MAX_OPEN, Outcome, UplinkError};
use crate::{Instant, Span};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// Time after which a message goes again to a member that lacks it.
const AGAIN: Span = Span::from_s(10);
/// Time in which further members can say which memory they have, so that a message goes to all of them
/// together.
const GATHER: Span = Span::from_s(1);

/// A member that has said which memory it has.
struct Present {
    token: Token,
    since: Instant,
}

/// Where a message is on its way to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It is sent from this time on.
    Waits(Instant),
    /// A message of the session has not reached it.
    Lacking,
    /// A message of the session carries it.
    Carried(MessageId),
    /// The member's library has it.
    Delivered,
}

struct Entry {
    message: HubMessage,
    ways: BTreeMap<MemberId, Way>,
    /// Members that may have had parts of it.
    reached: BTreeSet<MemberId>,
}

impl Entry {
    fn is_open(&self, member: MemberId) -> bool {
        matches!(self.message.to.get(&member), Some(Receiver::Open(_)))
    }

    fn open(&self) -> impl Iterator<Item = MemberId> {
        let open = self.message.to.iter().filter(|(_, own)| matches!(own, Receiver::Open(_)));
        open.map(|(member, _)| *member)
    }
}

/// A message to be sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Its number in the storage.
    pub stored: StoredNumber,
    /// The message.
    pub body: Vec<u8>,
    /// Its receivers.
    pub to: Vec<MemberId>,
    /// The end of its lifetime.
    pub until: Instant,
}

/// Messages of a hub that are stored.
pub struct Downlink {
    store: StoreId,
    next: u64,
    open: BTreeMap<u64, Entry>,
    bytes: usize,
    present: BTreeMap<MemberId, Present>,
    /// What messages of the session carry.
    carried: BTreeMap<MessageId, u64>,
    changes: Vec<HubChange>,
    over: VecDeque<(u64, Outcomes)>,
    /// When each message may be due, and the ends of their lifetimes.
    agenda: Agenda<u64>,
    ends: BTreeSet<(Instant, u64)>,
}

impl Downlink {
    /// Goes on with what the starts before have left.
    pub fn new(state: HubState) -> Self {
        let mut downlink = Self {
            store: state.store,
            next: state.next,
            open: BTreeMap::new(),
            bytes: 0,
            present: BTreeMap::new(),
            carried: BTreeMap::new(),
            changes: Vec::new(),
            over: VecDeque::new(),
            agenda: Agenda::default(),
            ends: BTreeSet::new(),
        };
        for message in state.open {
            let begun = |own: &Receiver| matches!(own, Receiver::Open(Some(_)));
            let begun = message.to.iter().filter(|(_, own)| begun(own));
            let reached = begun.map(|(member, _)| *member).collect();
            downlink.insert(message, reached);
        }
        downlink
    }

    fn insert(&mut self, message: HubMessage, reached: BTreeSet<MemberId>) {
        self.agenda.touch(message.id);
        self.ends.insert((message.until, message.id));
        self.bytes += message.body.len();
        self.next = self.next.max(message.id + 1);
        self.open.insert(message.id, Entry { message, ways: BTreeMap::new(), reached });
    }

    /// The storage.
    pub fn store(&self) -> StoreId {
        self.store
    }

    /// Number of messages without all outcomes.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Takes a message; returns its number.
    ///
    /// # Errors
    /// [`UplinkError`] if too many are open, or this one is too long.
    pub fn send(
        &mut self,
        to: &[MemberId],
        body: &[u8],
        lifetime: Span,
        now: Instant,
    ) -> Result<u64, UplinkError> {
        let id = self.next;
        let oldest = self.open.keys().next().copied().unwrap_or(id);
        let is_far = id - oldest >= MAX_BACK;
        if is_far || self.open.len() >= MAX_OPEN || self.bytes + body.len() > MAX_BYTES {
            return Err(UplinkError::of(body.len()));
        }
        let receiver =
            |to: &MemberId| (*to, Receiver::Open(self.present.get(to).map(|own| own.token)));
        let to: BTreeMap<MemberId, Receiver> = to.iter().map(receiver).collect();
        let message = HubMessage { id, body: body.to_vec(), until: now + lifetime, to };
        self.changes.push(HubChange::Added(message.clone()));
        self.insert(message, BTreeSet::new());
        self.close(id);
        Ok(id)
    }

    /// Takes back a message that could not be stored; nothing of it was sent.
    pub fn withdraw(&mut self, id: u64) {
        self.remove(id);
        self.over.retain(|(over, _)| *over != id);
    }

    fn remove(&mut self, id: u64) -> Option<HubMessage> {
        let message = self.open.remove(&id)?.message;
        self.bytes -= message.body.len();
        self.agenda.rest(id, None);
        self.ends.remove(&(message.until, id));
        Some(message)
    }

    /// A member says which memory it has: another one if it has forgotten which messages it has had.
    pub fn introduced(&mut self, member: MemberId, token: Token, now: Instant) {
        self.present.insert(member, Present { token, since: now });
        let mut lost = Vec::new();
        let mut is_begun = false;
        for (id, entry) in &mut self.open {
            let Some(Receiver::Open(begun)) = entry.message.to.get_mut(&member) else { continue };
            if begun.is_some_and(|begun| begun != token) && entry.reached.contains(&member) {
                lost.push(*id);
                continue;
            }
            (*begun, is_begun) = (Some(token), true);
            // Also what its former start had and its application has not taken, and what is on its way: the
            // member takes only what is sent from now on.
            entry.ways.insert(member, Way::Waits(now));
            self.agenda.touch(*id);
        }
        // The member has forgotten what it had, so these could arrive twice.
        lost.into_iter().for_each(|id| self.finish(id, member, Outcome::Unknown));
        if is_begun {
            self.changes.push(HubChange::Begun(member, token));
        }
    }

    /// A member has left, or was revoked: it gets nothing before it is introduced again.
    pub fn gone(&mut self, member: MemberId) {
        self.present.remove(&member);
    }

    /// What became of a message at a member that is present.
    pub fn receipt(&mut self, member: MemberId, id: u64, outcome: Outcome) {
        if self.present.contains_key(&member) {
            self.finish(id, member, outcome);
        }
    }

    fn finish(&mut self, id: u64, member: MemberId, outcome: Outcome) {
        let Some(entry) = self.open.get_mut(&id).filter(|entry| entry.is_open(member)) else {
            return;
        };
        entry.message.to.insert(member, Receiver::Over(outcome.clone()));
        entry.ways.remove(&member);
        self.changes.push(HubChange::Ended(id, member, outcome));
        self.close(id);
    }

    /// A message without open receivers is over.
    fn close(&mut self, id: u64) {
        if self.open.get(&id).is_none_or(|entry| entry.open().next().is_some()) {
            return;
        }
        let Some(message) = self.remove(id) else { return };
        let outcome = |(member, own)| match own {
            Receiver::Over(outcome) => Some((member, outcome)),
            Receiver::Open(_) => None,
        };
        self.over.push_back((id, message.to.into_iter().filter_map(outcome).collect()));
    }

    /// Whether a message of the session carries a stored one.
    pub fn carries(&self, number: MessageId) -> bool {
        self.carried.contains_key(&number)
    }

    /// A message of the session that carries a stored one is over; these members lack it.
    pub fn carried(&mut self, number: MessageId, lacking: &[MemberId]) {
        let Some(id) = self.carried.remove(&number) else { return };
        self.agenda.touch(id);
        let Some(entry) = self.open.get_mut(&id) else { return };
        for (member, way) in &mut entry.ways {
            if *way == Way::Carried(number) {
                *way = if lacking.contains(member) { Way::Lacking } else { Way::Delivered };
            }
        }
    }

    /// What is to be sent now; then call [`Self::sent`] or [`Self::refused`].
    pub fn next(&mut self, now: Instant) -> Option<Due> {
        self.expire(now);
        // What is not on the disk yet must not be sent.
        if !self.changes.is_empty() {
            return None;
        }
        self.agenda.wake(now);
        while let Some(id) = self.agenda.next(0) {
            let to = self.open.get_mut(&id).map(|entry| due(entry, &self.present, now));
            let to = to.unwrap_or_default();
            if !to.is_empty() {
                let HubMessage { body, until, .. } = &self.open.get(&id)?.message;
                let oldest = self.open.keys().next().copied()?;
                let stored = StoredNumber { id, back: (id - oldest) as u16 };
                return Some(Due { stored, body: body.clone(), to, until: *until });
            }
            let begins = self.open.get(&id).and_then(|entry| begins(entry, &self.present));
            self.agenda.rest(id, begins);
        }
        None
    }

    /// A message of the session carries what was due.
    pub fn sent(&mut self, due: &Due, number: MessageId) {
        let Some(entry) = self.open.get_mut(&due.stored.id) else { return };
        for member in &due.to {
            entry.ways.insert(*member, Way::Carried(number));
            entry.reached.insert(*member);
        }
        self.carried.insert(number, due.stored.id);
    }

    /// The session has no room for what was due.
    pub fn postpone(&mut self, due: &Due, now: Instant) {
        let Some(entry) = self.open.get_mut(&due.stored.id) else { return };
        let way = |member: &MemberId| (*member, Way::Waits(now + GATHER));
        entry.ways.extend(due.to.iter().map(way));
    }

    /// No model can carry what was due.
    pub fn refused(&mut self, due: &Due, now: Instant) {
        self.postpone(due, now + AGAIN);
        let Some(entry) = self.open.get(&due.stored.id) else { return };
        let unreached = |member: &MemberId| !entry.reached.contains(member);
        let failed: Vec<MemberId> = due.to.iter().copied().filter(unreached).collect();
        // Which maximum a model has, it says in words only.
        let why = Failure::TooLong { bytes: 0, most: 0 };
        for member in failed {
            self.finish(due.stored.id, member, Outcome::Failed(why));
        }
    }

    fn expire(&mut self, now: Instant) {
        let late = self.ends.iter().take_while(|(until, _)| *until <= now);
        let late = late.filter_map(|(_, id)| Some((*id, self.open.get(id)?)));
        let late: Vec<(u64, MemberId, bool)> = late
            .flat_map(|(id, entry)| {
                entry.open().map(move |member| (id, member, entry.reached.contains(&member)))
            })
            .collect();
        for (id, member, is_reached) in late {
            let outcome = match is_reached {
                true => Outcome::Unknown,
                false => Outcome::Failed(Failure::Unsent),
            };
            self.finish(id, member, outcome);
        }
    }

    /// Time of the next call of [`Self::next`].
    pub fn wake(&self) -> Option<Instant> {
        let end = self.ends.first().map(|(until, _)| *until);
        [self.agenda.wake_at(), end].into_iter().flatten().min()
    }

    /// Changes since the last call, to be stored before anything else is sent or reported.
    pub fn take_changes(&mut self) -> Vec<HubChange> {
        core::mem::take(&mut self.changes)
    }

    /// Changes that could not be stored: they precede later ones, and hold back what follows from
    /// them.
    pub fn keep_changes(&mut self, mut changes: Vec<HubChange>) {
        changes.append(&mut self.changes);
        self.changes = changes;
    }

    /// Messages that have ended at all of their receivers since the last call; each once. None while changes
    /// are to be stored: after a restart, a message must not have another outcome.
    pub fn take_over(&mut self) -> VecDeque<(u64, Outcomes)> {
        match self.changes.is_empty() {
            true => core::mem::take(&mut self.over),
            false => VecDeque::new(),
        }
    }
}

/// When a member that is present gets a message.
fn begins(entry: &Entry, present: &BTreeMap<MemberId, Present>) -> Option<Instant> {
    let of = |member| {
        let gathered = present.get(&member)?.since + GATHER;
        match entry.ways.get(&member) {
            None => Some(gathered),
            Some(Way::Waits(at)) => Some((*at).max(gathered)),
            Some(Way::Lacking | Way::Carried(_) | Way::Delivered) => None,
        }
    };
    entry.open().filter_map(of).min()
}

/// The members that get a message now: those that can, if others cannot follow soon.
fn due(entry: &mut Entry, present: &BTreeMap<MemberId, Present>, now: Instant) -> Vec<MemberId> {
    for way in entry.ways.values_mut().filter(|way| **way == Way::Lacking) {
        *way = Way::Waits(now + AGAIN);
    }
    let (mut to, mut is_gathered, mut has_others) = (Vec::new(), false, false);
    for member in entry.open() {
        let Some(own) = present.get(&member) else {
            has_others = true;
            continue;
        };
        let way = entry.ways.get(&member).copied().unwrap_or(Way::Waits(now));
        if matches!(way, Way::Waits(at) if at <= now) {
            to.push(member);
            is_gathered |= own.since + GATHER <= now;
        }
    }
    if has_others && !is_gathered {
        to.clear();
    }
    to
}
