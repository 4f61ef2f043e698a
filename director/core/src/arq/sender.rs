//! The sender of `udp-arq`, to one receiver.

use super::frame::{Datagram, HEADER, LAST_ATTEMPT, MAX_CHUNKS};
use super::sending::{Attempt, Delivered, Sending};
use super::settings::{AckReport, ArqSettings, Outcome, Refused};
use crate::capacity::Capacity;
use crate::pace::{Pace, TICK};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::{Instant, Span};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// The sender, to one receiver.
#[derive(Debug)]
pub struct ArqSender {
    settings: ArqSettings,
    waiting: VecDeque<(u64, Sending)>,
    sending: BTreeMap<u64, Sending>,
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
    /// Smoothed round-trip time and its variation in ns (RFC 6298).
    trip: Option<(f64, f64)>,
    done: Vec<(u64, Outcome)>,
}

/// Weight of the variation in the timeout. RFC 6298 uses 4, to keep retransmissions out of a
/// congested network; here sending is paced, and a timeout first sends one chunk. A test holds the
/// number of frames to 1.25 times the bound at 30 % loss.
const SPREAD: f64 = 3.0;
/// Time after which an answer has waited for others or for the sending rate (decision 101).
const AT_ONCE: Span = Span::from_ms(2);
/// Maximum number of times that a timeout is doubled.
const MAX_DOUBLED: u32 = 5;

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
            trip: None,
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
        self.answer(message, bytes, until, 0)
    }

    /// Queues an answer, triggered by the attempt `echo` of the request.
    ///
    /// # Errors
    /// [`Refused`] if it has too many chunks, or datagrams are too small.
    pub fn answer(
        &mut self,
        message: u64,
        bytes: Vec<u8>,
        until: Option<Instant>,
        echo: u8,
    ) -> Result<(), Refused> {
        let room = self.settings.datagram.saturating_sub(HEADER);
        if room == 0 {
            return Err(Refused::Small(self.settings.datagram));
        }
        let chunks = bytes.len().div_ceil(room).max(1);
        if chunks > MAX_CHUNKS {
            return Err(Refused::Long(bytes.len()));
        }
        let last = (chunks - 1) as u8;
        let missing: Vec<u8> = (0..=last).collect();
        let train = missing.iter().copied().collect();
        let sending = Sending {
            bytes,
            last,
            missing,
            train,
            ask_at: None,
            asked: Vec::new(),
            before: None,
            echo,
            queued_at: None,
            tries: 0,
            sent: 0,
            known: 0,
            until,
        };
        self.waiting.push_back((message, sending));
        self.quiet_until = self.quiet_until.min(until.unwrap_or(Instant::NEVER));
        Ok(())
    }

    /// Acknowledgement timeout after `tries` timeouts.
    fn timeout(&self, tries: u32) -> Span {
        let first = match self.trip {
            // Each end can be late by a tick.
            Some((trip, variation)) => Span::from_ns_f64(trip + SPREAD * variation).max(2 * TICK),
            None => self.settings.timeout,
        };
        // The first timeouts may be random losses: double only from the second on.
        first * (1 << tries.saturating_sub(1).min(MAX_DOUBLED))
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
        let Some(message) = self.ready.first().copied() else { return (None, self.look_again()) };
        let tries = self.sending.get(&message).map_or(0, |sending| sending.tries);
        let timeout = self.timeout(tries.min(MAX_DOUBLED));
        // Does not underflow: without room, `answer` refuses all messages, so none is ready.
        let room = self.settings.datagram - HEADER;
        let alone = self.sending.values().all(|sending| sending.sent == sending.known);
        let before = match alone {
            true => Delivered { at: now, sent_at: now, alone, ..self.delivered },
            false => Delivered { alone, ..self.delivered },
        };
        let Some(sending) = self.sending.get_mut(&message) else { return (None, None) };
        let Some(index) = sending.train.pop_front() else { return (None, None) };
        let begin = usize::from(index) * room;
        let end = (begin + room).min(sending.bytes.len());
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
        let data = sending.bytes.get(begin..end).unwrap_or_default().to_vec();
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
            _ => AckReport::default(),
        }
    }

    /// Handles the chunk bitmap of a receiver, triggered by attempt `echo`; ignores messages
    /// that are not in flight.
    pub fn acknowledged(
        &mut self,
        message: u64,
        (echo, received_chunks): (u8, &[u8]),
        now: Instant,
    ) -> AckReport {
        let Some(sending) = self.sending.get_mut(&message) else { return AckReport::default() };
        let bit = |index: u8| {
            received_chunks
                .get(usize::from(index / 8))
                .is_some_and(|byte| byte & (1 << (index % 8)) != 0)
        };
        // Check all chunks, not only the missing ones: a restarted receiver has none.
        sending.missing = (0..=sending.last).filter(|index| !bit(*index)).collect();
        let mut acknowledged = None;
        let mut report =
            AckReport { round_trip: sending.round_trip(echo, now), ..AckReport::default() };
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
        self.measured(&report, now);
        report
    }

    /// Handles the receiver's answer, triggered by attempt `echo` if known: it acknowledges the
    /// whole message.
    pub fn answered(&mut self, message: u64, echo: Option<u8>, now: Instant) -> AckReport {
        let Some(mut sending) = self.sending.remove(&message) else { return AckReport::default() };
        self.ready.remove(&message);
        self.done.push((message, Outcome::Delivered));
        let sent = sending.newly_known(echo.unwrap_or(LAST_ATTEMPT));
        let received = (sending.missing.len() as u32).min(sent);
        let round_trip = echo.and_then(|echo| sending.round_trip(echo, now));
        let mut report = AckReport { received, lost: sent - received, round_trip, train: None };
        let attempt = echo.and_then(|echo| sending.asked.get(usize::from(echo))).copied();
        let ended = attempt.map(|attempt| (attempt, sending.chunk(self.settings.below)));
        report.train =
            ended.and_then(|(attempt, chunk)| self.delivered.end(&attempt, chunk, &report, now));
        self.measured(&report, now);
        report
    }

    /// Updates the round-trip estimate (RFC 6298, 2), and the rate.
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
        let Some(seen) = report.round_trip.map(Span::as_ns_f64) else { return };
        self.trip = Some(match self.trip {
            Some((trip, variation)) => {
                let off = (trip - seen).abs();
                (0.875 * trip + 0.125 * seen, 0.75 * variation + 0.25 * off)
            }
            None => (seen, seen / 2.0),
        });
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
