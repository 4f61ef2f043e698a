//! Block-wise requests, RFC 7959, section 2.5. Payload is counted, not stored, so that
//! memory is bounded for any input. Without I/O.

use crate::coap::Block;
use std::collections::HashMap;
use std::net::SocketAddr;
use units::{Instant, Span};

/// The maximum size of a body, in bytes; larger ones get 4.13.
const LARGEST_BODY: usize = 1 << 20;
/// The maximum number of transfers per peer, and of peers: 24 B each, 25 MB in all. A load
/// generator has one address for all its users.
const OF_PEER: usize = 1_024;
const PEERS: usize = 1_024;
/// EXCHANGE_LIFETIME (RFC 7252, section 4.8.2): after it, a transfer is forgotten.
const LIFETIME: Span = Span::from_s(247);

/// The result of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockResult {
    /// More blocks follow: 2.31.
    Continue,
    /// The body is complete; its length in bytes.
    Complete(usize),
    /// An earlier block is missing: 4.08.
    Incomplete,
    /// The body is too large: 4.13.
    TooLarge,
    /// The payload does not match the block size: 4.00.
    Bad,
}

#[derive(Debug, Clone, Copy)]
struct Transfer {
    key: u64,
    /// Bytes received.
    received: usize,
    at: Instant,
}

/// The transfers of all peers.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    peers: HashMap<SocketAddr, Vec<Transfer>>,
}

impl Transfers {
    /// Handles a block with a payload of `carried` bytes, of the request with this `key`.
    /// `size` is the body's size as stated by the request (Size1).
    pub fn take(
        &mut self,
        peer: SocketAddr,
        key: u64,
        block: Block,
        carried: usize,
        size: Option<u32>,
        now: Instant,
    ) -> BlockResult {
        if carried > block.size() || block.more && carried != block.size() {
            return BlockResult::Bad;
        }
        let (offset, end) = (block.offset(), block.offset() + carried);
        if end > LARGEST_BODY || size.is_some_and(|size| size as usize > LARGEST_BODY) {
            self.forget(peer, key);
            return BlockResult::TooLarge;
        }
        // Forgotten first: each outcome except a next block ends the transfer.
        let before = self.forget(peer, key).filter(|received| now - received.at < LIFETIME);
        let received = match before {
            // Block 0 restarts the transfer.
            _ if offset == 0 => end,
            Some(before) if before.received == offset => end,
            // A repetition of the last block.
            Some(before) if before.received == end => end,
            _ => return BlockResult::Incomplete,
        };
        if !block.more {
            return BlockResult::Complete(received);
        }
        self.keep(peer, Transfer { key, received, at: now });
        BlockResult::Continue
    }

    fn forget(&mut self, peer: SocketAddr, key: u64) -> Option<Transfer> {
        let own = self.peers.get_mut(&peer)?;
        let at = own.iter().position(|transfer| transfer.key == key)?;
        let transfer = own.swap_remove(at);
        if own.is_empty() {
            self.peers.remove(&peer);
        }
        Some(transfer)
    }

