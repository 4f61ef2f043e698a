//! Codes of frames between the hub and one member, with a count. A frame that arrives a second time,
//! by the network or by an attacker, is none: it moves no estimate and causes no repair. This is the
//! window of IPsec and DTLS (RFC 4303, 3.4.3, RFC 6479, RFC 9147, 4.5.1).

use crate::keys::{CODE, Keys, Root, Scope};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::window::{Window, widen_from};
use crate::{Instant, Span};

/// Bytes of the count in a frame: its low 16 bits. The code is that of all 64.
const COUNT: usize = 2;
/// Frames after which an older one counts as a repeated one: more than paths reorder.
const WINDOW: usize = 1_024;
/// A receiver that has missed more than half of what the low bits count searches the count in this
/// number of further ranges, at most once in this time: forged frames must cost little.
const RANGES: u64 = 64;
const SEARCH_EVERY: Span = Span::from_s(1);

/// Bytes that the count and the code add to a frame: 6, or 0 without security.
fn added(keys: &Keys) -> usize {
    match keys.code_len() {
        0 => 0,
        code => COUNT + code,
    }
}

/// What signs the frames of the own end, and checks those of the other one.
pub(crate) fn ends(pair: &Root, [own, other]: [Scope; 2]) -> (Signer, Checker) {
    (Signer::new(pair.keys(own)), Checker::new(pair.keys(other)))
}

/// Counts and signs the frames of one end.
#[derive(Debug)]
pub struct Signer {
    keys: Keys,
    count: u64,
}

impl Signer {
    /// With keys that sign nothing else.
    pub fn new(keys: Keys) -> Self {
        Self { keys, count: 0 }
    }

    /// Bytes that [`Self::sign`] adds.
    pub fn code_len(&self) -> usize {
        added(&self.keys)
    }

    /// Appends the count and the code to a frame.
    pub fn sign(&mut self, frame: &mut Vec<u8>) {
        let Some((count, code)) = self.next(frame) else { return };
        frame.extend_from_slice(&(count as u16).to_be_bytes());
        frame.extend_from_slice(&code);
    }

    /// The count and the code of a frame, which its datagram must have; `None` without security.
    pub fn next(&mut self, frame: &[u8]) -> Option<(u64, [u8; CODE])> {
        let count = self.count;
        let code = self.keys.code(&[frame, &count.to_be_bytes()])?;
        self.count += 1;
        Some((count, code))
    }
}

/// The low bits of a count, fewer than 64.
#[derive(Debug, Clone, Copy)]
pub struct Low {
    /// How many.
    pub bits: u32,
    /// The count modulo 2 to the power of `bits`.
    pub count: u64,
}

/// Checks the frames of the other end.
#[derive(Debug)]
pub struct Checker {
    keys: Keys,
    seen: Window,
    newest: u64,
    search_at: Instant,
}

impl Checker {
    /// With the keys of the other end's [`Signer`].
    pub fn new(keys: Keys) -> Self {
        Self { keys, seen: Window::new(WINDOW), newest: 0, search_at: Instant::START }
    }

    /// Bytes of count and code in a frame.
    pub fn code_len(&self) -> usize {
        added(&self.keys)
    }

