//! Messages over CoAP (RFC 7252): each is a POST, block-wise if long (RFC 7959). A confirmable
//! message is acknowledged block by block, a non-confirmable one is not acknowledged.

use crate::rng::{Rng, Seed};
use crate::turn::{Turns, Waiting};
use crate::{Instant, Span};
use coap::code::{CHANGED, CONTINUE, INCOMPLETE, POST};
use coap::{Block, Kind, Message, Writer, number};
use std::collections::{BTreeMap, VecDeque};

/// Header, token, path, block and payload marker.
const OVERHEAD: usize = 4 + TOKEN + 2 + 4 + 1;
const TOKEN: usize = 4;
/// The URI path; any would do.
const PATH: &[u8] = b"m";
/// ACK_TIMEOUT, ACK_RANDOM_FACTOR and MAX_RETRANSMIT of RFC 7252, 4.8.
const TIMEOUT: Span = Span::from_s(2);
const RANDOM: f64 = 0.5;
const MAX_TRIES: u32 = 4;
/// Maximum number of times that a message begins again because its receiver lacks earlier blocks.
const MAX_RESTARTS: u32 = 4;
/// Maximum blocks per message: the block number has 20 bits, and memory is bounded.
const MAX_BLOCKS: usize = 4_096;
/// Maximum incomplete messages, and maximum remembered tokens of complete ones. A sender has one
/// exchange at a time, so only reordered and repeated requests need more than one.
const MAX_OPEN: usize = 16;

/// What the sender learns from an acknowledgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AckReport {
    /// Frames that arrived.
    pub received: u32,
    /// Frames that did not arrive: earlier transmissions of the same block.
    pub lost: u32,
    /// Round-trip time, if the frame was sent once.
    pub round_trip: Option<Span>,
}

#[derive(Debug)]
struct Current {
    number: u64,
    bytes: Vec<u8>,
    until: Option<Instant>,
    token: [u8; TOKEN],
    block: usize,
    id: u16,
    tries: u32,
    restarts: u32,
    sent_at: Instant,
    timeout: Span,
    /// Time of the next transmission.
    at: Instant,
}

/// The sender to one peer: one exchange at a time (NSTART is 1).
#[derive(Debug)]
pub struct CoapSender {
    confirmable: bool,
    /// The block size, in bytes.
    block: usize,
    waiting: Turns,
    current: Option<Current>,
    id: u16,
    rng: Rng,
    done: Vec<(u64, bool)>,
}

impl CoapSender {
    /// For datagrams of `datagram` bytes, over a path on which a response takes `wait`; `None` if they
    /// cannot hold a block of 16 B.
    pub fn new(confirmable: bool, datagram: usize, wait: Span, seed: &Seed) -> Option<Self> {
        let room = datagram.checked_sub(OVERHEAD)?;
        // Sizes are 2^(SZX + 4) with SZX from 0 to 6 (RFC 7959, 2.2).
        let block = (0..=6).rev().map(|exponent| 16 << exponent).find(|size| *size <= room)?;
        let (waiting, done) = (Turns::new(wait), Vec::new());
        let mut rng = Rng::new(seed);
        // Random, as RFC 7252, 4.4, recommends against forged responses; so is the token (5.3.1).
        let id = rng.bits() as u16;
        Some(Self { confirmable, block, waiting, current: None, id, rng, done })
    }

    /// Sets the time that a response takes.
    pub fn set_wait(&mut self, wait: Span) {
        self.waiting.set_wait(wait);
    }

    /// Queues a message, which expires at `until`, if given; `false` if it has too many blocks.
    pub fn send(&mut self, number: u64, bytes: Vec<u8>, until: Option<Instant>) -> bool {
        let fits = bytes.len().div_ceil(self.block) <= MAX_BLOCKS;
        if fits {
            self.waiting.push(Waiting { number, bytes, until });
        }
        fits
    }

    /// Drops a message.
    pub fn withdraw(&mut self, number: u64) {
        self.waiting.withdraw(number);
        self.current.take_if(|current| current.number == number);
    }

