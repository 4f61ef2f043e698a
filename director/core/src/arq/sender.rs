//! The sender of `udp-arq`, to one receiver.

use super::frame::{Complete, Datagram, Echo, HEADER, LAST_ATTEMPT};
use super::sending::{Attempt, Delivered, Sending};
use super::settings::{AckReport, ArqSettings, Outcome, Refused, Request};
use super::timeout::{MAX_DOUBLED, Responses};
use crate::capacity::Capacity;
use crate::pace::Pace;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::{Instant, Span};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// The sender, to one receiver.
#[derive(Debug)]
pub struct ArqSender {
    settings: ArqSettings,
    waiting: VecDeque<(u64, Box<Sending>)>,
    /// Apart from the map, whose entries move when others come and go.
    sending: BTreeMap<u64, Box<Sending>>,
    /// Messages among them with chunks to send now.
    ready: BTreeSet<u64>,
    /// No message expires or times out before.
    quiet_until: Instant,
    pace: Pace,
    capacity: Option<Capacity>,
    delivered: Delivered,
    /// Sending time of a chunk that was not acknowledged in time.
    late: Option<Instant>,
    /// Time of the last acknowledgement.
    heard_at: Instant,
    responses: Responses,
    done: Vec<(u64, Outcome)>,
}

/// Time from the arrival of a request after which its answer was held here: by the application, by
/// other answers or by the sending rate (decision 101).
const AT_ONCE: Span = Span::from_ms(2);

impl ArqSender {
    /// An idle sender.
    pub fn new(settings: ArqSettings) -> Self {
        Self {
            pace: Pace::new(settings.rate_bit_s, settings.below).with_burst(settings.burst),
            delivered: Delivered::default(),
            late: None,
            heard_at: Instant::START,
            capacity: settings.adapts.then(|| {
                let configured = Some(settings.rate_bit_s).filter(|_| !settings.estimated);
                let packet = (settings.datagram + settings.below) as f64;
                Capacity::new(configured, Some(settings.timeout / 2), packet)
            }),
            settings,
            waiting: VecDeque::new(),
            sending: BTreeMap::new(),
            ready: BTreeSet::new(),
            quiet_until: Instant::NEVER,
            responses: Responses::new(settings.timeout),
            done: Vec::new(),
        }
    }

    /// Sets the sending rate, in bit/s.
    pub fn pace(&mut self, rate_bit_s: f64) {
        self.pace.set_rate(rate_bit_s);
    }

    /// Sending time of the last chunk that was not acknowledged in time, since the last call.
    pub fn take_timeout(&mut self) -> Option<Instant> {
        self.late.take()
    }

    /// The measured sending rate in bit/s, if the sender adapts.
    pub fn rate(&self) -> Option<f64> {
        self.capacity.as_ref().map(Capacity::pace)
    }

    /// Queues a message; it expires at `until`, if given.
    ///
    /// # Errors
    /// [`Refused`] if it has too many chunks, or datagrams are too small.
    pub fn send(
        &mut self,
        message: u64,
        bytes: Vec<u8>,
        until: Option<Instant>,
    ) -> Result<(), Refused> {
        let room = self.settings.datagram.saturating_sub(HEADER);
        if room == 0 {
            return Err(Refused::Small(self.settings.datagram));
        }
        let length = bytes.len();
        let sending = Sending::new(bytes, room, until).ok_or(Refused::Long(length))?;
        self.waiting.push_back((message, Box::new(sending)));
        self.quiet_until = self.quiet_until.min(until.unwrap_or(Instant::NEVER));
        Ok(())
    }

    /// Queues an answer to a request, if it is known which attempt has arrived.
    ///
    /// # Errors
    /// [`Refused`] if it has too many chunks, or datagrams are too small.
    pub fn answer(
        &mut self,
        message: u64,
        bytes: Vec<u8>,
        until: Option<Instant>,
        request: Option<Request>,
    ) -> Result<(), Refused> {
        self.send(message, bytes, until)?;
        if let Some((_, sending)) = self.waiting.back_mut() {
            sending.echo = request.map_or(LAST_ATTEMPT, |request| request.attempt);
            sending.queued_at = request.map(|request| request.at);
        }
        Ok(())
    }

