//! A member's end: which stored messages of hubs it has had, and what became of them.

use crate::Instant;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::rng::Rng;
use crate::store::{HubReceipts, ReceiptChange, StoreId, StoredFrom, StoredNumber, Token};
use crate::switch::MessageId;
use crate::uplink::{
    Failure, MAX_BACK, MEMORY, MessageProperties, Outcome, RECEIPT, Uplink, reply,
};
use alloc::collections::{BTreeMap, VecDeque};

/// Maximum number of hubs whose messages a member remembers.
const MAX_HUBS: usize = 4;
/// Maximum number of messages that wait until the hub has said which ones this memory takes.
const MAX_EARLY: usize = 1_024;
/// Longer answers are not kept for a hub that asks again, in bytes.
const MAX_ANSWER: usize = 1_024;

/// Whether the hub knows what became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reported {
    No,
    /// By this message of the lane.
    Sent(u32),
    Yes,
}

/// What has become of a message.
enum Receipt {
    /// The application has not taken it yet.
    Waits,
    /// A former start had it, which may not have given it to the application.
    Unsure,
    /// Kind of the reply, and the answer.
    Over(Vec<u8>, Reported),
}

struct Known {
    token: Token,
    /// When the hub was last joined.
    used: u64,
    oldest: u64,
    receipts: BTreeMap<u64, Receipt>,
}

/// Stored messages of hubs at a member.
pub struct Receipts {
    hubs: BTreeMap<StoreId, Known>,
    uses: u64,
    /// Whether changes are to be stored.
    is_stored: bool,
    /// Whether the hub of the lane knows which memory this is.
    announced: Reported,
    /// The session's number of the first message that the hub has sent to this memory, and messages that
    /// have arrived before the hub has said that. Earlier ones were for a former start.
    first: MessageId,
    early: Vec<(MessageId, StoredNumber, Vec<u8>)>,
    changes: Vec<ReceiptChange>,
    /// Messages for the application.
    messages: VecDeque<(StoredFrom, Vec<u8>)>,
}

impl Default for Receipts {
    fn default() -> Self {
        Self {
            hubs: BTreeMap::new(),
            uses: 0,
            is_stored: false,
            announced: Reported::No,
            first: MessageId::MAX,
            early: Vec::new(),
            changes: Vec::new(),
            messages: VecDeque::new(),
        }
    }
}

impl Receipts {
    /// Goes on with what the starts before have left; changes are to be stored from now on.
    pub fn restored(all: Vec<HubReceipts>) -> Self {
        let receipt = |(id, own): (u64, Option<Vec<u8>>)| {
            // The hub asks for what it does not know.
            (id, own.map_or(Receipt::Unsure, |over| Receipt::Over(over, Reported::Yes)))
        };
        let known = |own: HubReceipts| {
            let receipts = own.receipts.into_iter().map(receipt).collect();
            let HubReceipts { token, oldest, .. } = own;
            (own.store, Known { token, used: 0, oldest, receipts })
        };
        let hubs = all.into_iter().map(known).collect();
        Self { hubs, is_stored: true, ..Self::default() }
    }

    fn change(&mut self, change: ReceiptChange) {
        if self.is_stored {
            self.changes.push(change);
        }
    }

    /// The token for a hub.
    fn token(&mut self, store: StoreId, rng: &mut Rng) -> Token {
        self.uses += 1;
        if !self.hubs.contains_key(&store) {
            let token = rng.bits().to_be_bytes();
            if self.hubs.len() >= MAX_HUBS
                && let Some(first) = self.hubs.iter().min_by_key(|(_, own)| own.used)
            {
                let first = *first.0;
                self.hubs.remove(&first);
                self.change(ReceiptChange::Forgotten(first));
            }
            self.change(ReceiptChange::Hub(store, token));
            let known = Known { token, used: 0, oldest: 0, receipts: BTreeMap::new() };
            self.hubs.insert(store, known);
        }
        let Some(known) = self.hubs.get_mut(&store) else { return Token::default() };
        known.used = self.uses;
        known.token
    }