    /// The frame without count and code; `None` if the code is wrong, or the frame has arrived before
    /// or is so late that it may have.
    pub fn check<'a>(&mut self, frame: &'a [u8], now: Instant) -> Option<&'a [u8]> {
        if self.keys.code_len() == 0 {
            return Some(frame);
        }
        let (rest, code) = frame.split_last_chunk::<CODE>()?;
        let (plain, low) = rest.split_last_chunk::<COUNT>()?;
        let low = Low { bits: u16::BITS, count: u16::from_be_bytes(*low).into() };
        self.is_new([plain, &[]], low, code, now).then_some(plain)
    }

    /// Whether the frame of these two parts has this code, and has not arrived before.
    pub fn is_new(&mut self, frame: [&[u8]; 2], low: Low, code: &[u8; CODE], now: Instant) -> bool {
        let Some(count) = self.count(frame, low, code, now) else { return false };
        self.newest = self.newest.max(count);
        self.seen.insert(count)
    }

    fn count(
        &mut self,
        [head, rest]: [&[u8]; 2],
        low: Low,
        code: &[u8; CODE],
        now: Instant,
    ) -> Option<u64> {
        let near = widen_from(low.count, low.bits, self.newest);
        let is_right = |count: &u64| self.keys.is_code(&[head, rest, &count.to_be_bytes()], code);
        if is_right(&near) {
            return Some(near);
        }
        if now < self.search_at {
            return None;
        }
        let found = (1..=RANGES).map(|range| near.saturating_add(range << low.bits)).find(is_right);
        if found.is_none() {
            self.search_at = now + SEARCH_EVERY;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Party, Use};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A member's signer, and what checks its frames at the hub.
    fn ends(root: &Root) -> (Signer, Checker) {
        super::ends(root, [Scope::new(Use::Frame, 3, Party::Member(7)); 2])
    }

    fn keyed() -> Root {
        Root::new(b"the keys of a handshake", [1; 16])
    }

    fn signed(signer: &mut Signer, frame: &[u8]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        signer.sign(&mut frame);
        frame
    }

    #[test]
    fn a_frame_counts_once_and_a_forged_one_never() {
        let ((mut signer, mut checker), now) = (ends(&keyed()), Instant::START);
        let frame = signed(&mut signer, b"chunk");
        assert_eq!(frame.len(), 5 + signer.code_len());
        for at in 0..frame.len() {
            let mut forged = frame.clone();
            forged[at] ^= 1;
            assert_eq!(checker.check(&forged, now), None, "byte {at}");
        }
        assert_eq!(checker.check(&frame[..3], now), None);
        assert_eq!(checker.check(&frame, now), Some(&b"chunk"[..]));
        assert_eq!(checker.check(&frame, now), None);
        // The same content again is another frame.
        let again = signed(&mut signer, b"chunk");
        assert_eq!(checker.check(&again, now), Some(&b"chunk"[..]));
        let other = Root::new(b"the keys of another one", [1; 16]);
        assert_eq!(ends(&other).1.check(&again, now), None);
    }

    #[test]
    fn after_long_silence_frames_are_read_again_and_forgeries_cost_little() {
        for missed in [40_000, 110_000, 3_000_000] {
            let (mut signer, mut checker) = ends(&keyed());
            signer.count = missed;
            assert_eq!(checker.check(&[0; 20], Instant::START), None, "forged");
            // A search so soon would be one for each forged frame.
            let frame = signed(&mut signer, b"chunk");
            let is_near = missed < 1 << 16;
            assert_eq!(checker.check(&frame, Instant::START).is_some(), is_near, "{missed}");
            let now = Instant::START + SEARCH_EVERY;
            assert_eq!(checker.check(&frame, now).is_some(), !is_near, "{missed}");
            for _ in 0..100_000 {
                let frame = signed(&mut signer, b"chunk");
                assert!(
                    checker.check(&frame, now).is_some() && checker.check(&frame, now).is_none()
                );
            }
        }
    }

    #[test]
    fn without_security_nothing_is_added() {
        let (mut signer, mut checker) = ends(&Root::insecure([1; 16]));
        assert_eq!((signer.code_len(), checker.code_len()), (0, 0));
        let frame = signed(&mut signer, b"chunk");
        assert_eq!(
            (&frame[..], checker.check(&frame, Instant::START)),
            (&b"chunk"[..], Some(&b"chunk"[..]))
        );
    }

    proptest! {
        /// Frames that are lost, late, repeated by the network and replayed.
        #[test]
        fn each_frame_passes_once_whatever_its_way(
            steps in prop::collection::vec((0_usize..1_200, any::<bool>()), 1..300)
        ) {
            let ((mut signer, mut checker), now) = (ends(&keyed()), Instant::START);
            let (mut sent, mut passed) = (Vec::new(), BTreeSet::new());
            let mut newest = 0;
            for (back, fresh) in steps {
                if fresh || sent.is_empty() {
                    (0..=back % 40).for_each(|_| sent.push(signed(&mut signer, b"chunk")));
                }
                let at = if fresh { sent.len() - 1 } else { sent.len().saturating_sub(back + 1) };
                if checker.check(&sent[at], now).is_some() {
                    prop_assert!(passed.insert(at), "{at} twice");
                } else {
                    // The window drops at most one word early.
                    prop_assert!(passed.contains(&at) || newest - at >= WINDOW - 64);
                }
                newest = newest.max(at);
            }
        }
    }
}