    /// Stores a transfer; replaces the oldest if there are too many.
    fn keep(&mut self, peer: SocketAddr, transfer: Transfer) {
        if self.peers.len() >= PEERS && !self.peers.contains_key(&peer) {
            let newest = |of: &Vec<Transfer>| of.iter().map(|transfer| transfer.at).max();
            let oldest = self.peers.iter().min_by_key(|(_, of)| newest(of)).map(|(peer, _)| *peer);
            oldest.and_then(|oldest| self.peers.remove(&oldest));
        }
        let own = self.peers.entry(peer).or_default();
        if own.len() >= OF_PEER
            && let Some(oldest) = (0..own.len()).min_by_key(|at| own[*at].at)
        {
            own.swap_remove(oldest);
        }
        own.push(transfer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: Instant = Instant::START;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn peer(number: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], number))
    }

    fn block(number: u32, more: bool) -> Block {
        Block { number, more, exponent: 2 }
    }

    #[test]
    fn a_body_is_complete_with_its_last_block_and_in_order() {
        let mut some = Transfers::default();
        let mut take = |number, more, carried| {
            some.take(peer(1), 7, block(number, more), carried, None, START)
        };
        assert_eq!(take(0, true, 64), BlockResult::Continue);
        assert_eq!(take(1, true, 64), BlockResult::Continue);
        assert_eq!(take(1, true, 64), BlockResult::Continue, "again, by another message id");
        assert_eq!(take(2, false, 10), BlockResult::Complete(138));
        assert_eq!(take(3, false, 10), BlockResult::Incomplete, "it is over");
        assert_eq!(take(0, true, 64), BlockResult::Continue);
        assert_eq!(take(2, true, 64), BlockResult::Incomplete, "one is missing");
        assert_eq!(take(1, true, 64), BlockResult::Incomplete, "and the rest is of no use");
        assert_eq!(take(0, true, 63), BlockResult::Bad);
        assert_eq!(take(0, false, 65), BlockResult::Bad);
        assert_eq!(take(0, false, 5), BlockResult::Complete(5));
    }

    #[test]
    fn a_body_may_be_too_large() {
        let mut some = Transfers::default();
        let largest = u32::try_from(LARGEST_BODY).unwrap();
        let first = |some: &mut Transfers, size| {
            some.take(peer(1), 7, block(0, true), 64, Some(size), START)
        };
        assert_eq!(first(&mut some, largest + 1), BlockResult::TooLarge);
        assert_eq!(first(&mut some, largest), BlockResult::Continue);
        let far = Block { number: largest / 1_024, more: true, exponent: 6 };
        assert_eq!(some.take(peer(1), 7, far, 1_024, None, START), BlockResult::TooLarge);
        assert!(some.peers.is_empty());
    }

    #[test]
    fn what_is_known_is_bounded_by_time_and_number() {
        let mut some = Transfers::default();
        some.take(peer(1), 7, block(0, true), 64, None, START);
        let late = some.take(peer(1), 7, block(1, false), 1, None, START + LIFETIME);
        assert_eq!(late, BlockResult::Incomplete);
        for key in 0..2 * OF_PEER as u64 {
            some.take(peer(1), key, block(0, true), 64, None, at(key));
        }
        assert_eq!(some.peers[&peer(1)].len(), OF_PEER);
        // The newest are stored.
        let next = |some: &mut Transfers, key| {
            some.take(peer(1), key, block(1, false), 1, None, at(3_000))
        };
        assert_eq!(next(&mut some, 2 * OF_PEER as u64 - 1), BlockResult::Complete(65));
        assert_eq!(next(&mut some, 5), BlockResult::Incomplete);
        for number in 0..3_000 {
            some.take(peer(number), 1, block(0, true), 64, None, at(3_000 + u64::from(number)));
        }
        assert!(some.peers.len() <= PEERS);
        assert!(some.peers.contains_key(&peer(2_999)) && !some.peers.contains_key(&peer(1)));
    }

    proptest! {
        #[test]
        fn any_blocks_are_no_panic_and_no_body_is_longer_than_what_came(
            blocks in proptest::collection::vec(
                (0u16..3, 0u64..3, 0u32..1 << 20, any::<bool>(), 0u8..7, 0usize..1_100),
                0..200,
            ),
        ) {
            let (mut some, mut sent) = (Transfers::default(), 0);
            for (from, key, number, more, exponent, carried) in blocks {
                sent += carried;
                let number = if number % 3 > 0 { number % 4 } else { number };
                let block = Block { number, more, exponent };
                let result = some.take(peer(from), key, block, carried, None, START);
                if let BlockResult::Complete(body) = result {
                    prop_assert!(body <= sent && body <= LARGEST_BODY);
                }
                prop_assert!(some.peers.len() <= 3);
            }
        }
    }
}
