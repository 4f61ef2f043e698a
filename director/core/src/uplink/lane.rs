//! One end of a lane between a member's start and the hub: ARQ, sealing, and the wire format.

use crate::carrier::{Arq, Exchange, Params};
use crate::keys::{Keys, Party, Root, Scope, Use};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::rng::Seed;
use crate::{Instant, Span};

/// First byte of a member's datagram, and of the hub's.
const UP: u8 = 0x2b;
const DOWN: u8 = 0x2c;

/// Length of a message's number, in bytes.
const NUMBER: usize = 4;

/// Kinds of a member's messages.
pub const MESSAGE: u8 = 0;
pub const REQUEST: u8 = 1;
pub const LEAVE: u8 = 2;
/// All subscriptions of the member, in place of those before.
pub const SUBSCRIBE: u8 = 3;
/// A message of a topic.
pub const PUBLISH: u8 = 4;
/// The sender of stored messages says who it is; the answer is a token.
pub const INTRODUCE: u8 = 5;
/// The member says which memory it has of the hub's stored messages: a token. The answer
/// is the session's number of the first message that the hub sends to it.
pub const MEMORY: u8 = 6;
/// What became of a stored message of the hub at the member: its number, a kind of [`reply`], the answer.
pub const RECEIPT: u8 = 7;
/// Bit of a kind: the message is stored, and its number over all starts precedes it.
pub const STORED: u8 = 0x80;

/// Kinds of the hub's replies.
pub mod reply {
    /// The application has taken the message.
    pub const TAKEN: u8 = 0;
    /// The application will never have it.
    pub const REFUSED: u8 = 1;
    /// The application has taken the request; its answer follows.
    pub const ANSWER: u8 = 2;
    /// A former start of the member had the message, and it is not known whether its application has
    /// taken it.
    pub const UNKNOWN: u8 = 3;
}

/// The member that claims to have sent a datagram, and its frame; `None` if it is no such
/// datagram.
pub fn take_member(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (member, frame) = datagram.strip_prefix(&[UP])?.split_first_chunk()?;
    Some((u16::from_be_bytes(*member), frame))
}

/// What a lane needs to know of the path.
#[derive(Debug, Clone, Copy)]
pub struct Path {
    /// Maximum datagram size, in bytes.
    pub datagram: usize,
    /// Header bytes on the wire below a datagram.
    pub below: usize,
    /// Maximum sending rate, in bit/s.
    pub rate_bit_s: f64,
    /// Round-trip time.
    pub round_trip: Span,
    /// Whether the data rate is an estimate, not configured.
    pub estimated: bool,
}

/// One end of a lane.
pub struct Lane {
    head: Vec<u8>,
    own: Keys,
    other: Keys,
    /// Bytes that sealing adds.
    seal: usize,
    arq: Arq,
}

impl Lane {
    /// The end of `own`, of whose lane `member` is the member.
    pub fn new(root: &Root, own: Party, member: u16, path: Path) -> Self {
        let up = [&[UP], &member.to_be_bytes()[..]].concat();
        let (other, head) = match own {
            Party::Hub => (Party::Member(member), vec![DOWN]),
            Party::Member(_) => (Party::Hub, up),
        };
        let params = Params {
            root: root.clone(),
            pair: root.clone(),
            // The keys are those of a start of the member: a lane outlasts changes of the model
            // (decision 84).
            epoch: 0,
            members: 1,
            datagram: path.datagram.saturating_sub(head.len()),
            below: path.below + head.len(),
            rate_bit_s: path.rate_bit_s,
            loss: 0.0,
            round_trip: path.round_trip,
            wait: path.round_trip,
            estimated: path.estimated,
            answered: false,
            answer: 0,
            efficient: false,
            // The ARQ makes no random decisions.
            seed: Seed::reproducible(0),
        };
        let keys = |from| root.keys(Scope::new(Use::Uplink, 0, from));
        // The hub's replies acknowledge a member's messages.
        let asks = own != Party::Hub;
        let arq = Arq::new(&params, Use::UplinkFrame, [own, other], asks);
        let seal = root.seal_len();
        Self { head, own: keys(own), other: keys(other), seal, arq }
    }

    /// The hub's datagram without its first byte; `None` if it is of another kind.
    pub fn frame(datagram: &[u8]) -> Option<&[u8]> {
        datagram.strip_prefix(&[DOWN])
    }

    /// Sets the maximum size of datagrams, in bytes, for messages from now on: the path may carry no longer
    /// ones.
    pub fn set_datagram(&mut self, datagram: usize) {
        self.arq.set_datagram(datagram.saturating_sub(self.head.len()));
    }

    /// Maximum size of a message, in bytes.
    pub fn longest(&self) -> usize {
        self.arq.longest_message().saturating_sub(NUMBER + self.seal)
    }

    /// Sends a message, or the reply to the one with the same number.
    ///
    /// # Errors
    /// The reason why it cannot be carried.
    pub fn send(
        &mut self,
        number: u32,
        plain: &[u8],
        until: Option<Instant>,
    ) -> Result<(), String> {
        let mut sealed = number.to_be_bytes().to_vec();
        sealed.extend(self.own.seal(number.into(), plain));
        self.arq.send(number.into(), sealed, until)
    }

    /// Handles a frame. Returns whether the other end has sent it, and completed messages.
    pub fn receive(&mut self, frame: &[u8], now: Instant) -> (bool, Vec<(u32, Vec<u8>)>) {
        let incoming = self.arq.receive(frame, now);
        // That the other end's transport has a message says nothing of its application (decision
        // 84).
        self.arq.take_delivered(&mut Vec::new());
        let open = |sealed: Vec<u8>| {
            let (number, sealed) = sealed.split_first_chunk()?;
            let number = u32::from_be_bytes(*number);
            Some((number, self.other.open(number.into(), sealed)?))
        };
        (incoming.genuine, incoming.envelopes.into_iter().filter_map(open).collect())
    }

    /// Drops a message; returns whether a part of it was sent.
    pub fn withdraw(&mut self, number: u32) -> bool {
        self.arq.withdraw(number.into())
    }

    /// Smoothed time until the other end's transport responds; `None` before it did.
    pub fn response_time(&self) -> Option<Span> {
        self.arq.response_time()
    }

    /// Whether a part of each message was sent.
    pub fn is_begun(&self) -> bool {
        self.arq.is_begun()
    }

    /// Whether a message is not acknowledged yet by the other end's transport.
    pub fn has(&self, number: u32) -> bool {
        self.arq.has(number.into())
    }

    /// The next datagram at `now`, and the time of the next poll.
    pub fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        let (frame, wake) = self.arq.poll(now);
        (frame.map(|frame| [&self.head[..], &frame].concat()), wake)
    }
}
