//! A member's messages that outlast its start: they are sent again by the next one, with the same
//! number, and the hub drops what it has had. What changes must be on a disk before anything else
//! is sent or reported ([`Stored::take_changes`]).

use super::lane::{INTRODUCE, PUBLISH, STORED};
use super::{
    Failure, MAX_BYTES, MAX_OPEN, MessageProperties, Outcome, Publication, Uplink, UplinkError,
};
use crate::Instant;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::store::{HubReceipts, ReceiptChange, Token};
use alloc::collections::{BTreeMap, VecDeque};

/// Numbers of stored messages in a start of the member have this bit: those of the lane do not get
/// there.
const OWN: u32 = 1 << 31;
/// Maximum distance between the newest number and the oldest open one: the hub remembers as many.
pub const MAX_BACK: u64 = 4_000;

/// Identifies a sender for the hub, over its starts; random and secret.
pub type SenderId = [u8; 16];

/// A message that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its number, over all starts of the sender.
    pub id: u64,
    pub(crate) kind: u8,
    /// The message; after its topic, if it has one.
    pub(crate) body: Vec<u8>,
    /// Messages with a lower value are sent first.
    pub priority: u32,
    /// The end of its lifetime.
    pub until: Instant,
    /// The hub's token when parts of it may have been sent.
    pub begun: Option<Token>,
}

impl StoredMessage {
    /// Its topic, if it has one, and the message.
    pub fn content(&self) -> (Option<String>, Vec<u8>) {
        let publication = if self.kind == PUBLISH { Publication::decode(&self.body) } else { None };
        match publication {
            Some(Publication { topic, bytes }) => (Some(topic), bytes),
            None => (None, self.body.clone()),
        }
    }
}

/// A change of what is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredChange {
    /// A message is new.
    Added(StoredMessage),
    /// All messages so far may have been sent to the hub with this token.
    Begun(Token),
    /// A message has ended.
    Ended(u64, Outcome),
    /// A change of what the member remembers of hubs' messages.
    Receipt(ReceiptChange),
}

/// What the starts before have left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredState {
    /// The sender.
    pub sender: SenderId,
    /// The number of the next message.
    pub next: u64,
    /// The messages without an outcome.
    pub open: Vec<StoredMessage>,
    /// What it remembers of hubs' messages.
    pub receipts: Vec<HubReceipts>,
}

struct Entry {
    own: u32,
    message: StoredMessage,
    /// The message of the lane that carries it now.
    carried: Option<u32>,
}

/// Messages of a member that are stored.
pub struct Stored {
    sender: SenderId,
    next: u64,
    last_own: u32,
    open: BTreeMap<u64, Entry>,
    bytes: usize,
    /// The hub's token, if it knows this sender by the keys of the lane.
    token: Option<Token>,
    introducing: Option<u32>,
    changes: Vec<StoredChange>,
    outcomes: VecDeque<(u32, Outcome)>,
}

impl Stored {
    /// Goes on with what the starts before have left; returns the numbers of its messages, too.
    pub fn new(state: StoredState) -> (Self, Vec<u32>) {
        let mut stored = Self {
            sender: state.sender,
            next: state.next,
            last_own: OWN,
            open: BTreeMap::new(),
            bytes: 0,
            token: None,
            introducing: None,
            changes: Vec::new(),
            outcomes: VecDeque::new(),
        };
        let numbers = state.open.into_iter().map(|message| stored.insert(message)).collect();
        (stored, numbers)
    }

    fn insert(&mut self, message: StoredMessage) -> u32 {
        self.last_own += 1;
        let own = self.last_own;
        self.bytes += message.body.len();
        self.next = self.next.max(message.id + 1);
        self.open.insert(message.id, Entry { own, message, carried: None });
        own
    }

    /// Takes a message; returns its number in this start.
    ///
    /// # Errors
    /// [`UplinkError`].
    pub fn send(
        &mut self,
        kind: u8,
        body: &[u8],
        properties: MessageProperties,
        now: Instant,
    ) -> Result<u32, UplinkError> {
        let id = self.next;
        let oldest = self.open.keys().next().copied().unwrap_or(id);
        let is_far = id - oldest >= MAX_BACK;
        if is_far || self.open.len() >= MAX_OPEN || self.bytes + body.len() > MAX_BYTES {
            return Err(UplinkError::of(body.len()));
        }
        let MessageProperties { lifetime, priority, .. } = properties;
        let until = now + lifetime;
        let (body, begun) = (body.to_vec(), self.token);
        let message = StoredMessage { id, kind, body, priority, until, begun };
        self.changes.push(StoredChange::Added(message.clone()));
        Ok(self.insert(message))
    }

    /// Takes back a message that could not be stored; nothing of it was sent.
    pub fn withdraw(&mut self, own: u32) {
        let id = self.open.iter().find(|(_, entry)| entry.own == own).map(|(id, _)| *id);
        if let Some(entry) = id.and_then(|id| self.open.remove(&id)) {
            self.bytes -= entry.message.body.len();
        }
    }

    /// Number of messages without an outcome that the lane does not have.
    pub fn waiting(&self) -> usize {
        self.open.values().filter(|entry| entry.carried.is_none()).count()
    }

