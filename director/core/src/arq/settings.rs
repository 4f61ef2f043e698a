//! Settings of a sender, and what it reports.

use crate::capacity::{Known, Train};
use crate::{Instant, Span};

/// Bytes in flight up to which [`ArqSettings::most`] counts four times: else short messages could not fill a
/// long path.
pub const SHORT: usize = 256 * 1024;
/// Bytes in flight from which on no further message begins. With the longest message (4 MiB), a receiver has room
/// for them ([`MAX_HELD`]).
pub const MAX_FLIGHT: usize = 8 << 20;
/// Maximum number of bytes of incomplete messages that a receiver keeps.
pub const MAX_HELD: usize = 16 << 20;

/// Pacing and timeout of a sender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArqSettings {
    /// Maximum datagram size, in bytes.
    pub datagram: usize,
    /// Header bytes on the wire below a datagram, for pacing.
    pub below: usize,
    /// Maximum sending rate, in bit/s.
    pub rate_bit_s: f64,
    /// Initial acknowledgement timeout; replaced by an estimate after the first round-trip
    /// sample.
    pub timeout: Span,
    /// Least timeout until eight response times are known.
    pub at_first: Span,
    /// Maximum number of messages in flight, or four times as many short ones ([`SHORT`]); others are
    /// queued.
    pub most: usize,
    /// Bytes that may go at once after a pause.
    pub burst: usize,
    /// Whether the sender measures the path and adapts its rate; otherwise its user does.
    pub adapts: bool,
    /// Whether the rate is an estimate, not an upper limit.
    pub estimated: bool,
}

impl Default for ArqSettings {
    fn default() -> Self {
        Self {
            datagram: 1_200,
            below: 42,
            rate_bit_s: 10e6,
            timeout: Span::from_ms(200),
            at_first: Span::ZERO,
            most: 32,
            burst: 0,
            adapts: false,
            estimated: false,
        }
    }
}

/// A request that an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The attempt that has arrived.
    pub attempt: u8,
    /// Its arrival time.
    pub at: Instant,
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
    /// It has this number of bytes, and the maximum that the format's number of chunks carries.
    #[error(
        "it has {0} bytes with its envelope, and {1} are the maximum with datagrams of this size: send it in parts"
    )]
    Long(usize, usize),
    /// Datagrams cannot hold a chunk.
    #[error("datagrams of {0} bytes have no room for data")]
    Small(usize),
}

/// A reply to an attempt to send a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Response {
    /// Time from the attempt to the reply.
    pub time: Span,
    /// Number of attempts before it, which were lost or are late.
    pub before: u32,
}

/// What the sender learns from an acknowledgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AckReport {
    /// Received chunks of the last train.
    pub received: u32,
    /// Lost chunks of it.
    pub lost: u32,
    /// Round-trip time of the path, if known.
    pub round_trip: Option<Span>,
    /// The same with the time for which the receiver held the message, if known.
    pub response: Option<Response>,
    /// The bytes of these chunks, if their train is known.
    pub known: Known,
    /// The train that it acknowledges, if known.
    pub train: Option<Train>,
}

impl AckReport {
    /// The same with what arrived together with it. An acknowledgement was held back for the least time
    /// for the message with the shortest round trip, and the last train includes the others.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        fn least<T: Ord>(own: Option<T>, other: Option<T>) -> Option<T> {
            own.into_iter().chain(other).min()
        }
        let fresh = self.known.received + other.known.received;
        Self {
            received: self.received + other.received,
            lost: self.lost + other.lost,
            known: Known {
                bytes: self.known.bytes + other.known.bytes,
                received: self.known.received + other.known.received,
            },
            round_trip: least(self.round_trip, other.round_trip),
            response: least(self.response, other.response),
            train: other.train.or(self.train).map(|train| Train { fresh, ..train }),
        }
    }
}
