//! Confirmable messages both ways: requests that are known from before are not served twice
//! (RFC 7252, sections 4.2 and 4.5), and what the device sends itself is sent again until it is
//! acknowledged. Pure: times come in.

use crate::clock::{Nanos, SECOND};
use crate::socket::Address;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

/// EXCHANGE_LIFETIME (section 4.8.2): so long a message id stands for one message.
const LIFETIME: Nanos = 247 * SECOND;
/// Requests that are known at most; their answers have 1.2 kB each at most, 20 MB in all.
const MOST: usize = 16_384;
/// MAX_RETRANSMIT (section 4.8).
const MAX_RETRANSMIT: u32 = 4;
/// Messages of the device's own that wait for an acknowledgement at most; further ones are sent
/// once.
const MOST_OWN: usize = 16_384;

/// A message by its sender or receiver and its id: exactly for IPv4, by a hash of 64 bits for
/// IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    number: u64,
    pub id: u16,
}

impl Key {
    /// Nothing for a peer that is neither.
    pub fn new(peer: &Address, id: u16) -> Option<Self> {
        let number = match peer.get()? {
            SocketAddr::V4(v4) => {
                u64::from(v4.ip().to_bits()) << 32 | u64::from(v4.port()) << 16 | u64::from(id)
            }
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

/// Spreads a number over all bits: the standard hasher takes longer than all else that is done
/// for a request that comes for the first time.
#[derive(Default)]
pub(crate) struct Spreading(u64);

impl Hasher for Spreading {
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
        // The golden ratio of 64 bits, as in `units::Draw`; high bits matter as low ones do.
        let product = (self.0.rotate_left(29) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

/// What tells one message from another with the same id.
pub(crate) fn digest(message: &[u8]) -> u64 {
    let mut hasher = Spreading::default();
    hasher.write(message);
    hasher.finish()
}

type Map<V> = HashMap<Key, V, BuildHasherDefault<Spreading>>;

/// What is known of a request that has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen<'a> {
    /// Nothing: it is to be served.
    New,
    /// It is being served: it is to be acknowledged.
    Serving,
    /// It was answered: this was the answer.
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
struct Known {
    key: Key,
    /// An id may come again too soon, with another request.
    digest: u64,
    at: Nanos,
    progress: Progress,
    answer: Vec<u8>,
}

/// A message of the device's own.
#[derive(Debug)]
struct Own {
    bytes: Vec<u8>,
    left: u32,
    wait: Nanos,
    /// The observer that it notifies.
    observer: Option<u64>,
}

/// Requests that are known, and own messages that wait for an acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    /// In the order in which they came; the first has the number `base`.
    known: VecDeque<Known>,
    base: u64,
    /// The numbers of the last of each key.
    numbers: Map<u64>,
    own: Map<Own>,
}

impl Exchanges {
    fn find(&mut self, key: Key) -> Option<&mut Known> {
        let number = self.numbers.get(&key)?;
        self.known.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// A confirmable request has come.
    pub fn seen(&mut self, key: Key, digest: u64, now: Nanos) -> Seen<'_> {
        // Looked up twice, since what is found is lent to the caller.
        let again = self.find(key).is_some_and(|known| {
            known.digest == digest
                && now.saturating_sub(known.at) < LIFETIME
                && known.progress != Progress::Forgotten
        });
        if !again {
            self.add(key, digest, now);
            return Seen::New;
        }
        match self.find(key) {
            Some(Known { progress: Progress::Answered, answer, .. }) => Seen::Answered(answer),
            Some(known) => {
                known.progress = Progress::Acknowledged;
                Seen::Serving
            }
            None => Seen::New,
        }
    }

    fn add(&mut self, key: Key, digest: u64, at: Nanos) {
        // The oldest gives its memory to the newest.
        let oldest = if self.known.len() < MOST { None } else { self.known.pop_front() };
        let mut answer = Vec::new();
        if let Some(oldest) = oldest {
            if self.numbers.get(&oldest.key) == Some(&self.base) {
                self.numbers.remove(&oldest.key);
            }
            self.base += 1;
            answer = oldest.answer;
            answer.clear();
        }
        self.numbers.insert(key, self.base + self.known.len() as u64);
        self.known.push_back(Known { key, digest, at, progress: Progress::Serving, answer });
    }

    /// A request is to be acknowledged if it is still being served; whether it is.
    pub fn acknowledge(&mut self, key: Key) -> bool {
        match self.find(key) {
            Some(known) if known.progress == Progress::Serving => {
                known.progress = Progress::Acknowledged;
                true
            }
            _ => false,
        }
    }

    /// Whether a request was acknowledged before its answer, which then goes by itself.
    pub fn is_acknowledged(&mut self, key: Key) -> bool {
        self.find(key).is_some_and(|known| known.progress == Progress::Acknowledged)
    }

    /// A request was answered by this.
    pub fn answered(&mut self, key: Key, answer: &[u8]) {
        if let Some(known) = self.find(key) {
            known.progress = Progress::Answered;
            known.answer.clear();
            known.answer.extend_from_slice(answer);
        }
    }

    /// A request was as good as lost: the next copy of it is new.
    pub fn forget(&mut self, key: Key) {
        if let Some(known) = self.find(key) {
            known.progress = Progress::Forgotten;
        }
    }

    /// The device has sent a confirmable message, for which it waits that long; whether it is
    /// kept to be sent again.
    pub fn sent(&mut self, key: Key, bytes: &[u8], wait: Nanos, observer: Option<u64>) -> bool {
        if self.own.len() >= MOST_OWN {
            return false;
        }
        let (bytes, left) = (bytes.to_vec(), MAX_RETRANSMIT);
        self.own.insert(key, Own { bytes, left, wait, observer });
        true
    }

    /// An own message was acknowledged or rejected: the observer that it was for.
    pub fn settled(&mut self, key: Key) -> Option<u64> {
        self.own.remove(&key).and_then(|own| own.observer)
    }

    /// The time of an own message is over: its bytes, and how long the next wait is; nothing if
    /// it was settled. An error if it was sent as often as may be, with its observer.
    pub fn repeat(&mut self, key: Key) -> Result<Option<(Vec<u8>, Nanos)>, Option<u64>> {
        let Some(own) = self.own.get_mut(&key) else { return Ok(None) };
        if own.left == 0 {
            return Err(self.settled(key));
        }
        own.left -= 1;
        own.wait = own.wait.saturating_mul(2);
        Ok(Some((own.bytes.clone(), own.wait)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut seen = std::collections::HashSet::new();
        for i in 0..10_000_u32 {
            assert!(seen.insert(digest(&i.to_be_bytes())));
            assert!(seen.insert(digest(&[&i.to_be_bytes()[..], b"and more of it"].concat())));
        }
        assert_ne!(digest(b"a"), digest(b"a\0"));
    }

    #[test]
    fn a_request_that_comes_again_is_served_once() {
        let mut some = Exchanges::default();
        assert_eq!(some.seen(key(1, 7), 5, 0), Seen::New);
        assert_eq!(some.seen(key(2, 7), 5, 0), Seen::New, "of another peer");
        assert!(!some.is_acknowledged(key(1, 7)));
        assert_eq!(some.seen(key(1, 7), 5, 1), Seen::Serving);
        assert!(some.is_acknowledged(key(1, 7)) && !some.acknowledge(key(1, 7)));
        assert!(some.acknowledge(key(2, 7)) && some.is_acknowledged(key(2, 7)));
        some.answered(key(1, 7), b"answer");
        assert_eq!(some.seen(key(1, 7), 5, 2), Seen::Answered(b"answer"));
        assert!(!some.acknowledge(key(1, 7)));
        // The id stands for another request, sooner than it should or after its lifetime.
        assert_eq!(some.seen(key(1, 7), 6, 3), Seen::New);
        assert_eq!(some.seen(key(1, 7), 6, 3 + LIFETIME), Seen::New);
        some.forget(key(2, 7));
        assert_eq!(some.seen(key(2, 7), 5, 1), Seen::New);
    }

    #[test]
    fn what_is_known_is_bounded() {
        let mut some = Exchanges::default();
        for i in 0..3 * MOST as u64 {
            let key = key((i >> 8) as u16, i as u16);
            assert_eq!(some.seen(key, i, i), Seen::New);
            some.answered(key, b"x");
        }
        assert!(some.known.len() <= MOST && some.numbers.len() <= MOST);
        for i in 0..2 * MOST_OWN {
            let kept = some.sent(key((i >> 8) as u16, i as u16), b"x", 1, None);
            assert_eq!(kept, i < MOST_OWN);
        }
    }

    #[test]
    fn own_messages_are_sent_again_until_they_are_settled() {
        let mut some = Exchanges::default();
        assert!(some.sent(key(1, 1), b"note", 2, Some(9)));
        for wait in [4, 8, 16, 32] {
            assert_eq!(some.repeat(key(1, 1)), Ok(Some((b"note".to_vec(), wait))));
        }
        assert_eq!(some.repeat(key(1, 1)), Err(Some(9)), "its observer is gone");
        assert_eq!(some.repeat(key(1, 1)), Ok(None));
        assert!(some.sent(key(1, 2), b"note", 2, Some(9)));
        assert_eq!(some.settled(key(1, 2)), Some(9));
        assert_eq!((some.settled(key(1, 2)), some.repeat(key(1, 2))), (None, Ok(None)));
    }
}
