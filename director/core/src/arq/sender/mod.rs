//! The sender of `udp-arq`, to one receiver.

mod acks;
mod timers;

use super::frame::{ChunkHead, HEADER, LAST_ATTEMPT, MAX_CHUNKS};
use super::sending::{Attempt, Delivered, Payload, Sending};
use super::settings::{ArqSettings, MAX_FLIGHT, Outcome, Refused, Request, SHORT};
use super::timeout::{MAX_DOUBLED, Responses};
use crate::bundle::{Bundle, LENGTH, Longest};
use crate::capacity::Capacity;
use crate::message_map::MessageMap;
use crate::pace::{Pace, TICK};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::turn::first_in_time;
use crate::{Instant, Span};
use alloc::collections::VecDeque;
use alloc::vec::Drain;

/// The sender, to one receiver.
#[derive(Debug)]
pub struct ArqSender {
    settings: ArqSettings,
    waiting: VecDeque<(u64, Box<Sending>)>,
    sending: MessageMap<Box<Sending>>,
    /// Messages among them with chunks to send now.
    ready: MessageMap<()>,
    /// No message that waits for a response was last sent before.
    asked_from: Instant,
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
    longest: Longest,
    /// The last message in the bundle that is being made.
    bundled: Option<u64>,
    done: Vec<(u64, Outcome)>,
}

