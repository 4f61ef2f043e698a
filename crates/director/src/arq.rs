//! `udp-arq`: messages over datagrams, cut into chunks, with selective repeat: one
//! acknowledgement for a train of chunks says which are missing. Paced by the sender.
//!
//! A train is what a sender has of one message to send at a time: all chunks at first, then
//! those that were missing. Its last chunk asks for an acknowledgement; where none comes in
//! time, that chunk alone asks again. So a message that loses nothing costs one frame back.

use crate::Nanos;
use crate::window::Window;
use std::collections::{BTreeMap, VecDeque};

/// Chunks of a message at most.
pub const MOST_CHUNKS: usize = 256;
/// Bytes before the data of a chunk.
pub const HEADER: usize = 11;

const CHUNK: u8 = 0x10;
const ACKNOWLEDGE: u8 = 0x11;
/// The flag of the chunk that asks.
const ASKS: u8 = 0x80;

/// A datagram of the protocol. The high nibble of the first byte is the version of the
/// wire format, 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datagram {
    /// A part of a message.
    Chunk {
        /// The message.
        message: u64,
        /// Its place, from 0.
        index: u8,
        /// The place of the last chunk.
        last: u8,
        /// Whether an acknowledgement is asked for.
        asks: bool,
        /// The part.
        data: Vec<u8>,
    },
    /// What a receiver has of a message: a bit for each chunk, of the lowest first.
    Acknowledge {
        /// The message.
        message: u64,
        /// The chunks.
        had: Vec<u8>,
    },
}

impl Datagram {
    /// As it goes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Chunk { message, index, last, asks, data } => {
                let mut bytes = Vec::with_capacity(HEADER + data.len());
                bytes.push(CHUNK | if *asks { ASKS } else { 0 });
                bytes.extend_from_slice(&message.to_be_bytes());
                bytes.extend_from_slice(&[*index, *last]);
                bytes.extend_from_slice(data);
                bytes
            }
            Self::Acknowledge { message, had } => {
                let mut bytes = vec![ACKNOWLEDGE];
                bytes.extend_from_slice(&message.to_be_bytes());
                bytes.extend_from_slice(had);
                bytes
            }
        }
    }

    /// What came; nothing if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (number, rest) = rest.split_at_checked(8)?;
        let message = u64::from_be_bytes(number.try_into().ok()?);
        match kind & !ASKS {
            CHUNK => {
                let [index, last, data @ ..] = rest else { return None };
                (index <= last).then(|| Self::Chunk {
                    message,
                    index: *index,
                    last: *last,
                    asks: kind & ASKS != 0,
                    data: data.to_vec(),
                })
            }
            ACKNOWLEDGE if kind & ASKS == 0 && rest.len() <= MOST_CHUNKS / 8 => {
                Some(Self::Acknowledge { message, had: rest.to_vec() })
            }
            _ => None,
        }
    }
}

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
    /// When the last chunk of a train went that was sent once, to measure by.
    asked_at: Option<Nanos>,
    /// How often it was asked in vain.
    tries: u32,
    /// Chunks sent since the last acknowledgement.
    sent: u32,
    until: Option<Nanos>,
}

/// The sending side, to one receiver.
#[derive(Debug)]
pub struct ArqSender {
    settings: ArqSettings,
    waiting: VecDeque<(u64, Sending)>,
    sending: BTreeMap<u64, Sending>,
    /// When the next datagram may go.
    next_at: Nanos,
    /// Smoothed round trip and its variation (RFC 6298), in ns.
    trip: Option<(f64, f64)>,
    done: Vec<(u64, Outcome)>,
}

/// Waits are doubled up to so often.
const MOST_DOUBLED: u32 = 5;

impl ArqSender {
    /// A sender with nothing to send.
    pub fn new(settings: ArqSettings) -> Self {
        Self {
            settings,
            waiting: VecDeque::new(),
            sending: BTreeMap::new(),
            next_at: 0,
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
            asked_at: None,
            tries: 0,
            sent: 0,
            until,
        };
        self.waiting.push_back((message, sending));
        Ok(())
    }

    /// How long an acknowledgement is waited for.
    fn patience(&self, tries: u32) -> Nanos {
        let first = match self.trip {
            Some((trip, variation)) => (trip + 4.0 * variation).max(1e6) as Nanos,
            None => self.settings.patience,
        };
        first.saturating_mul(1 << tries.min(MOST_DOUBLED))
    }

