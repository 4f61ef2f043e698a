//! What goes to the other end together, and when acknowledgements do.

use super::{ACK_AT, ACK_AT_BUNDLED, Arq, messages_in};
use crate::Instant;
use crate::arq::{Complete, Datagram, Echo};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;

impl Arq {
    /// What an acknowledgement says at `now` about what triggered it.
    fn echo(echo: Echo, late_at: Instant, now: Instant) -> Echo {
        Echo { held: now > late_at, ..echo }
    }

    /// The next acknowledgement, if it is time. Those of other whole messages go with it.
    pub(super) fn next_ack(&mut self, now: Instant) -> Option<Datagram> {
        // An answer replaces the acknowledgement if it goes out before: if it waits behind others, its message
        // would look lost.
        let (due, number) = loop {
            let (due, number, _) = self.acks.first()?;
            if !self.sender.has_begun(number) {
                break (due, number);
            }
            self.acks.remove(number);
        };
        let at_once = if self.bundles && self.asks { ACK_AT_BUNDLED } else { ACK_AT };
        if due > now && (self.replaced || self.acks.len() < at_once) {
            return None;
        }
        let mut first = self.acks.remove(number)?;
        first.echo = Self::echo(first.echo, due + self.late, now);
        if first.received_chunks.is_some() {
            return Some(first.datagram());
        }
        let mut messages = vec![Complete { message: first.message, echo: first.echo }];
        self.take_complete(&mut messages, self.room, now);
        Some(Datagram::Complete(messages))
    }

    /// Takes acknowledgements of whole messages, until there are `room`.
    fn take_complete(&mut self, messages: &mut Vec<Complete>, room: usize, now: Instant) {
        let (mut left, late) = (room.saturating_sub(messages.len()), self.late);
        if left == 0 || self.acks.len() == 0 {
            return;
        }
        self.acks.retain(|message, due, ack| {
            let goes = left > 0 && ack.received_chunks.is_none();
            if goes {
                left -= 1;
                messages.push(Complete { message, echo: Self::echo(ack.echo, due + late, now) });
            }
            !goes
        });
    }

    /// The next datagram, with all that is ready for the other end and fits into it.
    pub(super) fn next_bundle(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        // A member sends none that are longer than what the hub sends, so that the hub notices if the
        // path does not carry them (decision 116).
        let limit = if self.asks { self.datagram } else { self.datagram.min(self.longest) };
        let mut bundle = self.sender.bundle(limit, now);
        if let Some(ack) = self.next_ack(now).map(|ack| ack.encode()) {
            bundle.push(ack.len(), |bytes| bytes.extend_from_slice(&ack));
        }
        let mut wake = self.sender.fill(&mut bundle, now);
        if bundle.is_empty() {
            let due = self.acks.first().map(|(due, ..)| due);
            wake = wake.into_iter().chain(due).min();
        } else if !self.replaced {
            // What is not due yet saves a separate datagram.
            let mut messages = Vec::new();
            self.take_complete(&mut messages, messages_in(bundle.room()), now);
            if !messages.is_empty() {
                let ack = Datagram::Complete(messages).encode();
                bundle.push(ack.len(), |bytes| bytes.extend_from_slice(&ack));
            }
        }
        self.sender.bundle_sent(&bundle);
        let wake = if bundle.is_empty() { wake } else { Some(now) };
        (bundle.finish().map(|datagram| self.signed(datagram)), wake)
    }
}
