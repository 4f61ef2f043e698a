//! The sending side of `udp-arq`, to one receiver.

use super::frame::{Datagram, HEADER, LAST_ATTEMPT, MOST_CHUNKS};
use crate::Nanos;
use crate::pace::Pace;
use std::collections::{BTreeMap, VecDeque};

/// How a sender paces itself and waits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArqSettings {
    /// Bytes of a datagram at most.
    pub datagram: usize,
    /// Bytes on the wire that go with a datagram: headers below, for the pacing.
    pub below: usize,
    /// What is sent a second at most, in bit/s.
    pub rate_bit_s: f64,
    /// How long an acknowledgement is waited for at first, in ns; round trips that are seen
    /// take its place.
    pub patience: Nanos,
    /// Messages under way at once; others wait.
    pub most: usize,
}

impl Default for ArqSettings {
    fn default() -> Self {
        Self { datagram: 1_200, below: 42, rate_bit_s: 10e6, patience: 200_000_000, most: 32 }
    }
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has all of it.
    Delivered,
    /// Its lifetime was over before.
    Expired,
}

/// Why a message is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It has more chunks than the format can number.
    #[error("a message of {0} bytes is too long for datagrams of this size")]
    Long(usize),
    /// Datagrams are too small for a chunk.
    #[error("datagrams of {0} bytes have no room for data")]
    Small(usize),
}

/// What an acknowledgement tells of the way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heard {
    /// Chunks of the last train that came.
    pub came: u32,
    /// Chunks of it that did not.
    pub lost: u32,
    /// The round trip in ns, where it can be told.
    pub round_trip: Option<Nanos>,
}

#[derive(Debug)]
struct Sending {
    bytes: Vec<u8>,
    /// The place of the last chunk.
    last: u8,
    /// Chunks that the receiver has not said that it has.
    missing: Vec<u8>,
    /// What of the present train is still to be sent.
    train: VecDeque<u8>,
    /// When to ask again; none while the train is being sent.
    ask_at: Option<Nanos>,
    /// When the last chunk of each attempt went, and how many had gone with it.
    asked: Vec<(Nanos, u32)>,
    /// The attempt at what this answers that it is due to.
    echo: u8,
    /// How often it was asked in vain.
    tries: u32,
    /// Chunks sent, and those of which it was heard or concluded what became of them.
    sent: u32,
    known: u32,
    until: Option<Nanos>,
}

/// The sending side, to one receiver.
#[derive(Debug)]
pub struct ArqSender {
    settings: ArqSettings,
    waiting: VecDeque<(u64, Sending)>,
    sending: BTreeMap<u64, Sending>,
    pace: Pace,
    /// Smoothed round trip and its variation (RFC 6298), in ns.
    trip: Option<(f64, f64)>,
    done: Vec<(u64, Outcome)>,
}

/// So many mean deviations later than usual an acknowledgement is late. RFC 6298 has 4, so that
/// nothing fills a full network further; here what goes is paced, and one chunk asks.
const SPREAD: f64 = 3.0;
/// Waits are doubled up to so often.
const MOST_DOUBLED: u32 = 5;

impl Sending {
    /// The round trip that what is due to an attempt tells; nothing where there were more attempts
    /// than have numbers. So what was asked for too soon tells of the way, too, which by Karn
    /// and Partridge's rule it would not.
    fn round_trip(&self, echo: u8, now: Nanos) -> Option<Nanos> {
        self.asked.get(usize::from(echo)).map(|(at, _)| now.saturating_sub(*at))
    }

    /// How many chunks more it was heard of by something that is due to an attempt: what went
    /// after it may come yet.
    fn heard_of(&mut self, echo: u8) -> u32 {
        let sent = self.asked.get(usize::from(echo)).map_or(self.sent, |(_, sent)| *sent);
        let known = self.known;
        self.known = known.max(sent);
        sent.saturating_sub(known)
    }
}

impl ArqSender {
    /// A sender with nothing to send.
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

    /// Takes a message, to be there by `until` if that is said.
    ///
    /// # Errors
    /// When it has too many chunks.
    pub fn send(
        &mut self,
        message: u64,
        bytes: Vec<u8>,
        until: Option<Nanos>,
    ) -> Result<(), Refused> {
        self.answer(message, bytes, until, 0)
    }

