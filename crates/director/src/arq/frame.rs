//! Datagrams of `udp-arq` as they go on the wire.

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

    /// The message that a chunk is of; nothing if it is no chunk.
    pub fn chunk_of(bytes: &[u8]) -> Option<u64> {
        let (kind, rest) = bytes.split_first()?;
        (kind & !ASKS == CHUNK).then_some(u64::from_be_bytes(*rest.first_chunk()?))
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
