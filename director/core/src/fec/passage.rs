//! How fast acknowledged messages pass the path: their members send nothing else that tells it. The
//! first acknowledgement of a message counts.

use crate::capacity::Train;
use crate::{Instant, Span};

/// What has been delivered until a time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Delivered {
    /// Bytes on the wire whose fate is known, and those among them that have arrived.
    bytes: usize,
    received: usize,
    /// When a member had the last message, and when that had been sent; until one has it after a pause, when the
    /// first one after the pause was sent.
    at: Instant,
    sent_at: Instant,
    resumes: bool,
}

/// A message on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passage {
    /// What had been delivered when it was first sent.
    before: Delivered,
    /// Its frames so far, and their bytes on the wire.
    frames: usize,
    bytes: usize,
    /// When the last of them was sent.
    at: Instant,
    /// Whether an acknowledgement has counted.
    pub is_over: bool,
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// When the member had the message.
    pub at: Instant,
    /// When the last symbol had been sent.
    pub sent_at: Instant,
    /// Number of symbols that the member needed.
    pub symbols: usize,
    /// Whether symbols or the acknowledgement were requested.
    pub repaired: bool,
    /// Whether the application may have held it.
    pub held: bool,
}

impl Passage {
    /// The first symbol goes out at `now`.
    pub fn new(delivered: Delivered, now: Instant) -> Self {
        Self { before: delivered, frames: 0, bytes: 0, at: now, is_over: false }
    }

    /// A symbol of `bytes` on the wire goes out at `now`.
    pub fn send(&mut self, bytes: usize, now: Instant) {
        self.frames += 1;
        self.bytes += bytes;
        self.at = now;
    }

    /// Whether none of it is on its way at `now`: it has arrived, or is lost after `lost_after`.
    pub fn has_ended(&self, lost_after: Span, now: Instant) -> bool {
        self.is_over || self.at + lost_after < now
    }
}

impl Delivered {
    /// The same if nothing is on its way, and a message goes out at `now`: pauses are no time in which something
    /// passes.
    #[must_use]
    pub fn resumed(self, now: Instant) -> Self {
        Self { at: now, sent_at: now, resumes: true, ..self }
    }

    /// A member has the message: what was delivered since that was first sent.
    pub fn end(&mut self, passage: &mut Passage, arrival: Arrival) -> Train {
        passage.is_over = true;
        let Passage { before, bytes, .. } = *passage;
        let received = match arrival.repaired {
            true => (bytes * arrival.symbols / passage.frames.max(1)).min(bytes),
            false => bytes,
        };
        self.bytes += bytes;
        self.received += received;
        (self.at, self.sent_at, self.resumes) = (arrival.at, arrival.sent_at, false);
        Train {
            bytes: self.bytes - before.bytes,
            received: self.received - before.received,
            fresh: received,
            sent: arrival.sent_at - before.sent_at,
            acknowledged: arrival.at - before.at,
            alone: before.resumes,
            repaired: arrival.repaired,
            held: arrival.held,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_ms(1);

    fn at(ms: u64) -> Instant {
        Instant::START + ms * MS
    }

    #[test]
    fn a_message_alone_gives_the_time_since_it_was_first_sent() {
        let delivered = Delivered::default();
        let mut delivered = delivered.resumed(at(10));
        let send = |delivered: Delivered, begin: u64, frames: u64| {
            let mut passage = Passage::new(delivered, at(begin));
            (0..frames).for_each(|_| passage.send(100, at(begin)));
            passage
        };
        let (mut first, mut second) = (send(delivered, 10, 4), send(delivered, 12, 2));
        let arrival = |ms, repaired| Arrival {
            at: at(ms),
            sent_at: at(15),
            symbols: 3,
            repaired,
            held: false,
        };
        let train = delivered.end(&mut first, arrival(40, false));
        assert_eq!((train.bytes, train.received, train.alone), (400, 400, true));
        assert_eq!((train.sent, train.acknowledged), (5 * MS, 30 * MS));
        // One that is sent now waits behind the second: since the last delivery before it.
        let mut third = send(delivered, 45, 2);
        // The second one was sent before anything was delivered.
        let train = delivered.end(&mut second, arrival(50, true));
        assert_eq!((train.bytes, train.alone, train.repaired), (600, true, true));
        assert_eq!((train.sent, train.acknowledged), (5 * MS, 40 * MS));
        let train = delivered.end(&mut third, arrival(60, false));
        assert_eq!((train.bytes, train.alone, train.acknowledged), (400, false, 20 * MS));
    }
}