/// Time from the arrival of a request after which its answer was held here: by the application, by
/// other answers or by the sending rate (decision 101).
const AT_ONCE: Span = Span::from_ms(2);
/// Consecutive timeouts after which a message goes alone: the path may not carry datagrams of a
/// bundle's size.
const ALONE_FROM: u32 = 2;
/// A message whose lifetime ends before this many quarters of the timeout likely expires on its way. More than
/// four, so that a path which has become slower is noticed by the timeout.
const MARGIN: u64 = 5;

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
            sending: MessageMap::default(),
            ready: MessageMap::default(),
            asked_from: Instant::NEVER,
            quiet_until: Instant::NEVER,
            responses: Responses::new(settings.timeout, settings.at_first),
            longest: Longest::default(),
            bundled: None,
            done: Vec::new(),
        }
    }

    /// Sets the maximum size of datagrams, in bytes, for messages from now on.
    pub fn set_datagram(&mut self, datagram: usize) {
        self.settings.datagram = datagram;
    }

    /// Sets the sending rate, in bit/s.
    pub fn pace(&mut self, rate_bit_s: f64) {
        self.pace.set_rate(rate_bit_s);
    }

    /// Sending time of the last chunk that was not acknowledged in time, since the last call, if losses
    /// do not explain it.
    pub fn take_timeout(&mut self) -> Option<Instant> {
        self.late.take()
    }

    /// Smoothed time until a response; `None` before the first.
    pub fn response_time(&self) -> Option<Span> {
        self.responses.mean()
    }

    /// The measured sending rate in bit/s, if the sender adapts.
    pub fn rate(&self) -> Option<f64> {
        self.capacity.as_ref().map(Capacity::pace)
    }

    /// Maximum size of a message, in bytes.
    pub fn longest(&self) -> usize {
        MAX_CHUNKS * self.settings.datagram.saturating_sub(HEADER)
    }

    /// Queues a message; it expires at `until`, if given.
    ///
    /// # Errors
    /// [`Refused`] if it has too many chunks, or datagrams are too small.
    pub fn send(
        &mut self,
        message: u64,
        bytes: impl Into<Payload>,
        until: Option<Instant>,
    ) -> Result<(), Refused> {
        let bytes = bytes.into();
        let room = self.settings.datagram.saturating_sub(HEADER);
        if room == 0 {
            return Err(Refused::Small(self.settings.datagram));
        }
        let length = bytes.len();
        let long = Refused::Long(length, self.longest());
        let sending = Sending::new(bytes, room, until).ok_or(long)?;
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
        bytes: impl Into<Payload>,
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
        let message = match self.next_message(now) {
            Ok(message) => message,
            Err(wake) => return (None, wake),
        };
        let Some((chunk, data)) = self.next_chunk(message, now) else { return (None, None) };
        let mut bytes = Vec::with_capacity(HEADER + data.len());
        chunk.write(data, &mut bytes);
        self.pace.sent(bytes.len(), now);
        (Some(bytes), Some(self.pace.next_at()))
    }

    /// An empty bundle for the path, of at most `limit` bytes.
    pub fn bundle(&mut self, limit: usize, now: Instant) -> Bundle {
        self.bundled = None;
        Bundle::new(self.longest.limit(limit, now))
    }

    /// A bundle is sent.
    pub fn bundle_sent(&mut self, bundle: &Bundle) {
        if let Some(message) = self.bundled.take()
            && let Some(sending) = self.sending.get_mut(message)
        {
            sending.bundle = bundle.shared();
        }
    }

    /// Adds what may be sent at `now` to a bundle, and returns the time of the next poll, if any. Small
    /// messages that are ready share a datagram if the rate allows them now, or if it takes no longer
    /// on air than a timer's tick.
    pub fn fill(&mut self, bundle: &mut Bundle, now: Instant) -> Option<Instant> {
        let message = match self.next_message(now) {
            Ok(message) => message,
            Err(wake) => return wake,
        };
        let fits = self.next_length(message).filter(|length| bundle.with(*length).is_some());
        // The next datagram is for it.
        let (Some(length), true) = (fits, bundle.is_empty() || self.may_join(message)) else {
            return Some(now);
        };
        let shares = self.may_join(message);
        let more = if shares { self.ready.len() + self.waiting.len() } else { 1 };
        bundle.reserve(more, length);
        let (chunk, data) = self.next_chunk(message, now)?;
        bundle.push(length, |bytes| chunk.write(data, bytes));
        self.bundled = Some(message);
        self.pace.sent(length, now);
        self.admit(now);
        if !shares {
            bundle.close();
        }
        while shares
            && let Some(message) =
                self.ready.first().map(|(next, ())| next).filter(|next| self.may_join(*next))
            && let Some(length) = self.next_length(message)
            && let Some(whole) = bundle.with(length)
            && (self.pace.next_at() <= now || self.pace.airtime(whole) <= TICK)
            && let Some((chunk, data)) = self.next_chunk(message, now)
        {
            bundle.push(length, |bytes| chunk.write(data, bytes));
            self.bundled = Some(message);
            if let Some(sending) = self.sending.get_mut(message) {
                sending.joined += 1;
            }
            self.pace.joined(LENGTH + length);
            self.admit(now);
        }
        Some(self.pace.next_at())
    }

    /// The message whose chunk may be sent at `now`, or the time of the next poll, if any.
    fn next_message(&mut self, now: Instant) -> Result<u64, Option<Instant>> {
        if now >= self.quiet_until {
            // In this order: what has expired must not be sent again.
            self.expire(now);
            self.time_out(now);
            let waiting = self.waiting.iter().filter_map(|(_, sending)| sending.until);
            self.quiet_until = waiting.chain(self.look_again()).min().unwrap_or(Instant::NEVER);
        }
        self.admit(now);
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
            return Err(Some(self.pace.next_at()));
        }
        // It may be too early: nothing is due then, and the time is found anew.
        let wake = Some(self.quiet_until).filter(|at| *at < Instant::NEVER && !self.is_idle());
        self.ready.first().map(|(next, ())| next).ok_or(wake)
    }

    /// Makes the next message ready, if none is. Others wait: a receiver keeps a limited number of
    /// incomplete messages, and what waits longer than its lifetime allows is not begun as long as
    /// another one can still arrive in time.
    fn admit(&mut self, now: Instant) {
        if !self.ready.is_empty() || self.is_full() {
            return;
        }
        let needed = now + self.responses.timeout(0) * MARGIN / 4;
        let ends = self.waiting.iter().map(|(_, sending)| sending.until);
        if let Some(next) = first_in_time(ends, needed)
            && let Some((message, mut sending)) = self.waiting.remove(next)
        {
            sending.queued_at.get_or_insert(now);
            self.sending.insert(message, sending);
            self.ready.insert(message, ());
        }
    }

    /// Whether no more messages may be in flight.
    fn is_full(&self) -> bool {
        let (count, most) = (self.sending.len(), self.settings.most.max(1));
        let bytes = self.sending.values().map(|sending| sending.bytes.len()).sum::<usize>();
        count >= 4 * most || count >= most && bytes >= SHORT || bytes >= MAX_FLIGHT
    }

    /// Whether a message may share a datagram with others.
    fn may_join(&self, message: u64) -> bool {
        self.sending.get(message).is_some_and(|sending| sending.tries < ALONE_FROM)
    }

    /// Length of the next chunk of a message, in bytes.
    fn next_length(&self, message: u64) -> Option<usize> {
        let sending = self.sending.get(message)?;
        let data = sending.data(sending.train.first()?);
        Some(HEADER + data.len())
    }

    /// The next chunk of a message, which is sent now, and its data.
    fn next_chunk(&mut self, message: u64, now: Instant) -> Option<(ChunkHead, &[u8])> {
        let alone = self.sending.values().all(|sending| sending.sent == sending.known);
        let before = match alone {
            true => Delivered { at: now, sent_at: now, alone, ..self.delivered },
            false => Delivered { alone, ..self.delivered },
        };
        let sending = self.sending.get_mut(message)?;
        let index = sending.train.pop_first()?;
        let asks = sending.train.is_empty();
        if asks {
            self.ready.remove(message);
        }
        // An answer that waited here gives no round-trip sample.
        if sending.queued_at.is_some_and(|at| now > at + AT_ONCE) {
            sending.echo = LAST_ATTEMPT;
        }
        sending.sent += 1;
        let attempt = (sending.asked.len() as u8).min(LAST_ATTEMPT);
        // Of the train's first chunk: its delivery rate counts from there, as in BBR.
        let before = sending.before.take().unwrap_or(before);
        sending.before = Some(before).filter(|_| !asks);
        if asks {
            let at = now + self.responses.timeout(sending.tries.min(MAX_DOUBLED));
            sending.ask_at = Some(at);
            self.quiet_until = self.quiet_until.min(at);
            if sending.asked.len() < usize::from(LAST_ATTEMPT) {
                self.asked_from = self.asked_from.min(now);
                sending.asked.push(Attempt { asked_at: now, before, sent: sending.sent });
            }
        }
        let (last, echo) = (sending.last, sending.echo);
        let chunk = ChunkHead { message, index, last, asks, attempt, echo };
        Some((chunk, sending.data(index)))
    }

    /// Whether a chunk of each message was sent: others can go first until then.
    pub fn is_begun(&self) -> bool {
        self.waiting.is_empty() && self.sending.values().all(|sending| sending.sent > 0)
    }

    /// Whether a chunk of a message was sent that is not acknowledged.
    pub fn has_begun(&self, message: u64) -> bool {
        self.sending.get(message).is_some_and(|sending| sending.sent > 0)
    }

    /// Whether a message is in flight or queued.
    pub fn has(&self, message: u64) -> bool {
        self.sending.contains(message) || self.waiting.iter().any(|(own, _)| *own == message)
    }

    /// Drops a message; returns whether a chunk of it was sent.
    pub fn withdraw(&mut self, message: u64) -> bool {
        let waiting = self.waiting.len();
        self.waiting.retain(|(own, _)| *own != message);
        let queued = self.waiting.len() < waiting;
        self.ready.remove(message);
        self.sending.remove(message).map_or(!queued, |sending| sending.sent > 0)
    }

    /// Drops all messages.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.sending.clear();
        self.ready.clear();
    }

    /// Final states of messages since the last call.
    pub fn take_done(&mut self) -> Drain<'_, (u64, Outcome)> {
        self.done.drain(..)
    }

    /// Whether nothing is in flight or queued.
    pub fn is_idle(&self) -> bool {
        self.sending.is_empty() && self.waiting.is_empty()
    }
}
