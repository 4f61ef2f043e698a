//! Frames that share a datagram: small messages, answers and acknowledgements that are due together.
//! Each has its length in front; the kind of a bundle and one code are for all.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::{Instant, Span};

/// Kind of a bundle; frames of `udp-arq` and `multicast-fec` have the numbers around it.
const BUNDLE: u8 = 0x19;
/// Bytes of a frame's length.
pub(crate) const LENGTH: usize = 2;
/// Bytes before the first frame of a bundle: the kind, and its length.
const FIRST: usize = 1 + LENGTH;
/// Bytes for a count and a code, which follow.
const ROOM_FOR_CODE: usize = 8;

/// Frames to send as a datagram of at most `limit` bytes.
#[derive(Debug)]
pub struct Bundle {
    /// As a bundle, also if there is only one.
    bytes: Vec<u8>,
    count: usize,
    limit: usize,
}

impl Bundle {
    /// An empty one, for several frames in `limit` bytes, at most 65,535.
    pub fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), count: 0, limit }
    }

    /// Whether it has no frame.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its length in bytes, if a frame of `more` bytes joins; `None` if that is too long. One alone
    /// may be longer than the limit.
    pub fn with(&self, more: usize) -> Option<usize> {
        if self.is_empty() {
            return Some(more);
        }
        Some(self.bytes.len() + LENGTH + more).filter(|whole| *whole <= self.limit)
    }

    /// Bytes of the longest frame that can join others.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.bytes.len().max(1) + LENGTH)
    }

    /// Takes no more frames.
    pub fn close(&mut self) {
        self.limit = 0;
    }

    /// Its length in bytes so far, if it has several frames.
    pub fn shared(&self) -> Option<usize> {
        (self.count > 1).then_some(self.bytes.len())
    }

    /// Makes room for `count` more frames of `length` bytes, as far as they fit, and for a code.
    pub fn reserve(&mut self, count: usize, length: usize) {
        let whole = (FIRST + count * (LENGTH + length)).min(self.limit.max(FIRST + length));
        self.bytes.reserve_exact(whole + ROOM_FOR_CODE);
    }

    /// Adds the frame of `length` bytes that `write` appends.
    pub fn push(&mut self, length: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_empty() {
            self.bytes.reserve(FIRST + length);
            self.bytes.push(BUNDLE);
        }
        self.bytes.extend_from_slice(&(length as u16).to_be_bytes());
        let begin = self.bytes.len();
        write(&mut self.bytes);
        debug_assert_eq!(self.bytes.len() - begin, length);
        self.count += 1;
    }

    /// The datagram, without anything around it if it is alone; `None` if there is none.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        if self.count == 1 {
            self.bytes.drain(..FIRST);
        }
        (self.count > 0).then_some(self.bytes)
    }
}

/// Consecutive losses of bundles after which shorter ones are sent.
const LOST: u32 = 8;
/// Time after which longer ones are tried again.
const RAISE_AFTER: Span = Span::from_s(60);

/// The longest bundle that a path carries, as far as known: a router that drops long packets may
/// not say so, and no message alone may be so long.
#[derive(Debug, Clone, Copy, Default)]
pub struct Longest {
    /// In bytes, and until when.
    limit: Option<(usize, Instant)>,
    /// Bundles lost since one as long as the shortest of them has arrived, and its length.
    lost: u32,
    shortest: usize,
}

impl Longest {
    /// The limit in bytes, at most `datagram`.
    pub fn limit(&self, datagram: usize, now: Instant) -> usize {
        let limit = self.limit.filter(|(_, until)| now < *until);
        limit.map_or(datagram, |(limit, _)| limit.min(datagram))
    }

    /// A bundle of this length was not acknowledged in time.
    pub fn lost(&mut self, bytes: usize, now: Instant) {
        self.shortest = if self.lost == 0 { bytes } else { self.shortest.min(bytes) };
        self.lost += 1;
        if self.lost >= LOST {
            self.limit = Some((self.shortest / 2, now + RAISE_AFTER));
            self.lost = 0;
        }
    }

    /// A bundle of this length has arrived.
    pub fn arrived(&mut self, bytes: usize) {
        if bytes >= self.shortest {
            self.lost = 0;
        }
    }
}

/// Whether a datagram is a bundle; the content is not checked.
pub fn is_bundle(datagram: &[u8]) -> bool {
    datagram.first() == Some(&BUNDLE)
}

/// The frames of a bundle, or the datagram itself if it is none. What follows a wrong length is ignored.
pub fn parts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut alone, mut rest) = match bytes.strip_prefix(&[BUNDLE]) {
        Some(rest) => (None, rest),
        None => (Some(bytes), &[][..]),
    };
    core::iter::from_fn(move || {
        alone.take().or_else(|| {
            let (length, after) = rest.split_first_chunk::<LENGTH>()?;
            let (part, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
            rest = after;
            Some(part)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_bundled_reads_back(
            parts_in in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..60), 0..20),
            limit in 60..300_usize
        ) {
            let (mut bundle, mut taken) = (Bundle::new(limit), Vec::new());
            // The first byte of a frame is its kind, and bundles are not nested.
            let known = parts_in.into_iter().filter(|part| part[0] != BUNDLE);
            for part in known {
                let fits = bundle.is_empty() || part.len() <= bundle.room();
                prop_assert_eq!(bundle.with(part.len()).is_some(), fits);
                if bundle.with(part.len()).is_some() {
                    bundle.push(part.len(), |bytes| bytes.extend_from_slice(&part));
                    taken.push(part);
                }
            }
            let datagram = bundle.finish();
            prop_assert_eq!(datagram.is_some(), !taken.is_empty());
            let datagram = datagram.unwrap_or_default();
            prop_assert!(datagram.len() <= limit.max(59));
            let read: Vec<&[u8]> = parts(&datagram).filter(|part| !part.is_empty()).collect();
            prop_assert_eq!(read, taken);
        }

        #[test]
        fn the_limit_falls_below_what_a_path_drops_and_rises_later(carries in 100..1_200_usize) {
            let (mut longest, now) = (Longest::default(), Instant::START);
            for _ in 0..10 * LOST {
                let length = longest.limit(1_200, now);
                if length > carries { longest.lost(length, now) } else { longest.arrived(length) }
            }
            let limit = longest.limit(1_200, now);
            prop_assert!((carries / 2..=carries).contains(&limit), "{limit}");
            prop_assert_eq!(longest.limit(1_200, now + RAISE_AFTER), 1_200);
        }

        /// Losses that a long bundle gets through are not the path's limit.
        #[test]
        fn random_loss_is_no_limit(most in 1..LOST) {
            let mut longest = Longest::default();
            for _ in 0..100 {
                (0..most).for_each(|_| longest.lost(900, Instant::START));
                longest.arrived(1_000);
            }
            prop_assert_eq!(longest.limit(1_200, Instant::START), 1_200);
        }

        #[test]
        fn nothing_that_comes_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let forged = [&[BUNDLE][..], &bytes].concat();
            let total: usize = parts(&forged).map(|part| part.len() + LENGTH).sum();
            prop_assert!(total <= bytes.len());
        }
    }
}
