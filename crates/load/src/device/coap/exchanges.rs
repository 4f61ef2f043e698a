//! Confirmable messages in both directions. Received duplicates are not served twice (RFC
//! 7252, sections 4.2 and 4.5); the device retransmits its messages until they are
//! acknowledged. Without I/O: time is a parameter.

use crate::socket::Address;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use units::{Instant, Span};

/// EXCHANGE_LIFETIME (section 4.8.2): how long a message ID identifies a message.
const LIFETIME: Span = Span::from_s(247);
/// The maximum number of remembered requests. Their answers have 1.2 kB each at most, 20 MB
/// in all.
const MAX_KNOWN: usize = 16_384;
/// MAX_RETRANSMIT (section 4.8).
const MAX_RETRANSMIT: u32 = 4;
/// The maximum number of the device's messages that wait for an acknowledgement; further
/// answers are sent only once, further notifications as non-confirmable ones.
pub(super) const MAX_UNACKNOWLEDGED: usize = 16_384;

/// Identifies a message by its peer and message ID: exactly for IPv4, by a 64-bit hash for
/// IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    number: u64,
    pub id: u16,
}

impl Key {
    /// None for a peer of another address family.
    pub fn new(peer: &Address, id: u16) -> Option<Self> {
        let number = match peer.get()? {
            SocketAddr::V4(v4) => {
                u64::from(v4.ip().to_bits()) << 32 | u64::from(v4.port()) << 16 | u64::from(id)
            }
            // Address and port alone have 18 bytes. A collision only matters with equal contents,
            // too: see `digest`.
            v6 => {
                let mut hasher = DefaultHasher::new();
                (v6, id).hash(&mut hasher);
                hasher.finish()
            }
        };
        Some(Self { number, id })
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.number);
    }
}