    /// The next datagram to send at `now`, if one may go; when to look again, if there is
    /// anything to look for.
    pub fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        self.expire(now);
        while self.sending.len() < self.settings.most.max(1) {
            let Some((message, sending)) = self.waiting.pop_front() else { break };
            self.sending.insert(message, sending);
        }
        // Whoever was asked in vain is asked by the last of what is missing alone.
        for sending in self.sending.values_mut() {
            if sending.ask_at.is_some_and(|at| at <= now) {
                sending.ask_at = None;
                sending.asked_at = None;
                sending.tries += 1;
                sending.train.extend(sending.missing.last());
            }
        }
        if now < self.next_at {
            return (None, Some(self.next_at));
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
        if asks {
            let tries = sending.tries.min(MOST_DOUBLED) as usize;
            sending.ask_at = Some(now.saturating_add(patience[tries]));
            sending.asked_at = (sending.tries == 0).then_some(now);
        }
        let data = sending.bytes.get(begin..end).unwrap_or_default().to_vec();
        let chunk = Datagram::Chunk { message: *message, index, last: sending.last, asks, data };
        let bytes = chunk.encode();
        let bits = (bytes.len() + self.settings.below) as f64 * 8.0;
        self.next_at = now + (bits * 1e9 / self.settings.rate_bit_s.max(1.0)).ceil() as Nanos;
        (Some(bytes), Some(self.next_at))
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
            Some(Datagram::Acknowledge { message, had }) => self.acknowledged(message, &had, now),
            _ => Heard::default(),
        }
    }

    /// What a receiver says that it has. Of a message that is not under way it is not heard.
    pub fn acknowledged(&mut self, message: u64, had: &[u8], now: Nanos) -> Heard {
        let Some(sending) = self.sending.get_mut(&message) else { return Heard::default() };
        let bit = |index: u8| {
            had.get(usize::from(index / 8)).is_some_and(|byte| byte & (1 << (index % 8)) != 0)
        };
        // Not only what was missing: a receiver that has started anew has nothing any more.
        sending.missing = (0..=sending.last).filter(|index| !bit(*index)).collect();
        let mut heard = Heard::default();
        if sending.train.is_empty() {
            let missing = u32::try_from(sending.missing.len()).unwrap_or(0);
            heard.lost = missing.min(sending.sent);
            heard.came = std::mem::take(&mut sending.sent) - heard.lost;
        }
        if let Some(asked) = sending.asked_at.take() {
            heard.round_trip = Some(now.saturating_sub(asked));
            let seen = now.saturating_sub(asked) as f64;
            self.trip = Some(match self.trip {
                Some((trip, variation)) => {
                    let off = (trip - seen).abs();
                    (0.875 * trip + 0.125 * seen, 0.75 * variation + 0.25 * off)
                }
                None => (seen, seen / 2.0),
            });
        }
        if sending.missing.is_empty() {
            self.sending.remove(&message);
            self.done.push((message, Outcome::Delivered));
            return heard;
        }
        // The answer to a train that is still being sent says too little.
        if sending.train.is_empty() {
            sending.train.extend(sending.missing.iter());
            sending.ask_at = None;
            sending.tries = 0;
        }
        heard
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

/// What a receiver makes of a datagram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received {
    /// The message that is whole with it, and its number.
    pub message: Option<(u64, Vec<u8>)>,
    /// The datagram to send back.
    pub reply: Option<Vec<u8>>,
}

/// Messages of which something is there, at most; older ones give way.
const MOST_OPEN: usize = 64;

#[derive(Debug)]
struct Receiving {
    last: u8,
    chunks: BTreeMap<u8, Vec<u8>>,
}

/// The receiving side, from one sender.
#[derive(Debug)]
pub struct ArqReceiver {
    open: BTreeMap<u64, Receiving>,
    had: Window,
}

impl Default for ArqReceiver {
    fn default() -> Self {
        Self::new()
    }
}

impl ArqReceiver {
    /// One that has had nothing.
    pub fn new() -> Self {
        Self { open: BTreeMap::new(), had: Window::new(1 << 14) }
    }