    /// A message of a hub arrives, with this number in the session.
    pub fn arrive(
        &mut self,
        store: StoreId,
        session: MessageId,
        number: StoredNumber,
        bytes: Vec<u8>,
    ) {
        if self.announced != Reported::Yes {
            if self.early.len() < MAX_EARLY {
                self.early.push((session, number, bytes));
            }
            return;
        }
        // A former start may have had it: the hub knows that this one has another memory.
        if session < self.first {
            return;
        }
        let Some(known) = self.hubs.get_mut(&store) else { return };
        let StoredNumber { id, back } = number;
        known.oldest = known.oldest.max(id.saturating_sub(back.into()));
        // What has ended at the hub is not sent again.
        let oldest = known.oldest;
        known.receipts.retain(|known, _| *known >= oldest);
        if id < oldest || id - oldest > MAX_BACK {
            return;
        }
        match known.receipts.get_mut(&id) {
            None => {
                known.receipts.insert(id, Receipt::Waits);
                self.change(ReceiptChange::Arrived(store, id, oldest));
                self.messages.push_back((StoredFrom { store, id }, bytes));
            }
            // The hub asks again.
            Some(Receipt::Over(_, reported)) if *reported == Reported::Yes => {
                *reported = Reported::No;
            }
            Some(own @ Receipt::Unsure) => {
                *own = Receipt::Over(vec![reply::UNKNOWN], Reported::No);
            }
            Some(Receipt::Waits | Receipt::Over(..)) => {}
        }
    }

    /// The application has taken a message; its answer, if it has one.
    pub fn take(&mut self, from: StoredFrom, answer: Option<&[u8]>) {
        let StoredFrom { store, id } = from;
        let own = self.hubs.get_mut(&store).and_then(|known| known.receipts.get_mut(&id));
        let Some(own @ Receipt::Waits) = own else { return };
        let over = match answer {
            Some(answer) => [&[reply::ANSWER], answer].concat(),
            None => vec![reply::TAKEN],
        };
        let kept = match over.len() > MAX_ANSWER {
            true => vec![reply::TAKEN],
            false => over.clone(),
        };
        *own = Receipt::Over(over, Reported::No);
        self.change(ReceiptChange::Taken(store, id, kept));
    }

    /// The member has new keys: the hub must learn again which memory this is.
    pub fn forget_lane(&mut self, uplink: &mut Uplink) {
        self.early.clear();
        let mut forget = |reported: &mut Reported| match *reported {
            // The others end with the lane.
            Reported::Sent(number) if !uplink.unqueue(number) => {}
            _ => *reported = Reported::No,
        };
        forget(&mut self.announced);
        for (_, reported) in self.hubs.values_mut().flat_map(Known::over) {
            // What the hub knows is asked for again if it has forgotten it.
            if *reported != Reported::Yes {
                forget(reported);
            }
        }
    }

    /// A message of the lane has ended; returns whether it was one of these.
    pub fn ended(&mut self, number: u32, outcome: &Outcome) -> bool {
        let reported = match outcome {
            Outcome::Acknowledged(_) | Outcome::Failed(Failure::Refused) => Reported::Yes,
            Outcome::Failed(_) | Outcome::Unknown => Reported::No,
        };
        if self.announced == Reported::Sent(number) {
            self.announced = reported;
            // A hub that refuses it has no storage any more.
            self.first = match outcome {
                Outcome::Acknowledged(Some(first)) => {
                    <[u8; 8]>::try_from(&first[..]).map_or(MessageId::MAX, MessageId::from_be_bytes)
                }
                _ => MessageId::MAX,
            };
            return true;
        }
        let mut all = self.hubs.values_mut().flat_map(Known::over);
        let Some((over, own)) = all.find(|(_, own)| **own == Reported::Sent(number)) else {
            return false;
        };
        *own = reported;
        let is_too_long = matches!(outcome, Outcome::Failed(Failure::TooLong { .. }));
        // The application had the message, also if its answer is too long.
        if is_too_long || reported == Reported::Yes && over.len() > MAX_ANSWER {
            *over = vec![reply::TAKEN];
        }
        true
    }

    /// Gives the lane to this hub what it can have.
    pub fn poll(&mut self, uplink: &mut Uplink, store: StoreId, rng: &mut Rng, now: Instant) {
        if self.announced != Reported::Yes {
            if self.announced == Reported::No {
                let token = self.token(store, rng);
                // What is not on the disk yet must not be sent.
                if self.changes.is_empty() {
                    self.announced = push(uplink, MEMORY, &token, now);
                }
            }
            return;
        }
        for (session, number, bytes) in core::mem::take(&mut self.early) {
            self.arrive(store, session, number, bytes);
        }
        if !self.changes.is_empty() {
            return;
        }
        let Some(known) = self.hubs.get_mut(&store) else { return };
        for (id, receipt) in &mut known.receipts {
            if let Receipt::Over(over, reported @ Reported::No) = receipt {
                *reported = push(uplink, RECEIPT, &[&id.to_be_bytes(), &over[..]].concat(), now);
            }
        }
    }