/// A fast hasher: the standard one takes longer than all other work for a new request.
#[derive(Default)]
pub(crate) struct FastHasher(u64);

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut eight = [0; 8];
            eight[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(eight) ^ part.len() as u64);
        }
    }

    fn write_u64(&mut self, value: u64) {
        // The 64-bit golden ratio, as in `units::Draw`; the shift makes high bits count
        // like low ones.
        let product = (self.0.rotate_left(29) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

/// A hash that distinguishes messages with the same ID.
pub(crate) fn digest(message: &[u8]) -> u64 {
    let mut hasher = FastHasher::default();
    hasher.write(message);
    hasher.finish()
}

type Map<V> = HashMap<Key, V, BuildHasherDefault<FastHasher>>;

/// What is known of a received request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestStatus<'a> {
    /// It is new: serve it.
    New,
    /// It is in service: acknowledge it.
    Serving,
    /// It was answered with this answer.
    Answered(&'a [u8]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Serving,
    Acknowledged,
    Answered,
    Forgotten,
}

#[derive(Debug)]
struct KnownRequest {
    key: Key,
    /// A client may reuse an ID too early, for another request.
    digest: u64,
    at: Instant,
    progress: Progress,
    answer: Vec<u8>,
}

/// A message that the device sent.
#[derive(Debug)]
struct SentMessage {
    bytes: Vec<u8>,
    left: u32,
    wait: Span,
    /// The observer that it notifies.
    observer: Option<u64>,
}

/// The remembered requests, and the device's messages that wait for an acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    /// In order of arrival; the first has the number `base`.
    known: VecDeque<KnownRequest>,
    base: u64,
    /// The number of the latest request of each key.
    numbers: Map<u64>,
    unacknowledged: Map<SentMessage>,
}

impl Exchanges {
    fn find(&mut self, key: Key) -> Option<&mut KnownRequest> {
        let number = self.numbers.get(&key)?;
        self.known.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// Handles a received confirmable request.
    pub fn register(&mut self, key: Key, digest: u64, now: Instant) -> RequestStatus<'_> {
        // Two lookups, since the borrow checker does not allow returning the first.
        let again = self.find(key).is_some_and(|known| {
            // A load sends more messages within the lifetime than there are IDs (decision 40).
            known.digest == digest
                && now - known.at < LIFETIME
                && known.progress != Progress::Forgotten
        });
        if !again {
            self.add(key, digest, now);
            return RequestStatus::New;
        }
        match self.find(key) {
            Some(KnownRequest { progress: Progress::Answered, answer, .. }) => {
                RequestStatus::Answered(answer)
            }
            Some(known) => {
                known.progress = Progress::Acknowledged;
                RequestStatus::Serving
            }
            None => RequestStatus::New,
        }
    }

    fn add(&mut self, key: Key, digest: u64, at: Instant) {
        // Reuses the memory of the oldest.
        let oldest = if self.known.len() < MAX_KNOWN { None } else { self.known.pop_front() };
        let mut answer = Vec::new();
        if let Some(oldest) = oldest {
            if self.numbers.get(&oldest.key) == Some(&self.base) {
                self.numbers.remove(&oldest.key);
            }
            self.base += 1;
            // The buffer keeps its capacity: no allocation per request once the table is full.
            answer = oldest.answer;
            answer.clear();
        }
        self.numbers.insert(key, self.base + self.known.len() as u64);
        self.known.push_back(KnownRequest { key, digest, at, progress: Progress::Serving, answer });
    }

    /// Marks a request as acknowledged if it is still in service. Returns whether it is.
    pub fn acknowledge(&mut self, key: Key) -> bool {
        match self.find(key) {
            Some(known) if known.progress == Progress::Serving => {
                known.progress = Progress::Acknowledged;
                true
            }
            _ => false,
        }
    }

    /// Whether a request was acknowledged before its answer; the answer is then a separate
    /// response.
    pub fn is_acknowledged(&mut self, key: Key) -> bool {
        self.find(key).is_some_and(|known| known.progress == Progress::Acknowledged)
    }

    /// Stores the answer to a request.
    pub fn answered(&mut self, key: Key, answer: &[u8]) {
        if let Some(known) = self.find(key) {
            known.progress = Progress::Answered;
            known.answer.clear();
            known.answer.extend_from_slice(answer);
        }
    }

    /// Forgets a request: its next copy counts as new.
    pub fn forget(&mut self, key: Key) {
        if let Some(known) = self.find(key) {
            known.progress = Progress::Forgotten;
        }
    }

    /// Whether there is room for another message of the device.
    pub fn has_room(&self) -> bool {
        self.unacknowledged.len() < MAX_UNACKNOWLEDGED
    }

    /// Stores a confirmable message that the device sent, with the time `wait` to its
    /// retransmission. Returns whether there was room.
    pub fn sent(&mut self, key: Key, bytes: &[u8], wait: Span, observer: Option<u64>) -> bool {
        if !self.has_room() {
            return false;
        }
        let (bytes, left) = (bytes.to_vec(), MAX_RETRANSMIT);
        self.unacknowledged.insert(key, SentMessage { bytes, left, wait, observer });
        true
    }

    /// Ends the retransmission of a message that was acknowledged or rejected. Returns its
    /// observer.
    pub fn settle(&mut self, key: Key) -> Option<u64> {
        self.unacknowledged.remove(&key).and_then(|unacknowledged| unacknowledged.observer)
    }

    /// The next retransmission of a message: its bytes and the time to the following one;
    /// None if it was settled. Err with its observer after the maximum of retransmissions.
    pub fn repeat(&mut self, key: Key) -> Result<Option<(Vec<u8>, Span)>, Option<u64>> {
        let Some(unacknowledged) = self.unacknowledged.get_mut(&key) else { return Ok(None) };
        if unacknowledged.left == 0 {
            return Err(self.settle(key));
        }
        unacknowledged.left -= 1;
        unacknowledged.wait = unacknowledged.wait * 2;
        Ok(Some((unacknowledged.bytes.clone(), unacknowledged.wait)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn key(port: u16, id: u16) -> Key {
        Key::new(&Address::new(SocketAddr::from(([10, 0, 0, 1], port))), id).unwrap()
    }

    #[test]
    fn keys_and_digests_tell_messages_apart() {
        assert_ne!(key(1, 2), key(2, 1));
        let v6 = |text: &str, id| Key::new(&Address::new(text.parse().unwrap()), id).unwrap();
        assert_ne!(v6("[::1]:1", 1), v6("[::2]:1", 1));
        assert_eq!(v6("[::1]:1", 1), v6("[::1]:1", 1));
        assert!(Key::new(&Address::empty(), 1).is_none());
        let mut register = std::collections::HashSet::new();
        for i in 0..10_000_u32 {
            assert!(register.insert(digest(&i.to_be_bytes())));
            assert!(register.insert(digest(&[&i.to_be_bytes()[..], b"and more of it"].concat())));
        }
        assert_ne!(digest(b"a"), digest(b"a\0"));
    }

    #[test]
    fn a_request_that_comes_again_is_served_once() {
        let mut some = Exchanges::default();
        assert_eq!(some.register(key(1, 7), 5, at(0)), RequestStatus::New);
        assert_eq!(some.register(key(2, 7), 5, at(0)), RequestStatus::New, "of another peer");
        assert!(!some.is_acknowledged(key(1, 7)));
        assert_eq!(some.register(key(1, 7), 5, at(1)), RequestStatus::Serving);
        assert!(some.is_acknowledged(key(1, 7)) && !some.acknowledge(key(1, 7)));
        assert!(some.acknowledge(key(2, 7)) && some.is_acknowledged(key(2, 7)));
        some.answered(key(1, 7), b"answer");
        assert_eq!(some.register(key(1, 7), 5, at(2)), RequestStatus::Answered(b"answer"));
        assert!(!some.acknowledge(key(1, 7)));
        // The ID identifies another request, too early or after its lifetime.
        assert_eq!(some.register(key(1, 7), 6, at(3)), RequestStatus::New);
        assert_eq!(some.register(key(1, 7), 6, at(3) + LIFETIME), RequestStatus::New);
        some.forget(key(2, 7));
        assert_eq!(some.register(key(2, 7), 5, at(1)), RequestStatus::New);
    }

    #[test]
    fn what_is_known_is_bounded() {
        let mut some = Exchanges::default();
        for i in 0..3 * MAX_KNOWN as u64 {
            let key = key((i >> 8) as u16, i as u16);
            assert_eq!(some.register(key, i, at(i)), RequestStatus::New);
            some.answered(key, b"x");
        }
        assert!(some.known.len() <= MAX_KNOWN && some.numbers.len() <= MAX_KNOWN);
        for i in 0..2 * MAX_UNACKNOWLEDGED {
            let kept = some.sent(key((i >> 8) as u16, i as u16), b"x", Span::from_ns(1), None);
            assert_eq!(kept, i < MAX_UNACKNOWLEDGED);
        }
    }

    #[test]
    fn own_messages_are_sent_again_until_they_are_settled() {
        let mut some = Exchanges::default();
        assert!(some.sent(key(1, 1), b"note", Span::from_ns(2), Some(9)));
        for wait in [4, 8, 16, 32] {
            assert_eq!(some.repeat(key(1, 1)), Ok(Some((b"note".to_vec(), Span::from_ns(wait)))));
        }
        assert_eq!(some.repeat(key(1, 1)), Err(Some(9)), "its observer is gone");
        assert_eq!(some.repeat(key(1, 1)), Ok(None));
        assert!(some.sent(key(1, 2), b"note", Span::from_ns(2), Some(9)));
        assert_eq!(some.settle(key(1, 2)), Some(9));
        assert_eq!((some.settle(key(1, 2)), some.repeat(key(1, 2))), (None, Ok(None)));
    }
}
