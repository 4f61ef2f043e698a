//! What a sender learns from acknowledgements and answers.

use super::ArqSender;
use crate::Instant;
use crate::arq::chunks::Chunks;
use crate::arq::frame::{Complete, Datagram, Echo, LAST_ATTEMPT};
use crate::arq::sending::Attempt;
use crate::arq::settings::{AckReport, Outcome};

/// Chunks that are lost because later ones have arrived, and their bytes on the wire.
#[derive(Debug, Clone, Copy, Default)]
struct Overtaken {
    count: u32,
    bytes: usize,
}

impl ArqSender {
    /// Handles a datagram if it is an acknowledgement; returns what it tells about the path, or `None`
    /// if nothing. The caller passes this to [`Self::measured`], once for all that has arrived together.
    pub fn handle_ack(&mut self, bytes: &[u8], now: Instant) -> Option<AckReport> {
        match Datagram::decode(bytes)? {
            Datagram::Acknowledge { message, echo, received_chunks } => {
                self.acknowledged(message, echo, &received_chunks, now)
            }
            Datagram::Complete(messages) => {
                let known = messages.iter().filter_map(|Complete { message, echo }| {
                    self.update(*message, *echo, |_| true, now)
                });
                known.reduce(|all, one| all.and(&one))
            }
            Datagram::Chunk { .. } => None,
        }
    }

    /// Handles the chunk bitmap of a receiver and what triggered it; `None` if the message is not in
    /// flight.
    pub fn acknowledged(
        &mut self,
        message: u64,
        echo: Echo,
        received_chunks: &[u8],
        now: Instant,
    ) -> Option<AckReport> {
        let bit = |index: u8| {
            received_chunks
                .get(usize::from(index / 8))
                .is_some_and(|byte| byte & (1 << (index % 8)) != 0)
        };
        self.update(message, echo, bit, now)
    }

    /// The receiver has these chunks of a message; `None` if the message is not in flight.
    fn update(
        &mut self,
        message: u64,
        Echo { attempt: echo, held }: Echo,
        has: impl Fn(u8) -> bool,
        now: Instant,
    ) -> Option<AckReport> {
        let sending = self.sending.get_mut(message)?;
        sending.bundle.take().into_iter().for_each(|bytes| self.longest.arrived(bytes));
        // Check all chunks, not only the missing ones: a restarted receiver has none.
        sending.missing = Chunks::up_to(sending.last, |index| !has(index));
        let mut acknowledged = None;
        let response = sending.response(echo, now);
        let round_trip = sending.round_trip(echo, now).filter(|_| !held);
        let mut report = AckReport { round_trip, response, ..AckReport::default() };
        if sending.train.is_empty() {
            let (missing, sent) = (sending.missing.len() as u32, sending.newly_known(echo));
            report.lost = missing.min(sent);
            report.received = sent - report.lost;
            let attempt = sending.asked.get(echo).copied();
            acknowledged = attempt.map(|attempt| (attempt, sending.chunk(self.settings.below)));
        }
        if sending.missing.is_empty() {
            self.sending.remove(message);
            self.ready.remove(message);
            self.done.push((message, Outcome::Delivered));
        } else if sending.train.is_empty() {
            // An acknowledgement during a train does not cover all of it.
            sending.train = sending.missing;
            self.ready.insert(message, ());
            sending.ask_at = None;
            sending.tries = 0;
        }
        self.learn(&mut report, acknowledged, now);
        Some(report)
    }

    /// Handles the receiver's answer, triggered by attempt `echo` if known: it acknowledges the
    /// whole message; `None` if that is not in flight.
    pub fn answered(&mut self, message: u64, echo: Option<u8>, now: Instant) -> Option<AckReport> {
        let mut sending = self.sending.remove(message)?;
        self.ready.remove(message);
        sending.bundle.take().into_iter().for_each(|bytes| self.longest.arrived(bytes));
        self.done.push((message, Outcome::Delivered));
        let sent = sending.newly_known(echo.unwrap_or(LAST_ATTEMPT));
        let received = (sending.missing.len() as u32).min(sent);
        let mut report = AckReport { received, lost: sent - received, ..AckReport::default() };
        report.round_trip = echo.and_then(|echo| sending.round_trip(echo, now));
        report.response = echo.and_then(|echo| sending.response(echo, now));
        let attempt = echo.and_then(|echo| sending.asked.get(echo)).copied();
        let ended = attempt.map(|attempt| (attempt, sending.chunk(self.settings.below)));
        self.learn(&mut report, ended, now);
        Some(report)
    }

    /// Adds what an attempt with chunks of this size says of its train, and of what was sent before it.
    fn learn(&mut self, report: &mut AckReport, attempt: Option<(Attempt, usize)>, now: Instant) {
        let Some((attempt, chunk)) = attempt else { return };
        let before = self.overtaken(attempt.asked_at);
        self.delivered.bytes += before.bytes;
        report.train = self.delivered.end(&attempt, chunk, report, now);
        report.known.bytes += before.bytes;
        report.lost += before.count;
    }

    /// What was sent some time before a chunk that has arrived, and has no response, is lost, or its
    /// response is (RFC 8985): the last missing chunk is sent again. A timeout would come later, and
    /// for a message with a short lifetime never.
    fn overtaken(&mut self, arrived: Instant) -> Overtaken {
        let window = self.responses.reordering();
        let mut lost = Overtaken::default();
        if self.asked_from + window > arrived {
            return lost;
        }
        self.asked_from = Instant::NEVER;
        for (message, sending) in self.sending.iter_mut() {
            let counted = sending.asked.len() < usize::from(LAST_ATTEMPT);
            let last = sending.asked.last().filter(|_| counted && sending.ask_at.is_some());
            let Some(asked_at) = last.map(|attempt| attempt.asked_at) else { continue };
            if asked_at + window > arrived {
                self.asked_from = self.asked_from.min(asked_at);
                continue;
            }
            sending.ask_at = None;
            sending.missing.last().into_iter().for_each(|last| sending.train.insert(last));
            self.ready.insert(message, ());
            if sending.known < sending.sent {
                sending.known += 1;
                lost.count += 1;
                lost.bytes += sending.chunk(self.settings.below);
            }
        }
        lost
    }

    /// Updates the timeout and the rate.
    pub fn measured(&mut self, report: &AckReport, now: Instant) {
        self.heard_at = now;
        if let Some(capacity) = &mut self.capacity {
            capacity.resume();
            report.round_trip.into_iter().for_each(|trip| capacity.round_trip(now, trip));
            if report.lost > 0 {
                capacity.lost(now);
            }
            report.train.into_iter().for_each(|train| capacity.train(train, now));
            self.pace.set_rate(capacity.pace());
        }
        if report.response.is_some_and(|response| self.responses.record(response)) {
            // The path carries again: the others need not wait for their doubled timeouts.
            let soon = now + self.responses.timeout(0);
            let doubled = self.sending.values_mut().filter(|sending| sending.tries > 1);
            for ask_at in doubled.filter_map(|sending| sending.ask_at.as_mut()) {
                *ask_at = soon.min(*ask_at);
            }
            self.quiet_until = self.quiet_until.min(soon);
        }
    }
}
