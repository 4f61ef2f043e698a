//! The receiver of `udp-arq`, from one sender.

use super::frame::{ChunkHead, Complete, Datagram, Echo};
use super::settings::{MAX_HELD, SHORT};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::window::{self, Window};
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;

/// The result of a received datagram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received {
    /// The message that this datagram completes, with its number.
    pub message: Option<(u64, Vec<u8>)>,
    /// What to acknowledge.
    pub reply: Option<Receipt>,
}

/// What a receiver has of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The message.
    pub message: u64,
    /// What triggered it.
    pub echo: Echo,
    /// The chunks that it has, one bit per chunk, lowest first; `None` if it has all.
    pub received_chunks: Option<Vec<u8>>,
}

impl Receipt {
    /// Its datagram.
    pub fn datagram(self) -> Datagram {
        let Self { message, echo, received_chunks } = self;
        match received_chunks {
            Some(received_chunks) => Datagram::Acknowledge { message, echo, received_chunks },
            None => Datagram::Complete(vec![Complete { message, echo }]),
        }
    }
}

/// Maximum number of incomplete messages, if they are long and if they are short: the oldest is dropped.
/// Twice as many as a sender has in flight (`ArqSettings::most`).
pub(super) const MAX_OPEN: [usize; 2] = [64, 256];

#[derive(Debug)]
struct Receiving {
    last: u8,
    chunks: BTreeMap<u8, Vec<u8>>,
}

impl Receiving {
    fn bytes(&self) -> usize {
        self.chunks.values().map(Vec::len).sum()
    }
}

/// The receiver, from one sender.
#[derive(Debug)]
pub struct ArqReceiver {
    open: BTreeMap<u64, Receiving>,
    /// Bytes of their chunks.
    held: usize,
    window: Window,
}

impl Default for ArqReceiver {
    fn default() -> Self {
        Self::new()
    }
}

impl ArqReceiver {
    /// A receiver without state.
    pub fn new() -> Self {
        Self { open: BTreeMap::new(), held: 0, window: Window::new(window::MESSAGES) }
    }

    /// Number of incomplete messages.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Bytes of their chunks, as counted and as they are.
    #[cfg(test)]
    pub(super) fn held(&self) -> [usize; 2] {
        [self.held, self.open.values().map(Receiving::bytes).sum()]
    }

    /// Handles a datagram; returns the completed message and the acknowledgement to send.
    pub fn receive(&mut self, bytes: &[u8]) -> Received {
        let Some((head, data)) = ChunkHead::read(bytes) else { return Received::default() };
        let ChunkHead { message, index, last, asks, attempt, .. } = head;
        let echo = Echo { attempt, held: false };
        if self.window.has(message) {
            // A duplicate: the sender has missed the acknowledgement.
            let again = Receipt { message, echo, received_chunks: None };
            return Received { message: None, reply: asks.then_some(again) };
        }
        if last == 0 && !self.open.contains_key(&message) {
            self.window.insert(message);
            let reply = Some(Receipt { message, echo, received_chunks: None });
            return Received { message: Some((message, data.to_vec())), reply };
        }
        if !self.make_room(message, data.len()) {
            return Received::default();
        }
        let fresh = || Receiving { last, chunks: BTreeMap::new() };
        let receiving = self.open.entry(message).or_insert_with(fresh);
        // An inconsistent length: one of the chunks is forged.
        if receiving.last != last {
            return Received::default();
        }
        if let Entry::Vacant(place) = receiving.chunks.entry(index) {
            self.held += data.len();
            place.insert(data.to_vec());
        }
        let whole = receiving.chunks.len() > usize::from(last);
        if !whole {
            let received_chunks = Some(bitmap(receiving.chunks.keys().copied()));
            let reply = Receipt { message, echo, received_chunks };
            return Received { message: None, reply: asks.then_some(reply) };
        }
        let reply = Some(Receipt { message, echo, received_chunks: None });
        let chunks = self.open.remove(&message).map(|receiving| receiving.chunks);
        let chunks = chunks.unwrap_or_default();
        self.held -= chunks.values().map(Vec::len).sum::<usize>();
        self.window.insert(message);
        let chunks: Vec<Vec<u8>> = chunks.into_values().collect();
        Received { message: Some((message, chunks.concat())), reply }
    }

    /// Drops the oldest incomplete messages but this one, to which these bytes are added. Returns `false` if
    /// it alone is too long.
    fn make_room(&mut self, message: u64, bytes: usize) -> bool {
        let [long, short] = MAX_OPEN;
        loop {
            let most = if self.held + bytes > 2 * SHORT { long } else { short };
            let count = self.open.len() + usize::from(!self.open.contains_key(&message));
            if count <= most && self.held + bytes <= MAX_HELD {
                return true;
            }
            let oldest = self.open.keys().find(|own| **own != message).copied();
            let Some(oldest) = oldest else { return false };
            let dropped = self.open.remove(&oldest);
            self.held -= dropped.map_or(0, |receiving| receiving.bytes());
        }
    }
}

/// A bitmap of these indices.
fn bitmap(indices: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut bits = Vec::new();
    for index in indices {
        let byte = usize::from(index / 8);
        if bits.len() <= byte {
            bits.resize(byte + 1, 0);
        }
        bits[byte] |= 1 << (index % 8);
    }
    bits
}