    /// Drops all queued messages.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.current = None;
    }

    fn next_id(&mut self) -> u16 {
        self.id = self.id.wrapping_add(1);
        self.id
    }

    fn timeout(&mut self) -> Span {
        Span::from_ns_f64(TIMEOUT.as_ns_f64() * (1.0 + RANDOM * self.rng.uniform()))
    }

    /// The next datagram, if one is due, and the time of the next poll.
    pub fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        if let Some(over) = self.current.take_if(|own| own.until.is_some_and(|until| until <= now))
        {
            self.done.push((over.number, false));
        }
        if self.current.is_none() {
            let Some(Waiting { number, bytes, until }) = self.waiting.next(now) else {
                return (None, None);
            };
            let (id, timeout) = (self.next_id(), self.timeout());
            let token = (self.rng.bits() as u32).to_be_bytes();
            self.current = Some(Current {
                number,
                bytes,
                until,
                token,
                block: 0,
                id,
                tries: 0,
                restarts: 0,
                sent_at: now,
                timeout,
                at: now,
            });
        }
        let (confirmable, length) = (self.confirmable, self.block);
        let Some(current) = &mut self.current else { return (None, None) };
        if current.at > now {
            return (None, current.until.into_iter().chain([current.at]).min());
        }
        if current.tries > MAX_TRIES {
            self.done.push((current.number, false));
            self.current = None;
            return (None, Some(now));
        }
        let block = Block::sized(current.block as u32, false, length);
        let (block, part) = block.cut(&current.bytes).unwrap_or((block, &[]));
        let kind = if confirmable { Kind::Confirmable } else { Kind::NonConfirmable };
        let mut datagram = vec![0; OVERHEAD + length];
        let mut writer = Writer::new(&mut datagram, kind, POST, current.id, &current.token);
        writer.option(number::URI_PATH, PATH);
        if block.more || block.number > 0 {
            writer.option(number::BLOCK1, &block.encode());
        }
        let written = writer.end(part);
        datagram.truncate(written);
        if confirmable {
            current.sent_at = now;
            // Doubled with each retransmission (RFC 7252, 4.2).
            current.at = now + current.timeout * (1 << current.tries);
            current.tries += 1;
        } else if block.more {
            current.block += 1;
            self.id = self.id.wrapping_add(1);
            current.id = self.id;
        } else {
            self.current = None;
        }
        let wake =
            self.current.as_ref().map(|own| own.until.into_iter().fold(own.at, Instant::min));
        (Some(datagram), wake.or(Some(now)))
    }

    /// Handles an acknowledgement; ignores it if it does not match the current exchange.
    pub fn handle_ack(&mut self, message: &Message<'_>, now: Instant) -> AckReport {
        let Some(current) = &mut self.current else { return AckReport::default() };
        // A late acknowledgement of an earlier block has another ID.
        let own = message.id == current.id && message.token == current.token;
        let good = matches!(message.code, CONTINUE | CHANGED | INCOMPLETE);
        if !own || !good || message.kind != Kind::Acknowledgement {
            return AckReport::default();
        }
        let once = current.tries == 1;
        let round_trip = once.then(|| now - current.sent_at);
        let report = AckReport { received: 1, lost: current.tries.saturating_sub(1), round_trip };
        let lacks = message.code == INCOMPLETE;
        // The receiver has restarted: all goes again (RFC 7959, 2.9.2).
        current.block = if lacks { 0 } else { current.block + 1 };
        current.restarts += u32::from(lacks);
        let whole = current.block * self.block >= current.bytes.len();
        if whole || current.restarts > MAX_RESTARTS {
            self.done.push((current.number, !lacks));
            self.current = None;
            return report;
        }
        let (id, timeout) = (self.next_id(), self.timeout());
        if let Some(current) = &mut self.current {
            (current.id, current.timeout, current.tries, current.at) = (id, timeout, 0, now);
        }
        report
    }

    /// Finished messages, and whether each was delivered.
    pub fn take_done(&mut self) -> Vec<(u64, bool)> {
        std::mem::take(&mut self.done)
    }
}

/// The result of a received datagram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received {
    /// The message that this datagram completes.
    pub message: Option<Vec<u8>>,
    /// The reply to send.
    pub reply: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Open {
    blocks: BTreeMap<usize, Vec<u8>>,
    last: Option<usize>,
}

/// The receiver, from one peer.
#[derive(Debug, Default)]
pub struct CoapReceiver {
    open: VecDeque<(Vec<u8>, Open)>,
    whole: VecDeque<Vec<u8>>,
}