    /// Takes what came: a message that is whole with it, and an acknowledgement to send.
    pub fn receive(&mut self, bytes: &[u8]) -> Received {
        let Some(Datagram::Chunk { message, index, last, asks, data }) = Datagram::decode(bytes)
        else {
            return Received::default();
        };
        if self.had.has(message) {
            // The sender has not heard that it is there.
            let all = bitmap(0..=last);
            let again = Datagram::Acknowledge { message, had: all };
            return Received { message: None, reply: asks.then(|| again.encode()) };
        }
        if !self.open.contains_key(&message) && self.open.len() >= MOST_OPEN {
            self.open.pop_first();
        }
        let fresh = || Receiving { last, chunks: BTreeMap::new() };
        let receiving = self.open.entry(message).or_insert_with(fresh);
        // Who says another length now lies, or did before.
        if receiving.last != last {
            return Received::default();
        }
        receiving.chunks.entry(index).or_insert(data);
        let whole = receiving.chunks.len() > usize::from(last);
        let had = bitmap(receiving.chunks.keys().copied());
        let said = (asks || whole).then(|| Datagram::Acknowledge { message, had }.encode());
        if !whole {
            return Received { message: None, reply: said };
        }
        let chunks = self.open.remove(&message).map(|receiving| receiving.chunks);
        self.had.insert(message);
        let bytes = chunks.into_iter().flatten().flat_map(|(_, data)| data).collect();
        Received { message: Some((message, bytes)), reply: said }
    }
}

