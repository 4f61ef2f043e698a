//! A message on its way, and what has been delivered.

use super::chunks::Chunks;
use super::frame::HEADER;
use super::settings::{AckReport, Response};
use crate::bundle::LENGTH;
use crate::capacity::{Known, Train};
use crate::platform::Arc;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::{Instant, Span};
use core::ops::Deref;

/// What a sender knows as delivered at a time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Delivered {
    /// Bytes on the wire whose fate is known, and those among them that have arrived.
    pub bytes: usize,
    pub received: usize,
    /// Time of the last acknowledgement; if nothing was in flight, of the sending after it.
    pub at: Instant,
    /// Sending time of the chunk that it has acknowledged.
    pub sent_at: Instant,
    /// Whether nothing was in flight.
    pub alone: bool,
}

/// An attempt: a train up to its last chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    /// Sending time of its last chunk.
    pub asked_at: Instant,
    /// What had been delivered when its first chunk was sent.
    pub before: Delivered,
    /// Chunks of the message sent until then.
    pub sent: u32,
}

/// Attempts of a message. Most messages have one, which needs no memory elsewhere.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    first: Option<Attempt>,
    later: Vec<Attempt>,
}

impl Attempts {
    /// Number of attempts.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.later.len()
    }

    /// The attempt with this number.
    pub fn get(&self, number: u8) -> Option<&Attempt> {
        match number.checked_sub(1) {
            None => self.first.as_ref(),
            Some(later) => self.later.get(usize::from(later)),
        }
    }

    /// The last one.
    pub fn last(&self) -> Option<&Attempt> {
        self.later.last().or(self.first.as_ref())
    }

    /// Adds one.
    pub fn push(&mut self, attempt: Attempt) {
        match self.first {
            None => self.first = Some(attempt),
            Some(_) => self.later.push(attempt),
        }
    }
}

/// The bytes of a message. Those of a hub are the same for all its members.
#[derive(Debug)]
pub enum Payload {
    /// Of this sender alone.
    Own(Vec<u8>),
    /// Of several senders.
    Shared(Arc<[u8]>),
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Own(bytes)
    }
}

#[derive(Debug)]
pub(super) struct Sending {
    pub bytes: Payload,
    /// Bytes of each chunk but the last: the size of datagrams may have changed since it was queued.
    room: usize,
    /// Index of the last chunk.
    pub last: u8,
    /// Unacknowledged chunks.
    pub missing: Chunks,
    /// Remaining chunks of the current train.
    pub train: Chunks,
    /// Retransmission timeout; `None` while the train is being sent.
    pub ask_at: Option<Instant>,
    /// Attempts that are counted.
    pub asked: Attempts,
    /// What had been delivered before the current train.
    pub before: Option<Delivered>,
    /// The attempt of the request that this answer belongs to.
    pub echo: u8,
    /// When it was ready to be sent; of an answer, when its request arrived.
    pub queued_at: Option<Instant>,
    /// Consecutive timeouts.
    pub tries: u32,
    /// Number of chunks sent, and number of those that are known as received or lost.
    pub sent: u32,
    pub known: u32,
    /// Those that were not the first of their datagram.
    pub joined: u32,
    /// Length of the bundle that it was sent in, if it was the last in one, in bytes.
    pub bundle: Option<usize>,
    pub until: Option<Instant>,
}

impl Sending {
    /// A message in chunks of `room` bytes that waits to be sent; `None` if it has too many.
    pub fn new(bytes: Payload, room: usize, until: Option<Instant>) -> Option<Self> {
        let chunks = bytes.len().div_ceil(room).max(1);
        let last = u8::try_from(chunks - 1).ok()?;
        let missing = Chunks::up_to(last, |_| true);
        Some(Self {
            bytes,
            room,
            last,
            missing,
            train: missing,
            ask_at: None,
            asked: Attempts::default(),
            before: None,
            echo: 0,
            queued_at: None,
            tries: 0,
            sent: 0,
            known: 0,
            joined: 0,
            bundle: None,
            until,
        })
    }

    /// Round-trip time of the attempt that triggered a reply; `None` beyond the counted attempts.
    /// Because a reply names its attempt, retransmitted messages give samples as well, which Karn
    /// and Partridge's rule excludes.
    pub fn round_trip(&self, echo: u8, now: Instant) -> Option<Span> {
        let attempt = self.asked.get(echo)?;
        Some(now - attempt.asked_at)
    }

    /// Time until a reply, with the time for which the receiver held the message: a reply that does
    /// not name its attempt gives none if there were several (Karn and Partridge).
    pub fn response(&self, echo: u8, now: Instant) -> Option<Response> {
        let only = (self.asked.len() == 1).then_some(0);
        let echo = self.asked.get(echo).map(|_| echo).or(only)?;
        Some(Response { time: self.round_trip(echo, now)?, before: u32::from(echo) })
    }

    /// The data of a chunk.
    pub fn data(&self, index: u8) -> &[u8] {
        let begin = usize::from(index) * self.room;
        let end = (begin + self.room).min(self.bytes.len());
        self.bytes.get(begin..end).unwrap_or_default()
    }

    /// Mean bytes of a chunk on the wire, of which the first of a datagram have `below` of other layers.
    pub fn chunk(&self, below: usize) -> usize {
        let (sent, joined) = (self.sent.max(1) as usize, self.joined as usize);
        let around = (below * (sent - joined) + LENGTH * joined) / sent;
        self.bytes.len() / (usize::from(self.last) + 1) + HEADER + around
    }

    /// Number of chunks whose fate becomes known by a reply to this attempt; chunks sent after it
    /// may still arrive.
    pub fn newly_known(&mut self, echo: u8) -> u32 {
        let sent = self.asked.get(echo).map_or(self.sent, |attempt| attempt.sent);
        let known = self.known;
        self.known = known.max(sent);
        sent.saturating_sub(known)
    }
}

impl Delivered {
    /// A train has ended, with chunks of `chunk` bytes: what was delivered since it began. Adds what has
    /// become known to the report.
    pub fn end(
        &mut self,
        attempt: &Attempt,
        chunk: usize,
        report: &mut AckReport,
        now: Instant,
    ) -> Option<Train> {
        let known = (report.received + report.lost) as usize;
        report.known = Known { bytes: known * chunk, received: report.received as usize * chunk };
        self.bytes += report.known.bytes;
        self.received += report.known.received;
        (self.at, self.sent_at) = (now, attempt.asked_at);
        let before = attempt.before;
        let train = Train {
            bytes: self.bytes - before.bytes,
            received: self.received - before.received,
            fresh: report.known.received,
            sent: attempt.asked_at - before.sent_at,
            acknowledged: now - before.at,
            alone: before.alone,
            repaired: false,
            held: false,
        };
        // A repeated acknowledgement delivers nothing, and would look like a rate of 0.
        (known > 0).then_some(train)
    }
}
