//! The sender of `udp-arq`, to one receiver.

use super::frame::{Datagram, HEADER, LAST_ATTEMPT, MAX_CHUNKS};
use crate::Nanos;
use crate::pace::Pace;
use std::collections::{BTreeMap, VecDeque};

/// Pacing and timeout of a sender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArqSettings {
    /// Maximum datagram size, in bytes.
    pub datagram: usize,
    /// Header bytes on the wire below a datagram, for pacing.
    pub below: usize,
    /// Maximum sending rate, in bit/s.
    pub rate_bit_s: f64,
    /// Initial acknowledgement timeout in ns; replaced by an estimate after the first round-trip
    /// sample.
    pub timeout: Nanos,
    /// Maximum number of messages in flight; others are queued.
    pub most: usize,
}

impl Default for ArqSettings {
    fn default() -> Self {
        Self { datagram: 1_200, below: 42, rate_bit_s: 10e6, timeout: 200_000_000, most: 32 }
    }
}

/// Final state of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has acknowledged or answered it.
    Delivered,
    /// Its lifetime ended before.
    Expired,
}

/// Why a message is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It has too many chunks for the format.
    #[error("message of {0} bytes is too long for datagrams of this size")]
    Long(usize),
    /// Datagrams cannot hold a chunk.
    #[error("datagrams of {0} bytes have no room for data")]
    Small(usize),
}

/// What the sender learns from an acknowledgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AckReport {
    /// Received chunks of the last train.
    pub received: u32,
    /// Lost chunks of it.
    pub lost: u32,
    /// Round-trip time in ns, if known.
    pub round_trip: Option<Nanos>,
}

#[derive(Debug)]
struct Sending {
    bytes: Vec<u8>,
    /// Index of the last chunk.
    last: u8,
    /// Unacknowledged chunks.
    missing: Vec<u8>,
    /// Remaining chunks of the current train.
    train: VecDeque<u8>,
    /// Retransmission timeout; `None` while the train is being sent.
    ask_at: Option<Nanos>,
    /// Per attempt: sending time of its last chunk, and chunks sent until then.
    asked: Vec<(Nanos, u32)>,
    /// The attempt of the request that this answer belongs to.
    echo: u8,
    /// Consecutive timeouts.
    tries: u32,
    /// Number of chunks sent, and number of those that are known as received or lost.
    sent: u32,
    known: u32,
    until: Option<Nanos>,
}

/// The sender, to one receiver.
#[derive(Debug)]
pub struct ArqSender {
    settings: ArqSettings,
    waiting: VecDeque<(u64, Sending)>,
    sending: BTreeMap<u64, Sending>,
    pace: Pace,
    /// Smoothed round-trip time and its variation in ns (RFC 6298).
    trip: Option<(f64, f64)>,
    done: Vec<(u64, Outcome)>,
}

/// Weight of the variation in the timeout. RFC 6298 uses 4, to keep retransmissions out of a
/// congested network; here sending is paced, and a timeout first sends one chunk.
const SPREAD: f64 = 3.0;
/// Maximum number of times that a timeout is doubled.
const MAX_DOUBLED: u32 = 5;

impl Sending {
    /// Round-trip time of the attempt that triggered a reply; `None` beyond the counted attempts.
    /// Because a reply names its attempt, retransmitted messages give samples as well, which Karn
    /// and Partridge's rule excludes.
    fn round_trip(&self, echo: u8, now: Nanos) -> Option<Nanos> {
        self.asked.get(usize::from(echo)).map(|(at, _)| now.saturating_sub(*at))
    }

    /// Number of chunks whose fate becomes known by a reply to this attempt; chunks sent after it
    /// may still arrive.
    fn newly_known(&mut self, echo: u8) -> u32 {
        let sent = self.asked.get(usize::from(echo)).map_or(self.sent, |(_, sent)| *sent);
        let known = self.known;
        self.known = known.max(sent);
        sent.saturating_sub(known)
    }
}

impl ArqSender {
    /// An idle sender.
    pub fn new(settings: ArqSettings) -> Self {
        Self {
            pace: Pace::new(settings.rate_bit_s, settings.below),
            settings,
            waiting: VecDeque::new(),
            sending: BTreeMap::new(),
            trip: None,
            done: Vec::new(),
        }
    }