impl CoapReceiver {
    /// Handles a request.
    pub fn receive(&mut self, request: &Message<'_>) -> Received {
        if request.code != POST {
            return Received::default();
        }
        let option = request.options().find(|(number, _)| *number == number::BLOCK1);
        let block = match option.map(|(_, value)| Block::decode(value)) {
            Some(None) => return Received::default(),
            Some(block) => block,
            None => None,
        };
        let Block { number, more, .. } = block.unwrap_or(Block::sized(0, false, 16));
        let number = number as usize;
        // All blocks but the last are full.
        let full = block.is_none_or(|block| request.payload.len() == block.size());
        if number >= MAX_BLOCKS || (more && !full) {
            return Received::default();
        }
        let mut message = None;
        // A repeated block of a complete message is acknowledged again and not delivered again: its
        // acknowledgement was lost.
        if !self.whole.iter().any(|token| token == request.token) {
            message = self.add(request.token, number, more, request.payload);
        }
        let code = match (self.lacks_before(request.token, number), more) {
            (true, _) => INCOMPLETE,
            (false, true) => CONTINUE,
            (false, false) => CHANGED,
        };
        let confirmable = request.kind == Kind::Confirmable;
        Received { message, reply: confirmable.then(|| acknowledge(request, code, block)) }
    }

    /// Whether a block before this one is missing, although a sender of confirmable messages got an
    /// acknowledgement of it: the receiver has restarted since.
    fn lacks_before(&self, token: &[u8], number: usize) -> bool {
        let open = self.open.iter().find(|(known, _)| known == token);
        open.is_some_and(|(_, open)| open.blocks.range(..number).count() < number)
    }

    fn add(&mut self, token: &[u8], number: usize, more: bool, data: &[u8]) -> Option<Vec<u8>> {
        if !self.open.iter().any(|(known, _)| known == token) {
            if self.open.len() >= MAX_OPEN {
                self.open.pop_front();
            }
            self.open.push_back((token.to_vec(), Open::default()));
        }
        let place = self.open.iter().position(|(known, _)| known == token)?;
        let open = &mut self.open[place].1;
        open.blocks.entry(number).or_insert_with(|| data.to_vec());
        if !more {
            open.last = Some(number);
        }
        if open.last.is_none_or(|last| open.blocks.len() <= last) {
            return None;
        }
        let (token, open) = self.open.remove(place)?;
        self.whole.push_back(token);
        if self.whole.len() > MAX_OPEN {
            self.whole.pop_front();
        }
        Some(open.blocks.into_values().flatten().collect())
    }
}