    /// Takes an answer, which is due to the attempt `echo` at what it answers.
    ///
    /// # Errors
    /// When it has too many chunks.
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
        if chunks > MOST_CHUNKS {
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

    /// How long an acknowledgement is waited for.
    fn patience(&self, tries: u32) -> Nanos {
        let first = match self.trip {
            Some((trip, variation)) => (trip + SPREAD * variation).max(1e6) as Nanos,
            None => self.settings.patience,
        };
        // Twice it may have been chance.
        first.saturating_mul(1 << tries.saturating_sub(1).min(MOST_DOUBLED))
    }

    /// The next datagram to send at `now`, if one may go; when to look again, if there is
    /// anything to look for.
    pub fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        self.expire(now);
        while self.sending.len() < self.settings.most.max(1) {
            let Some((message, sending)) = self.waiting.pop_front() else { break };
            self.sending.insert(message, sending);
        }
        // Whoever was asked in vain is asked by the last of what is missing alone, then by more
        // of it: where losses come in a row, it is by frames that they end.
        for sending in self.sending.values_mut() {
            if sending.ask_at.is_some_and(|at| at <= now) {
                sending.ask_at = None;
                sending.tries += 1;
                let most = 1 << (sending.tries - 1).min(MOST_DOUBLED);
                let first = sending.missing.len().saturating_sub(most);
                sending.train.extend(&sending.missing[first..]);
            }
        }
        if now < self.pace.next_at() {
            return (None, Some(self.pace.next_at()));
        }
        let patience: Vec<Nanos> = (0..=MOST_DOUBLED).map(|tries| self.patience(tries)).collect();
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
            let tries = sending.tries.min(MOST_DOUBLED) as usize;
            sending.ask_at = Some(now.saturating_add(patience[tries]));
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

    /// Gives up what has lived for too long.
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

    /// Takes a datagram, if it is an acknowledgement, and says what it tells of the way.
    pub fn heard(&mut self, bytes: &[u8], now: Nanos) -> Heard {
        match Datagram::decode(bytes) {
            Some(Datagram::Acknowledge { message, echo, had }) => {
                self.acknowledged(message, (echo, &had), now)
            }
            _ => Heard::default(),
        }
    }

    /// What a receiver says that it has, and due to which attempt. Of a message that is not under
    /// way it is not heard.
    pub fn acknowledged(&mut self, message: u64, (echo, had): (u8, &[u8]), now: Nanos) -> Heard {
        let Some(sending) = self.sending.get_mut(&message) else { return Heard::default() };
        let bit = |index: u8| {
            had.get(usize::from(index / 8)).is_some_and(|byte| byte & (1 << (index % 8)) != 0)
        };
        // Not only what was missing: a receiver that has started anew has nothing any more.
        sending.missing = (0..=sending.last).filter(|index| !bit(*index)).collect();
        let mut heard = Heard { round_trip: sending.round_trip(echo, now), ..Heard::default() };
        if sending.train.is_empty() {
            let (missing, sent) = (sending.missing.len() as u32, sending.heard_of(echo));
            heard.lost = missing.min(sent);
            heard.came = sent - heard.lost;
        }
        if sending.missing.is_empty() {
            self.sending.remove(&message);
            self.done.push((message, Outcome::Delivered));
        } else if sending.train.is_empty() {
            // The answer to a train that is still being sent says too little.
            sending.train.extend(sending.missing.iter());
            sending.ask_at = None;
            sending.tries = 0;
        }
        self.measured(heard.round_trip);
        heard
    }

    /// The receiver answers a message, due to this attempt if that is known: it has all of it,
    /// whether it has said so or not.
    pub fn answered(&mut self, message: u64, echo: Option<u8>, now: Nanos) -> Heard {
        let Some(mut sending) = self.sending.remove(&message) else { return Heard::default() };
        self.done.push((message, Outcome::Delivered));
        let sent = sending.heard_of(echo.unwrap_or(LAST_ATTEMPT));
        let came = (sending.missing.len() as u32).min(sent);
        let round_trip = echo.and_then(|echo| sending.round_trip(echo, now));
        self.measured(round_trip);
        Heard { came, lost: sent - came, round_trip }
    }

    /// Takes note of a round trip (RFC 6298, 2).
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

    /// Gives up all that it was to send.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.sending.clear();
    }

    /// What became of messages since the last time it was asked.
    pub fn take_done(&mut self) -> Vec<(u64, Outcome)> {
        std::mem::take(&mut self.done)
    }

    /// Whether nothing is under way or waits.
    pub fn is_idle(&self) -> bool {
        self.sending.is_empty() && self.waiting.is_empty()
    }
}