    /// The member has new keys: the hub must learn again who it is.
    pub fn forget_lane(&mut self, uplink: &mut Uplink) {
        self.token = None;
        for entry in self.open.values_mut() {
            entry.carried = entry.carried.filter(|number| !uplink.unqueue(*number));
        }
        self.introducing = self.introducing.filter(|number| !uplink.unqueue(*number));
    }

    /// A message of the lane has ended; returns whether it was one of these.
    pub fn ended(&mut self, number: u32, outcome: &Outcome, now: Instant) -> bool {
        if self.introducing == Some(number) {
            self.introducing = None;
            self.introduced(outcome);
            return true;
        }
        let carried = |(_, entry): &(&u64, &mut Entry)| entry.carried == Some(number);
        let Some((id, entry)) = self.open.iter_mut().find(carried) else { return false };
        entry.carried = None;
        let id = *id;
        match outcome {
            Outcome::Acknowledged(_)
            | Outcome::Failed(Failure::Refused | Failure::TooLong { .. }) => {
                self.finish(id, outcome.clone());
            }
            // The next lane carries it again, and the hub drops it if it has had it.
            Outcome::Failed(Failure::Unsent) | Outcome::Unknown => self.expire(id, now),
        }
        true
    }

    fn introduced(&mut self, outcome: &Outcome) {
        let Outcome::Acknowledged(Some(answer)) = outcome else { return };
        let Ok(token) = Token::try_from(&answer[..]) else { return };
        self.token = Some(token);
        // The hub has forgotten what it had, so these would arrive twice.
        let lost = |(id, entry): (&u64, &Entry)| {
            entry.message.begun.is_some_and(|begun| begun != token).then_some(*id)
        };
        let lost: Vec<u64> = self.open.iter().filter_map(lost).collect();
        lost.into_iter().for_each(|id| self.finish(id, Outcome::Unknown));
        if !self.open.is_empty() {
            self.changes.push(StoredChange::Begun(token));
        }
        self.open.values_mut().for_each(|entry| entry.message.begun = Some(token));
    }

    fn expire(&mut self, id: u64, now: Instant) {
        let Some(entry) = self.open.get(&id).filter(|entry| entry.message.until <= now) else {
            return;
        };
        let outcome = match entry.message.begun {
            Some(_) => Outcome::Unknown,
            None => Outcome::Failed(Failure::Unsent),
        };
        self.finish(id, outcome);
    }

    fn finish(&mut self, id: u64, outcome: Outcome) {
        let Some(entry) = self.open.remove(&id) else { return };
        self.bytes -= entry.message.body.len();
        self.changes.push(StoredChange::Ended(id, outcome.clone()));
        self.outcomes.push_back((entry.own, outcome));
    }

    /// Gives the lane what it can have; `joined` if there is one. Returns the end of the first
    /// lifetime of the others.
    pub fn poll(&mut self, uplink: &mut Uplink, joined: bool, now: Instant) -> Option<Instant> {
        let waiting = self.open.iter().filter(|(_, entry)| entry.carried.is_none());
        let mut waiting: Vec<(u32, u64)> =
            waiting.map(|(id, entry)| (entry.message.priority, *id)).collect();
        waiting.iter().for_each(|(_, id)| self.expire(*id, now));
        waiting.retain(|(_, id)| self.open.contains_key(id));
        if joined && !waiting.is_empty() && self.token.is_none() && self.introducing.is_none() {
            let first = MessageProperties { priority: 0, ..MessageProperties::default() };
            self.introducing = uplink.push(INTRODUCE, &self.sender, first, now).ok();
        }
        // What is not on the disk yet must not be sent.
        if joined && self.token.is_some() && self.changes.is_empty() {
            waiting.sort_unstable();
            for (_, id) in &waiting {
                self.carry(*id, uplink, now);
            }
        }
        let waiting = self.open.values().filter(|entry| entry.carried.is_none());
        waiting.map(|entry| entry.message.until).min()
    }

    fn carry(&mut self, id: u64, uplink: &mut Uplink, now: Instant) {
        let oldest = self.open.keys().next().copied().unwrap_or(id);
        let Some(entry) = self.open.get_mut(&id) else { return };
        let StoredMessage { kind, body, priority, until, .. } = &entry.message;
        let head = [&id.to_be_bytes()[..], &((id - oldest) as u16).to_be_bytes()].concat();
        let properties = MessageProperties {
            lifetime: *until - now,
            priority: *priority,
            ..MessageProperties::default()
        };
        // Without room, the end of another message makes some.
        entry.carried =
            uplink.push(kind | STORED, &[&head[..], body].concat(), properties, now).ok();
    }

    /// Changes since the last call, to be stored before anything else is sent or reported.
    pub fn take_changes(&mut self) -> Vec<StoredChange> {
        core::mem::take(&mut self.changes)
    }

    /// Changes that could not be stored: they precede later ones, and hold back what follows from
    /// them.
    pub fn keep_changes(&mut self, mut changes: Vec<StoredChange>) {
        changes.append(&mut self.changes);
        self.changes = changes;
    }

    /// Outcomes since the last call; each message has one. None while changes are to be stored: after a
    /// restart, a message must not have another outcome.
    pub fn take_outcomes(&mut self) -> VecDeque<(u32, Outcome)> {
        match self.changes.is_empty() {
            true => core::mem::take(&mut self.outcomes),
            false => VecDeque::new(),
        }
    }
}