fn acknowledge(request: &Message<'_>, code: u8, block: Option<Block>) -> Vec<u8> {
    let mut datagram = vec![0; OVERHEAD + coap::TOKEN_LENGTH];
    let (kind, id) = (Kind::Acknowledgement, request.id);
    let mut writer = Writer::new(&mut datagram, kind, code, id, request.token);
    if let Some(block) = block {
        writer.option(number::BLOCK1, &block.encode());
    }
    let length = writer.end(&[]);
    datagram.truncate(length);
    datagram
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Message<'_> {
        Message::parse(bytes).unwrap()
    }

    /// Sends over a path that drops each `lose`th datagram; returns datagrams and messages.
    fn send(
        confirmable: bool,
        bytes: usize,
        lose: usize,
    ) -> (usize, Vec<Vec<u8>>, Vec<(u64, bool)>) {
        let message: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        let mut sender =
            CoapSender::new(confirmable, 85, Span::from_ms(30), &Seed::reproducible(7)).unwrap();
        assert!(sender.send(3, message, None));
        let mut receiver = CoapReceiver::default();
        let (mut now, mut sent, mut had, mut done) = (Instant::START, 0, Vec::new(), Vec::new());
        for _ in 0..10_000 {
            let (datagram, wake) = sender.poll(now);
            let Some(datagram) = datagram else {
                done.extend(sender.take_done());
                let Some(wake) = wake else { break };
                now = wake.max(now + Span::from_ns(1));
                continue;
            };
            assert!(datagram.len() <= 85, "{}", datagram.len());
            sent += 1;
            if sent % lose == 0 {
                continue;
            }
            let received = receiver.receive(&read(&datagram));
            had.extend(received.message);
            if let Some(reply) = received.reply {
                now += Span::from_ms(30);
                sender.handle_ack(&read(&reply), now);
            }
        }
        done.extend(sender.take_done());
        (sent, had, done)
    }

    #[test]
    fn blocks_go_one_by_one_and_again_if_lost() {
        let whole: Vec<u8> = (0..1_699).map(|at| at as u8).collect();
        // The header leaves room for blocks of 64 B.
        assert_eq!(send(true, 1_699, usize::MAX), (27, vec![whole.clone()], vec![(3, true)]));
        let (sent, had, done) = send(true, 1_699, 5);
        assert!(sent > 27 && had == [whole] && done == [(3, true)]);
        assert_eq!(send(true, 40, usize::MAX).0, 1);
        // All lost: gives up after five transmissions.
        assert_eq!(send(true, 40, 1), (5, vec![], vec![(3, false)]));
    }

    #[test]
    fn a_receiver_that_restarts_gets_all_blocks_again() {
        let whole: Vec<u8> = (0..500).map(|at| at as u8).collect();
        // The receiver restarts after each of the eight blocks; and always.
        for at in 1..=8 {
            let mut sender = CoapSender::new(true, 85, Span::ZERO, &Seed::reproducible(7)).unwrap();
            sender.send(3, whole.clone(), None);
            let (mut receiver, mut sent, mut had) = (CoapReceiver::default(), 0, Vec::new());
            while let (Some(datagram), _) = sender.poll(Instant::START) {
                sent += 1;
                let received = receiver.receive(&read(&datagram));
                had.extend(received.message);
                let reply = received.reply.unwrap();
                sender.handle_ack(&read(&reply), Instant::START);
                if sent == at {
                    receiver = CoapReceiver::default();
                }
            }
            assert_eq!((&had[..], sender.take_done()), (&[whole.clone()][..], vec![(3, true)]));
        }
        let mut sender = CoapSender::new(true, 85, Span::ZERO, &Seed::reproducible(7)).unwrap();
        sender.send(3, whole, None);
        while let (Some(datagram), _) = sender.poll(Instant::START) {
            let reply = CoapReceiver::default().receive(&read(&datagram)).reply.unwrap();
            sender.handle_ack(&read(&reply), Instant::START);
        }
        assert_eq!(sender.take_done(), [(3, false)], "it ends");
    }

    #[test]
    fn without_confirmation_all_goes_once() {
        let (sent, had, done) = send(false, 1_699, usize::MAX);
        assert_eq!((sent, had.len(), done.len()), (27, 1, 0));
        let (sent, had, _) = send(false, 1_699, 20);
        assert_eq!((sent, had.len()), (27, 0));
    }

    #[test]
    fn a_request_twice_is_one_message_and_two_acknowledgements() {
        let mut sender = CoapSender::new(true, 85, Span::ZERO, &Seed::reproducible(1)).unwrap();
        sender.send(1, vec![1; 10], None);
        let request = sender.poll(Instant::START).0.unwrap();
        let request = read(&request);
        let mut receiver = CoapReceiver::default();
        let first = receiver.receive(&request);
        let second = receiver.receive(&request);
        assert!(first.message.is_some() && second.message.is_none());
        assert_eq!(first.reply, second.reply);
        assert!(CoapSender::new(true, 30, Span::ZERO, &Seed::reproducible(1)).is_none());
    }

    #[test]
    fn an_exchange_ends_with_its_messages_lifetime() {
        let mut sender =
            CoapSender::new(true, 85, Span::from_ms(30), &Seed::reproducible(1)).unwrap();
        let at = |ms| Instant::START + Span::from_ms(ms);
        for (number, until) in [(1, 500), (2, 505), (3, 2_000)] {
            sender.send(number, vec![number as u8; 10], Some(at(until)));
        }
        let (first, wake) = sender.poll(at(0));
        assert_eq!((first.unwrap().last(), wake), (Some(&1), Some(at(500))));
        assert_eq!(sender.poll(at(499)), (None, Some(at(500))));
        // The second could no longer arrive.
        let (next, _) = sender.poll(at(500));
        assert_eq!(next.unwrap().last(), Some(&3));
        assert_eq!(sender.take_done(), [(1, false)]);
    }
}