    /// Queues a message; it expires at `until`, if given.
    ///
    /// # Errors
    /// [`Refused`] if it has too many chunks, or datagrams are too small.
    pub fn send(
        &mut self,
        message: u64,
        bytes: Vec<u8>,
        until: Option<Nanos>,
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
        until: Option<Nanos>,
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
            echo,
            tries: 0,
            sent: 0,
            known: 0,
            until,
        };
        self.waiting.push_back((message, sending));
        Ok(())
    }

    /// Acknowledgement timeout after `tries` timeouts.
    fn timeout(&self, tries: u32) -> Nanos {
        let first = match self.trip {
            Some((trip, variation)) => (trip + SPREAD * variation).max(1e6) as Nanos,
            None => self.settings.timeout,
        };
        // The first timeouts may be random losses: double only from the second on.
        first.saturating_mul(1 << tries.saturating_sub(1).min(MAX_DOUBLED))
    }

    /// The next datagram at `now`, if one may be sent, and the time of the next poll, if any.
    pub fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        self.expire(now);
        while self.sending.len() < self.settings.most.max(1) {
            let Some((message, sending)) = self.waiting.pop_front() else { break };
            self.sending.insert(message, sending);
        }
        // On a timeout, send the last missing chunk, then more with each further timeout: loss
        // bursts end after a number of frames, not after a time.
        for sending in self.sending.values_mut() {
            if sending.ask_at.is_some_and(|at| at <= now) {
                sending.ask_at = None;
                sending.tries += 1;
                let most = 1 << (sending.tries - 1).min(MAX_DOUBLED);
                let first = sending.missing.len().saturating_sub(most);
                sending.train.extend(&sending.missing[first..]);
            }
        }
        if now < self.pace.next_at() {
            return (None, Some(self.pace.next_at()));
        }
        let timeout: Vec<Nanos> = (0..=MAX_DOUBLED).map(|tries| self.timeout(tries)).collect();
        let room = self.settings.datagram - HEADER;
        let ready = self.sending.iter_mut().find(|(_, sending)| !sending.train.is_empty());
        let Some((message, sending)) = ready else { return (None, self.look_again()) };
        let Some(index) = sending.train.pop_front() else { return (None, None) };
        let begin = usize::from(index) * room;
        let end = (begin + room).min(sending.bytes.len());
        let asks = sending.train.is_empty();
        sending.sent += 1;
        let attempt = (sending.asked.len() as u8).min(LAST_ATTEMPT);
        if asks {
            let tries = sending.tries.min(MAX_DOUBLED) as usize;
            sending.ask_at = Some(now.saturating_add(timeout[tries]));
            if sending.asked.len() < usize::from(LAST_ATTEMPT) {
                sending.asked.push((now, sending.sent));
            }
        }
        let data = sending.bytes.get(begin..end).unwrap_or_default().to_vec();
        let (message, last, echo) = (*message, sending.last, sending.echo);
        let chunk = Datagram::Chunk { message, index, last, asks, attempt, echo, data };
        let bytes = chunk.encode();
        self.pace.sent(bytes.len(), now);
        (Some(bytes), Some(self.pace.next_at()))
    }

    fn look_again(&self) -> Option<Nanos> {
        let sending = self.sending.values();
        sending.flat_map(|sending| [sending.ask_at, sending.until]).flatten().min()
    }

    /// Drops messages whose lifetime is over.
    fn expire(&mut self, now: Nanos) {
        let over = |sending: &Sending| sending.until.is_some_and(|until| until <= now);
        let done = &mut self.done;
        self.sending.retain(|message, sending| {
            let over = over(sending);
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
    pub fn handle_ack(&mut self, bytes: &[u8], now: Nanos) -> AckReport {
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
        now: Nanos,
    ) -> AckReport {
        let Some(sending) = self.sending.get_mut(&message) else { return AckReport::default() };
        let bit = |index: u8| {
            received_chunks
                .get(usize::from(index / 8))
                .is_some_and(|byte| byte & (1 << (index % 8)) != 0)
        };
        // Check all chunks, not only the missing ones: a restarted receiver has none.
        sending.missing = (0..=sending.last).filter(|index| !bit(*index)).collect();
        let mut report =
            AckReport { round_trip: sending.round_trip(echo, now), ..AckReport::default() };
        if sending.train.is_empty() {
            let (missing, sent) = (sending.missing.len() as u32, sending.newly_known(echo));
            report.lost = missing.min(sent);
            report.received = sent - report.lost;
        }
        if sending.missing.is_empty() {
            self.sending.remove(&message);
            self.done.push((message, Outcome::Delivered));
        } else if sending.train.is_empty() {
            // An acknowledgement during a train does not cover all of it.
            sending.train.extend(sending.missing.iter());
            sending.ask_at = None;
            sending.tries = 0;
        }
        self.measured(report.round_trip);
        report
    }

    /// Handles the receiver's answer, triggered by attempt `echo` if known: it acknowledges the
    /// whole message.
    pub fn answered(&mut self, message: u64, echo: Option<u8>, now: Nanos) -> AckReport {
        let Some(mut sending) = self.sending.remove(&message) else { return AckReport::default() };
        self.done.push((message, Outcome::Delivered));
        let sent = sending.newly_known(echo.unwrap_or(LAST_ATTEMPT));
        let received = (sending.missing.len() as u32).min(sent);
        let round_trip = echo.and_then(|echo| sending.round_trip(echo, now));
        self.measured(round_trip);
        AckReport { received, lost: sent - received, round_trip }
    }

    /// Updates the round-trip estimate (RFC 6298, 2).
    fn measured(&mut self, round_trip: Option<Nanos>) {
        let Some(seen) = round_trip.map(|ns| ns as f64) else { return };
        self.trip = Some(match self.trip {
            Some((trip, variation)) => {
                let off = (trip - seen).abs();
                (0.875 * trip + 0.125 * seen, 0.75 * variation + 0.25 * off)
            }
            None => (seen, seen / 2.0),
        });
    }

    /// Drops all messages.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.sending.clear();
    }

    /// Final states of messages since the last call.
    pub fn take_done(&mut self) -> Vec<(u64, Outcome)> {
        std::mem::take(&mut self.done)
    }

    /// Whether nothing is in flight or queued.
    pub fn is_idle(&self) -> bool {
        self.sending.is_empty() && self.waiting.is_empty()
    }
}
