//! Which stored messages of members the hub has had: their senders send them again after a restart,
//! with the same number.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::session::MessageFrom;
use crate::store::Token;
use crate::switch::MemberId;
use crate::uplink::{MAX_BACK, SenderId, reply};
use alloc::collections::BTreeMap;

/// Maximum number of senders of a member: of starts with different storages.
const MAX_SENDERS: usize = 4;
/// Longer answers are not kept for a sender that asks again, in bytes.
const MAX_ANSWER: usize = 1_024;

/// What has become of a message.
enum Known {
    /// The application has not taken it yet. The message that has brought it, and the last one that
    /// asks for its reply.
    Open(MessageFrom),
    /// Its reply: kind and content.
    Over(u8, Vec<u8>),
}

struct Sender {
    token: Token,
    member: MemberId,
    /// When it was last introduced.
    used: u64,
    /// Messages below have ended at the sender.
    oldest: u64,
    known: BTreeMap<u64, Known>,
}

/// What is to be done with a message.
pub(super) enum Arrived {
    /// The application gets it.
    New,
    /// The application has it, and has not replied.
    Open,
    /// This is the reply.
    Over(u8, Vec<u8>),
    /// It is over at its sender, or it is not valid.
    Nothing,
}

/// Stored messages of all senders.
#[derive(Default)]
pub(super) struct Memory {
    senders: BTreeMap<SenderId, Sender>,
    /// The messages without a reply, by the message that has brought them.
    origins: BTreeMap<MessageFrom, (SenderId, u64)>,
    uses: u64,
}

impl Memory {
    /// A sender introduces itself; returns its token, which is `fresh` if it is unknown.
    pub fn introduce(&mut self, id: SenderId, member: MemberId, fresh: Token) -> Token {
        self.uses += 1;
        let used = self.uses;
        if !self.senders.contains_key(&id) {
            self.make_room(member);
        }
        let (oldest, known) = (0, BTreeMap::new());
        let sender =
            self.senders.entry(id).or_insert(Sender { token: fresh, member, used, oldest, known });
        (sender.used, sender.member) = (used, member);
        sender.token
    }

    /// A member with too many senders loses the one that was introduced first: that one gets
    /// another token when it comes back.
    fn make_room(&mut self, member: MemberId) {
        let own = |(_, sender): &(&SenderId, &Sender)| sender.member == member;
        if self.senders.iter().filter(own).count() >= MAX_SENDERS {
            let first = self.senders.iter().filter(own).min_by_key(|(_, sender)| sender.used);
            if let Some(id) = first.map(|(id, _)| *id) {
                self.senders.remove(&id);
                self.origins.retain(|_, (sender, _)| *sender != id);
            }
        }
    }

    /// A message of a sender arrives: its number, and how far behind the oldest open one is.
    pub fn arrive(&mut self, id: &SenderId, number: u64, back: u16, from: MessageFrom) -> Arrived {
        let Some(sender) = self.senders.get_mut(id) else { return Arrived::Nothing };
        sender.oldest = sender.oldest.max(number.saturating_sub(back.into()));
        // What has ended at its sender is not sent again.
        let oldest = sender.oldest;
        sender.known.retain(|known, _| *known >= oldest);
        self.origins.retain(|_, (own, known)| own != id || *known >= oldest);
        if number < oldest || number - oldest > MAX_BACK {
            return Arrived::Nothing;
        }
        match sender.known.get(&number) {
            None => {
                sender.known.insert(number, Known::Open(from));
                self.origins.insert(from, (*id, number));
                Arrived::New
            }
            Some(Known::Open(_)) => {
                sender.known.insert(number, Known::Open(from));
                Arrived::Open
            }
            Some(Known::Over(kind, answer)) => Arrived::Over(*kind, answer.clone()),
        }
    }

    /// The application's reply to a message; returns the message that now waits for it.
    pub fn reply(&mut self, to: MessageFrom, kind: u8, body: &[u8]) -> MessageFrom {
        let Some((id, number)) = self.origins.remove(&to) else { return to };
        let Some(sender) = self.senders.get_mut(&id) else { return to };
        let over = match body.len() <= MAX_ANSWER {
            true => Known::Over(kind, body.to_vec()),
            false => Known::Over(reply::TAKEN, Vec::new()),
        };
        match sender.known.insert(number, over) {
            Some(Known::Open(last)) => last,
            _ => to,
        }
    }
}
