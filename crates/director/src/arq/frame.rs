//! Datagrams of `udp-arq` as they go on the wire.

/// Chunks of a message at most.
pub const MOST_CHUNKS: usize = 256;
/// Bytes before the data of a chunk.
pub const HEADER: usize = 11;
/// An attempt of this number or a later one: which, nobody can say.
pub const LAST_ATTEMPT: u8 = 15;

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
        /// The attempt to have the message over that it is of, from 0 to [`LAST_ATTEMPT`].
        attempt: u8,
        /// In an answer's chunks: the attempt at what is answered that this is due to.
        echo: u8,
        /// The part.
        data: Vec<u8>,
    },
    /// What a receiver has of a message: a bit for each chunk, of the lowest first.
    Acknowledge {
        /// The message.
        message: u64,
        /// The attempt that it is due to.
        echo: u8,
        /// The chunks.
        had: Vec<u8>,
    },
}

/// Seven bytes of a message's number: no session gets that far.
fn number(message: u64) -> [u8; 7] {
    let [_, rest @ ..] = message.to_be_bytes();
    rest
}

/// What all begin with after the kind: a byte of attempts, the message's number; and the rest.
fn head(bytes: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    let whole = u64::from_be_bytes(*head);
    Some((head[0], whole & (u64::MAX >> 8), rest))
}

impl Datagram {
    /// As it goes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Chunk { message, index, last, asks, attempt, echo, data } => {
                let mut bytes = Vec::with_capacity(HEADER + data.len());
                bytes.push(CHUNK | if *asks { ASKS } else { 0 });
                bytes.push(attempt.min(&LAST_ATTEMPT) << 4 | echo.min(&LAST_ATTEMPT));
                bytes.extend_from_slice(&number(*message));
                bytes.extend_from_slice(&[*index, *last]);
                bytes.extend_from_slice(data);
                bytes
            }
            Self::Acknowledge { message, echo, had } => {
                let mut bytes = vec![ACKNOWLEDGE];
                bytes.push(*echo.min(&LAST_ATTEMPT));
                bytes.extend_from_slice(&number(*message));
                bytes.extend_from_slice(had);
                bytes
            }
        }
    }

    /// The message that a chunk is of, the attempt that it is of, and that which it is due to;
    /// nothing if it is no chunk.
    pub fn chunk_of(bytes: &[u8]) -> Option<(u64, u8, u8)> {
        let (kind, rest) = bytes.split_first()?;
        let (attempts, message, _) = head(rest)?;
        (kind & !ASKS == CHUNK).then_some((message, attempts >> 4, attempts & LAST_ATTEMPT))
    }

    /// What came; nothing if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (attempts, message, rest) = head(rest)?;
        match kind & !ASKS {
            CHUNK => {
                let [index, last, data @ ..] = rest else { return None };
                (index <= last).then(|| Self::Chunk {
                    message,
                    index: *index,
                    last: *last,
                    asks: kind & ASKS != 0,
                    attempt: attempts >> 4,
                    echo: attempts & LAST_ATTEMPT,
                    data: data.to_vec(),
                })
            }
            ACKNOWLEDGE if kind & ASKS == 0 && rest.len() <= MOST_CHUNKS / 8 => {
                let echo = attempts.min(LAST_ATTEMPT);
                Some(Self::Acknowledge { message, echo, had: rest.to_vec() })
            }
            _ => None,
        }
    }
}
