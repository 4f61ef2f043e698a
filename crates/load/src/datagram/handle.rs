//! Maps CoAP tokens and message IDs to operations.

use std::fmt;

/// The number of token bits for the operation number. The two bits above are the purpose,
/// and the 16 bits above those the run's nonce.
const NUMBER_BITS: u32 = 46;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;
/// The number of bits of the operation number that are stored per message ID.
const SHORT_BITS: u32 = 30;
const SHORT: u32 = (1 << SHORT_BITS) - 1;

/// The purpose of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// An operation, and the notifications of its observation.
    Operation,
    /// The further blocks of a notification, whose token is in use (RFC 7959, section 2.6).
    Blocks,
    /// The cancellation of an observation; it has the token of the operation.
    Deregistration,
}

/// An operation number and the purpose of messages about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Handle(u64);

impl Handle {
    pub fn new(purpose: Purpose, number: u64) -> Self {
        Self((purpose as u64) << NUMBER_BITS | number & NUMBER)
    }

    /// The handle of an operation.
    pub fn of(number: u64) -> Self {
        Self::new(Purpose::Operation, number)
    }

    pub fn number(self) -> u64 {
        self.0 & NUMBER
    }

    pub fn purpose(self) -> Purpose {
        match self.0 >> NUMBER_BITS {
            0 => Purpose::Operation,
            1 => Purpose::Blocks,
            _ => Purpose::Deregistration,
        }
    }

    /// The token in a run with this nonce.
    pub fn token(self, nonce: u16) -> u64 {
        u64::from(nonce) << 48 | self.0
    }

    /// The handle of a token; None if the token has another nonce.
    pub fn from_token(token: u64, nonce: u16) -> Option<Self> {
        (token >> 48 == u64::from(nonce)).then_some(Self(token & 0xffff_ffff_ffff))
    }

    fn short(self) -> u32 {
        (self.0 >> NUMBER_BITS << SHORT_BITS) as u32 | self.0 as u32 & SHORT
    }

    /// The latest handle with this short form before the operation `next`.
    fn from_short(short: u32, next: u64) -> Self {
        let low = u64::from(short & SHORT);
        let high = next & !u64::from(SHORT);
        let number = if high | low < next {
            high | low
        } else {
            (high | low).saturating_sub(1 << SHORT_BITS)
        };
        Self(u64::from(short >> SHORT_BITS) << NUMBER_BITS | number)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.purpose(), self.number())
    }
}

/// Assigns a sender's message IDs in sequence and stores the handle of each.
#[derive(Debug)]
pub(crate) struct MessageIds {
    next: u16,
    handles: Vec<u32>,
}

impl MessageIds {
    /// IDs that start at `first`.
    pub fn new(first: u16) -> Self {
        Self { next: first, handles: vec![u32::MAX; 1 << 16] }
    }

    /// Assigns the ID of the next message.
    #[inline]
    pub fn assign(&mut self, handle: Handle) -> u16 {
        let id = self.next;
        self.handles[usize::from(id)] = handle.short();
        self.next = id.wrapping_add(1);
        id
    }

    /// The handle of the last message with this ID; `next` is the number of the next
    /// operation.
    pub fn find(&self, id: u16, next: u64) -> Option<Handle> {
        let short = self.handles[usize::from(id)];
        (short != u32::MAX).then(|| Handle::from_short(short, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_stand_for_operations_of_this_run() {
        for purpose in [Purpose::Operation, Purpose::Blocks, Purpose::Deregistration] {
            let handle = Handle::new(purpose, 123_456_789_012);
            assert_eq!((handle.purpose(), handle.number()), (purpose, 123_456_789_012));
            let token = handle.token(0xabcd);
            assert_eq!(Handle::from_token(token, 0xabcd), Some(handle));
            assert_eq!(Handle::from_token(token, 0xabce), None);
        }
    }

    #[test]
    fn message_ids_stand_for_their_last_message() {
        let mut ids = MessageIds::new(65_530);
        assert_eq!(ids.find(65_530, 1), None);
        let far = (1 << 33) + 5;
        for number in far..far + 70_000 {
            ids.assign(Handle::new(Purpose::Blocks, number));
        }
        let next = far + 70_000;
        let last = ids.next.wrapping_sub(1);
        assert_eq!(ids.find(last, next), Some(Handle::new(Purpose::Blocks, next - 1)));
        assert_eq!(ids.find(ids.next, next), Some(Handle::new(Purpose::Blocks, next - 65_536)));
        // Across a multiple of the stored range.
        let mut ids = MessageIds::new(0);
        ids.assign(Handle::of((1 << 30) - 1));
        ids.assign(Handle::of(1 << 30));
        let next = (1 << 30) + 1;
        assert_eq!(ids.find(0, next).unwrap().number(), (1 << 30) - 1);
        assert_eq!(ids.find(1, next).unwrap().number(), 1 << 30);
    }
}