/// A bit for each of these.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What came of sending: when the last message was there, frames there and back.
    struct Sent {
        at: Nanos,
        frames: [u64; 2],
        had: Vec<(u64, Vec<u8>)>,
    }

    fn draw(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Sends over a way of 30 ms each that loses a share of the frames both ways.
    fn send(messages: u64, bytes: usize, loss: f64, settings: ArqSettings, seed: u64) -> Sent {
        let (mut sender, mut receiver) = (ArqSender::new(settings), ArqReceiver::new());
        for message in 0..messages {
            sender.send(message, vec![message as u8; bytes], None).unwrap();
        }
        let mut state = seed;
        let mut way: BTreeMap<(Nanos, u64), (bool, Vec<u8>)> = BTreeMap::new();
        let (mut now, mut number) = (0, 0);
        let mut sent = Sent { at: 0, frames: [0; 2], had: Vec::new() };
        while !sender.is_idle() {
            let (datagram, again) = sender.poll(now);
            if let Some(datagram) = datagram {
                sent.frames[0] += 1;
                number += 1;
                if draw(&mut state) >= loss {
                    way.insert((now + 30_000_000, number), (true, datagram));
                }
                continue;
            }
            let comes = way.keys().next().map(|(at, _)| *at);
            now = [again, comes].into_iter().flatten().min().expect("something is to happen");
            assert!(now < 1_000_000_000_000, "it ends");
            while let Some(entry) = way.first_entry().filter(|entry| entry.key().0 <= now) {
                let (there, datagram) = entry.remove();
                if !there {
                    let Some(Datagram::Acknowledge { message, had }) = Datagram::decode(&datagram)
                    else {
                        panic!("not an acknowledgement")
                    };
                    sender.acknowledged(message, &had, now);
                    continue;
                }
                let Received { message, reply } = receiver.receive(&datagram);
                if let Some(whole) = message {
                    sent.at = now;
                    sent.had.push(whole);
                }
                if let Some(said) = reply {
                    sent.frames[1] += 1;
                    number += 1;
                    if draw(&mut state) >= loss {
                        way.insert((now + 30_000_000, number), (false, said));
                    }
                }
            }
        }
        sent
    }

    /// Frames of 127 bytes: 85 of a datagram at an MTU of 113.
    const SMALL: ArqSettings = ArqSettings {
        datagram: 85,
        below: 42,
        rate_bit_s: 250_000.0,
        patience: 100_000_000,
        most: 8,
    };

    #[test]
    fn without_loss_a_message_costs_one_frame_back() {
        let sent = send(10, 1_699, 0.0, SMALL, 1);
        assert_eq!(sent.frames, [10 * 23, 10]);
        assert_eq!(sent.had.len(), 10);
        assert!(sent.had.iter().all(|(n, bytes)| *bytes == vec![*n as u8; 1_699]));
        // 230 frames of 127 bytes at 250 kbit/s, less where the last chunk is short.
        assert!(sent.at > 900_000_000 && sent.at < 1_000_000_000, "{}", sent.at);
    }

    #[test]
    fn a_third_lost_both_ways_is_all_delivered_for_little_more_than_must_be() {
        for seed in 0..20 {
            let sent = send(50, 1_699, 0.3, SMALL, seed);
            let mut numbers: Vec<u64> = sent.had.iter().map(|(n, _)| *n).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..50).collect::<Vec<_>>(), "each once");
            // 23 chunks, of which 30 % are lost, are 32.9 frames at least.
            let bound = crate::bound::unicast_frames(23, 0.3) * 50.0;
            let ratio = sent.frames[0] as f64 / bound;
            assert!(ratio < 1.25, "{ratio}");
        }
    }

    #[test]
    fn it_never_sends_faster_than_it_may() {
        let mut sender = ArqSender::new(SMALL);
        sender.send(1, vec![0; 8_000], None).unwrap();
        let (mut now, mut frames) = (0, 0);
        while now < 100_000_000 {
            match sender.poll(now) {
                (Some(_), _) => frames += 1,
                (None, Some(again)) => now = again,
                (None, None) => break,
            }
        }
        // 4.064 ms a frame.
        assert!((24..=26).contains(&frames), "{frames}");
    }

    #[test]
    fn what_lives_too_long_is_given_up_and_said() {
        let mut sender = ArqSender::new(SMALL);
        sender.send(7, vec![0; 100], Some(5)).unwrap();
        sender.poll(0);
        sender.poll(5);
        assert_eq!(sender.take_done(), [(7, Outcome::Expired)]);
        assert!(sender.is_idle());
        assert_eq!(sender.send(8, vec![0; 1 << 20], None), Err(Refused::Long(1 << 20)));
    }

    #[test]
    fn a_receiver_that_restarts_or_lies_is_no_harm() {
        let mut sender = ArqSender::new(SMALL);
        sender.send(1, vec![1; 500], None).unwrap();
        let first = sender.poll(0).0.unwrap();
        let mut receiver = ArqReceiver::new();
        receiver.receive(&first);
        // It forgets all; the message still comes, once the rest is asked for.
        let mut receiver = ArqReceiver::new();
        sender.acknowledged(1, &[0xff; 32], 10);
        assert_eq!(sender.take_done(), [(1, Outcome::Delivered)], "it has said so");
        sender.acknowledged(1, &[0; 3], 10);
        sender.acknowledged(99, &[0xff], 10);
        assert!(sender.is_idle());
        let chunk = |index, last| {
            let data = vec![index; 3];
            Datagram::Chunk { message: 5, index, last, asks: false, data }.encode()
        };
        assert_eq!(receiver.receive(&chunk(0, 1)), Received::default());
        assert_eq!(receiver.receive(&chunk(1, 2)), Received::default(), "another length");
        let whole = receiver.receive(&chunk(1, 1));
        assert_eq!(whole.message, Some((5, vec![0, 0, 0, 1, 1, 1])));
        assert!(whole.reply.is_some());
    }

    proptest! {
        #[test]
        fn datagrams_read_back(message: u64, index: u8, last: u8, asks: bool,
            data in prop::collection::vec(any::<u8>(), 0..100)) {
            let chunk = Datagram::Chunk { message, index: index.min(last), last, asks, data: data.clone() };
            prop_assert_eq!(Datagram::decode(&chunk.encode()), Some(chunk));
            let had = data[..data.len().min(32)].to_vec();
            let said = Datagram::Acknowledge { message, had };
            prop_assert_eq!(Datagram::decode(&said.encode()), Some(said));
        }

        #[test]
        fn nothing_that_comes_does_harm(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..200)
        ) {
            let mut receiver = ArqReceiver::new();
            let mut sender = ArqSender::new(SMALL);
            sender.send(1, vec![0; 300], None).unwrap();
            for frame in frames {
                receiver.receive(&frame);
                if let Some(Datagram::Acknowledge { message, had }) = Datagram::decode(&frame) {
                    sender.acknowledged(message, &had, 1);
                }
                prop_assert!(receiver.open.len() <= MOST_OPEN);
            }
        }
    }
}
