//! The datagrams of `udp-arq`.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;

/// Maximum number of chunks per message: an index has one byte.
pub const MAX_CHUNKS: usize = 256;
/// Header size of a chunk, in bytes.
pub const HEADER: usize = 4 + NUMBER;
/// Number of the last counted attempt, and of all later ones: it has four bits.
pub const LAST_ATTEMPT: u8 = 15;

const CHUNK: u8 = 0x10;
const ACKNOWLEDGE: u8 = 0x11;
const COMPLETE: u8 = 0x12;
/// Flag of a chunk that requests an acknowledgement.
const ASKS: u8 = 0x80;

/// Flag of an acknowledgement's attempt that the receiver held it.
const HELD: u8 = 0x80;

/// What triggered an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// The attempt that has arrived.
    pub attempt: u8,
    /// Whether the receiver held the acknowledgement, so that it tells nothing of the path's round trip.
    pub held: bool,
}

impl Echo {
    fn encode(self) -> u8 {
        self.attempt.min(LAST_ATTEMPT) | if self.held { HELD } else { 0 }
    }

    fn decode(byte: u8) -> Self {
        Self { attempt: (byte & !HELD).min(LAST_ATTEMPT), held: byte & HELD != 0 }
    }
}

/// Bytes of a message in [`Datagram::Complete`].
pub const COMPLETE_LEN: usize = 1 + NUMBER;

/// Whether `udp-arq` has datagrams with this first byte.
pub fn is_frame(first: u8) -> bool {
    matches!(first & !ASKS, CHUNK | ACKNOWLEDGE | COMPLETE)
}

/// A message that a receiver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Complete {
    /// The message.
    pub message: u64,
    /// What triggered the acknowledgement.
    pub echo: Echo,
}

/// A datagram, or a part of a bundle of them. The low nibble of the kind is 0 to 2, its high nibble
/// (without the flag) the version of the wire format, 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datagram {
    /// A chunk of a message.
    Chunk {
        /// The message.
        message: u64,
        /// Its index, from 0.
        index: u8,
        /// Index of the last chunk.
        last: u8,
        /// Whether it requests an acknowledgement.
        asks: bool,
        /// Number of the transmission attempt, from 0 to [`LAST_ATTEMPT`].
        attempt: u8,
        /// In answers: the attempt of the request that triggered this answer.
        echo: u8,
        /// The data.
        data: Vec<u8>,
    },
    /// The chunks that a receiver has: one bit per chunk, lowest first.
    Acknowledge {
        /// The message.
        message: u64,
        /// What triggered it.
        echo: Echo,
        /// The bits.
        received_chunks: Vec<u8>,
    },
    /// Messages that a receiver has: one or more.
    Complete(Vec<Complete>),
}

/// A chunk without its data.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkHead {
    pub message: u64,
    pub index: u8,
    pub last: u8,
    pub asks: bool,
    pub attempt: u8,
    pub echo: u8,
}

impl ChunkHead {
    /// A chunk, and its data; `None` if it is none, or not valid.
    pub fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (kind, rest) = bytes.split_first()?;
        let (attempts, message, [index, last, data @ ..]) = head(rest)? else { return None };
        let is_valid = kind & !ASKS == CHUNK && index <= last;
        let (asks, attempt, echo) = (kind & ASKS != 0, attempts >> 4, attempts & LAST_ATTEMPT);
        let head = Self { message, index: *index, last: *last, asks, attempt, echo };
        is_valid.then_some((head, data))
    }

    /// Appends the chunk with this data.
    pub fn write(&self, data: &[u8], bytes: &mut Vec<u8>) {
        bytes.push(CHUNK | if self.asks { ASKS } else { 0 });
        bytes.push(self.attempt.min(LAST_ATTEMPT) << 4 | self.echo.min(LAST_ATTEMPT));
        bytes.extend_from_slice(&number(self.message));
        bytes.extend_from_slice(&[self.index, self.last]);
        bytes.extend_from_slice(data);
    }
}

/// Bytes of a message number: enough for 100,000 messages a second in a hundred days.
const NUMBER: usize = 5;

/// The low bytes of a message number.
fn number(message: u64) -> [u8; NUMBER] {
    let [_, _, _, rest @ ..] = message.to_be_bytes();
    rest
}

/// Parses the common header after the kind: attempts, message number; returns the rest as well.
fn head(bytes: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (number, rest) = rest.split_first_chunk::<NUMBER>()?;
    let whole = number.iter().fold(0, |whole, byte| whole << 8 | u64::from(*byte));
    Some((*first, whole, rest))
}

impl Datagram {
    /// Encodes the datagram.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Chunk { message, index, last, asks, attempt, echo, data } => {
                let mut bytes = Vec::with_capacity(HEADER + data.len());
                let (index, last) = (*index, *last);
                let head = ChunkHead {
                    message: *message,
                    index,
                    last,
                    asks: *asks,
                    attempt: *attempt,
                    echo: *echo,
                };
                head.write(data, &mut bytes);
                bytes
            }
            Self::Acknowledge { message, echo, received_chunks } => {
                let mut bytes = vec![ACKNOWLEDGE];
                bytes.push(echo.encode());
                bytes.extend_from_slice(&number(*message));
                bytes.extend_from_slice(received_chunks);
                bytes
            }
            Self::Complete(messages) => {
                let mut bytes = Vec::with_capacity(1 + COMPLETE_LEN * messages.len());
                bytes.push(COMPLETE);
                for Complete { message, echo } in messages {
                    bytes.push(echo.encode());
                    bytes.extend_from_slice(&number(*message));
                }
                bytes
            }
        }
    }

    /// Message number, attempt and echo of a chunk; `None` if it is no chunk.
    pub fn chunk_of(bytes: &[u8]) -> Option<(u64, u8, u8)> {
        let (kind, rest) = bytes.split_first()?;
        let (attempts, message, _) = head(rest)?;
        (kind & !ASKS == CHUNK).then_some((message, attempts >> 4, attempts & LAST_ATTEMPT))
    }

    /// Decodes a datagram; `None` if it is invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        if *kind == COMPLETE {
            let (messages, []) = rest.as_chunks::<COMPLETE_LEN>() else { return None };
            let of = |bytes: &[u8; COMPLETE_LEN]| {
                let (echo, message, _) = head(bytes)?;
                Some(Complete { message, echo: Echo::decode(echo) })
            };
            let mut all = Vec::with_capacity(messages.len());
            all.extend(messages.iter().filter_map(of));
            return (!all.is_empty()).then_some(Self::Complete(all));
        }
        let (attempts, message, rest) = head(rest)?;
        match kind & !ASKS {
            CHUNK => {
                let (head, data) = ChunkHead::read(bytes)?;
                let ChunkHead { message, index, last, asks, attempt, echo } = head;
                let data = data.to_vec();
                Some(Self::Chunk { message, index, last, asks, attempt, echo, data })
            }
            ACKNOWLEDGE if kind & ASKS == 0 && rest.len() <= MAX_CHUNKS / 8 => {
                let echo = Echo::decode(attempts);
                Some(Self::Acknowledge { message, echo, received_chunks: rest.to_vec() })
            }
            _ => None,
        }
    }
}