    /// Changes since the last call, to be stored before anything else is sent or reported.
    pub fn take_changes(&mut self) -> Vec<ReceiptChange> {
        core::mem::take(&mut self.changes)
    }

    /// Changes that could not be stored: they precede later ones.
    pub fn keep_changes(&mut self, mut changes: Vec<ReceiptChange>) {
        changes.append(&mut self.changes);
        self.changes = changes;
    }

    /// Messages for the application since the last call. None while changes are to be stored: the next start
    /// must know that this one had them.
    pub fn take_messages(&mut self) -> VecDeque<(StoredFrom, Vec<u8>)> {
        match self.changes.is_empty() {
            true => core::mem::take(&mut self.messages),
            false => VecDeque::new(),
        }
    }
}

impl Known {
    fn over(&mut self) -> impl Iterator<Item = (&mut Vec<u8>, &mut Reported)> {
        self.receipts.values_mut().filter_map(|own| match own {
            Receipt::Over(over, reported) => Some((over, reported)),
            Receipt::Waits | Receipt::Unsure => None,
        })
    }
}

/// Sends by the lane; without room, the end of another message makes some.
fn push(uplink: &mut Uplink, kind: u8, body: &[u8], now: Instant) -> Reported {
    let first = MessageProperties { priority: 0, ..MessageProperties::default() };
    uplink.push(kind, body, first, now).map_or(Reported::No, Reported::Sent)
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::rng::Seed;

    const STORE: StoreId = [7; 8];

    fn number(id: u64) -> StoredNumber {
        StoredNumber { id, back: 2 }
    }

    fn ids(receipts: &mut Receipts) -> Vec<u64> {
        receipts.take_messages().into_iter().map(|(from, _)| from.id).collect()
    }

    /// The hub calls a message unknown that it has sent to a former start: on its way, it can still arrive.
    #[test]
    fn a_message_to_a_former_start_is_not_taken_and_an_early_one_waits() {
        let (mut receipts, mut uplink) = (Receipts::default(), Uplink::default());
        let mut rng = Rng::new(&Seed::reproducible(1));
        receipts.poll(&mut uplink, STORE, &mut rng, Instant::START);
        let Reported::Sent(lane) = receipts.announced else { panic!("the memory is not named") };
        receipts.arrive(STORE, 41, number(11), vec![1]);
        receipts.arrive(STORE, 42, number(12), vec![2]);
        assert!(ids(&mut receipts).is_empty(), "the hub has not said which are for this memory");
        assert!(receipts.ended(lane, &Outcome::Acknowledged(Some(42_u64.to_be_bytes().to_vec()))));
        receipts.poll(&mut uplink, STORE, &mut rng, Instant::START);
        receipts.arrive(STORE, 40, number(13), vec![3]);
        assert_eq!(ids(&mut receipts), [12]);
        // Sent again under another number of the session, it is no second one.
        receipts.arrive(STORE, 43, number(12), vec![2]);
        receipts.arrive(STORE, 44, number(13), vec![3]);
        assert_eq!(ids(&mut receipts), [13]);
    }

    #[test]
    fn a_memory_has_a_limit_and_a_hub_that_is_forgotten_gets_another_token() {
        let mut receipts = Receipts::restored(Vec::new());
        let mut rng = Rng::new(&Seed::reproducible(1));
        let first = receipts.token(STORE, &mut rng);
        assert_eq!(receipts.token(STORE, &mut rng), first);
        (0..4).for_each(|store| drop(receipts.token([store; 8], &mut rng).to_vec()));
        assert_ne!(receipts.token(STORE, &mut rng), first);
        assert_eq!(receipts.hubs.len(), MAX_HUBS);
        // The token is on the disk before the hub gets it.
        let mut uplink = Uplink::default();
        receipts.poll(&mut uplink, STORE, &mut rng, Instant::START);
        assert_eq!((uplink.open(), receipts.announced), (0, Reported::No));
        assert!(receipts.take_changes().contains(&ReceiptChange::Forgotten(STORE)));
        receipts.poll(&mut uplink, STORE, &mut rng, Instant::START);
        assert_eq!(uplink.open(), 1);
    }
}