    /// The next datagram at `now`, if one may be sent, and the time of the next poll, if any.
    pub fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        if now >= self.quiet_until {
            // In this order: what has expired must not be sent again.
            self.expire(now);
            self.time_out(now);
            let waiting = self.waiting.iter().filter_map(|(_, sending)| sending.until);
            self.quiet_until = waiting.chain(self.look_again()).min().unwrap_or(Instant::NEVER);
        }
        // Others wait: a receiver keeps a limited number of incomplete messages.
        while self.sending.len() < self.settings.most.max(1) {
            let Some((message, mut sending)) = self.waiting.pop_front() else { break };
            sending.queued_at.get_or_insert(now);
            self.sending.insert(message, sending);
            self.ready.insert(message);
        }
        // New ones are last. Those that wait from here on give no round-trip sample with their
        // answer.
        let new = self.waiting.iter_mut().rev();
        for (_, sending) in new.take_while(|(_, sending)| sending.queued_at.is_none()) {
            sending.queued_at = Some(now);
        }
        if let Some(capacity) = &mut self.capacity
            && self.late.take().is_some_and(|sent_at| self.heard_at <= sent_at)
        {
            capacity.timeout(now);
            self.pace.set_rate(capacity.pace());
        }
        if now < self.pace.next_at() {
            return (None, Some(self.pace.next_at()));
        }
        let Some(message) = self.ready.first().copied() else {
            // It may be too early: nothing is due then, and the time is found anew.
            return (
                None,
                Some(self.quiet_until).filter(|at| *at < Instant::NEVER && !self.is_idle()),
            );
        };
        let tries = self.sending.get(&message).map_or(0, |sending| sending.tries);
        let timeout = self.responses.timeout(tries.min(MAX_DOUBLED));
        // Does not underflow: without room, `answer` refuses all messages, so none is ready.
        let room = self.settings.datagram - HEADER;
        let alone = self.sending.values().all(|sending| sending.sent == sending.known);
        let before = match alone {
            true => Delivered { at: now, sent_at: now, alone, ..self.delivered },
            false => Delivered { alone, ..self.delivered },
        };
        let Some(sending) = self.sending.get_mut(&message) else { return (None, None) };
        let Some(index) = sending.train.pop_front() else { return (None, None) };
        let asks = sending.train.is_empty();
        if asks {
            self.ready.remove(&message);
        }
        // An answer that waited here gives no round-trip sample.
        if sending.queued_at.is_some_and(|at| now > at + AT_ONCE) {
            sending.echo = LAST_ATTEMPT;
        }
        sending.sent += 1;
        let attempt = (sending.asked.len() as u8).min(LAST_ATTEMPT);
        let data = sending.data(index, room);
        // Of the train's first chunk: its delivery rate counts from there, as in BBR.
        let before = sending.before.take().unwrap_or(before);
        sending.before = Some(before).filter(|_| !asks);
        if asks {
            let at = now + timeout;
            sending.ask_at = Some(at);
            self.quiet_until = self.quiet_until.min(at);
            if sending.asked.len() < usize::from(LAST_ATTEMPT) {
                sending.asked.push(Attempt { asked_at: now, before, sent: sending.sent });
            }
        }
        let (last, echo) = (sending.last, sending.echo);
        let chunk = Datagram::Chunk { message, index, last, asks, attempt, echo, data };
        let bytes = chunk.encode();
        self.pace.sent(bytes.len(), now);
        (Some(bytes), Some(self.pace.next_at()))
    }

    /// On a timeout, sends the last missing chunk, then more with each further timeout: loss bursts
    /// end after a number of frames, not after a time.
    fn time_out(&mut self, now: Instant) {
        for (message, sending) in &mut self.sending {
            if sending.ask_at.is_some_and(|at| at <= now) {
                // The timeout of the next attempt begins when its last chunk is sent.
                sending.ask_at = None;
                sending.tries += 1;
                self.late = sending.asked.last().map(|attempt| attempt.asked_at).or(self.late);
                let most = 1 << (sending.tries - 1).min(MAX_DOUBLED);
                let first = sending.missing.len().saturating_sub(most);
                sending.train.extend(&sending.missing[first..]);
                self.ready.insert(*message);
            }
        }
    }

    fn look_again(&self) -> Option<Instant> {
        let sending = self.sending.values();
        sending.flat_map(|sending| [sending.ask_at, sending.until]).flatten().min()
    }

    /// Drops messages whose lifetime is over.
    fn expire(&mut self, now: Instant) {
        let over = |sending: &Sending| sending.until.is_some_and(|until| until <= now);
        let (done, ready) = (&mut self.done, &mut self.ready);
        self.sending.retain(|message, sending| {
            let over = over(sending);
            if over {
                ready.remove(message);
            }
            done.extend(over.then_some((*message, Outcome::Expired)));
            !over
        });
        self.waiting.retain(|(message, sending)| {
            let over = over(sending);
            done.extend(over.then_some((*message, Outcome::Expired)));
            !over
        });
    }

    /// Handles a datagram if it is an acknowledgement; returns what it tells about the path.
    pub fn handle_ack(&mut self, bytes: &[u8], now: Instant) -> AckReport {
        match Datagram::decode(bytes) {
            Some(Datagram::Acknowledge { message, echo, received_chunks }) => {
                self.acknowledged(message, (echo, &received_chunks), now)
            }
            Some(Datagram::Complete(messages)) => {
                let mut report = AckReport::default();
                let known = messages.iter().filter_map(|Complete { message, echo }| {
                    self.update(*message, *echo, |_| true, now)
                });
                if known.map(|one| report.add(&one)).count() > 0 {
                    self.measured(&report, now);
                }
                report
            }
            _ => AckReport::default(),
        }
    }

    /// Handles the chunk bitmap of a receiver and what triggered it; ignores messages that are not in
    /// flight.
    pub fn acknowledged(
        &mut self,
        message: u64,
        (echo, received_chunks): (Echo, &[u8]),
        now: Instant,
    ) -> AckReport {
        let bit = |index: u8| {
            received_chunks
                .get(usize::from(index / 8))
                .is_some_and(|byte| byte & (1 << (index % 8)) != 0)
        };
        let Some(report) = self.update(message, echo, bit, now) else {
            return AckReport::default();
        };
        self.measured(&report, now);
        report
    }

    /// The receiver has these chunks of a message; `None` if the message is not in flight.
    fn update(
        &mut self,
        message: u64,
        Echo { attempt: echo, held }: Echo,
        has: impl Fn(u8) -> bool,
        now: Instant,
    ) -> Option<AckReport> {
        let sending = self.sending.get_mut(&message)?;
        // Check all chunks, not only the missing ones: a restarted receiver has none.
        sending.missing = (0..=sending.last).filter(|index| !has(*index)).collect();
        let mut acknowledged = None;
        let response = sending.response(echo, now);
        let round_trip = sending.round_trip(echo, now).filter(|_| !held);
        let mut report = AckReport { round_trip, response, ..AckReport::default() };
        if sending.train.is_empty() {
            let (missing, sent) = (sending.missing.len() as u32, sending.newly_known(echo));
            report.lost = missing.min(sent);
            report.received = sent - report.lost;
            let attempt = sending.asked.get(usize::from(echo)).copied();
            acknowledged = attempt.map(|attempt| (attempt, sending.chunk(self.settings.below)));
        }
        if sending.missing.is_empty() {
            self.sending.remove(&message);
            self.ready.remove(&message);
            self.done.push((message, Outcome::Delivered));
        } else if sending.train.is_empty() {
            // An acknowledgement during a train does not cover all of it.
            sending.train.extend(sending.missing.iter());
            self.ready.insert(message);
            sending.ask_at = None;
            sending.tries = 0;
        }
        report.train = acknowledged
            .and_then(|(attempt, chunk)| self.delivered.end(&attempt, chunk, &report, now));
        Some(report)
    }

    /// Handles the receiver's answer, triggered by attempt `echo` if known: it acknowledges the
    /// whole message.
    pub fn answered(&mut self, message: u64, echo: Option<u8>, now: Instant) -> AckReport {
        let Some(mut sending) = self.sending.remove(&message) else { return AckReport::default() };
        self.ready.remove(&message);
        self.done.push((message, Outcome::Delivered));
        let sent = sending.newly_known(echo.unwrap_or(LAST_ATTEMPT));
        let received = (sending.missing.len() as u32).min(sent);
        let mut report = AckReport { received, lost: sent - received, ..AckReport::default() };
        report.round_trip = echo.and_then(|echo| sending.round_trip(echo, now));
        report.response = echo.and_then(|echo| sending.response(echo, now));
        let attempt = echo.and_then(|echo| sending.asked.get(usize::from(echo))).copied();
        let ended = attempt.map(|attempt| (attempt, sending.chunk(self.settings.below)));
        report.train =
            ended.and_then(|(attempt, chunk)| self.delivered.end(&attempt, chunk, &report, now));
        self.measured(&report, now);
        report
    }

    /// Updates the timeout and the rate.
    fn measured(&mut self, report: &AckReport, now: Instant) {
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
        report.response.into_iter().for_each(|time| self.responses.record(time));
    }

    /// Whether a chunk of each message was sent: others can go first until then.
    pub fn is_begun(&self) -> bool {
        self.waiting.is_empty() && self.sending.values().all(|sending| sending.sent > 0)
    }

    /// Whether a message is in flight or queued.
    pub fn has(&self, message: u64) -> bool {
        self.sending.contains_key(&message) || self.waiting.iter().any(|(own, _)| *own == message)
    }

    /// Drops a message; returns whether a chunk of it was sent.
    pub fn withdraw(&mut self, message: u64) -> bool {
        let waiting = self.waiting.len();
        self.waiting.retain(|(own, _)| *own != message);
        let queued = self.waiting.len() < waiting;
        self.ready.remove(&message);
        self.sending.remove(&message).map_or(!queued, |sending| sending.sent > 0)
    }

    /// Drops all messages.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.sending.clear();
        self.ready.clear();
    }

    /// Final states of messages since the last call.
    pub fn take_done(&mut self) -> Vec<(u64, Outcome)> {
        core::mem::take(&mut self.done)
    }

    /// Whether nothing is in flight or queued.
    pub fn is_idle(&self) -> bool {
        self.sending.is_empty() && self.waiting.is_empty()
    }
}
