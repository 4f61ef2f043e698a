//! OPC UA's binary protocol over TCP: chunks with a type (OPC 10000-6, section 7.1.2).

use crate::message_names::OPCUA as NAMES;
use crate::messages::Messages;
use crate::parser::{Grammar, Need};

/// Places in `NAMES`.
const OPN: usize = 4;
const MSG: usize = 6;
const MESSAGE: usize = 7;
const ABORTED: usize = 8;

/// Length of the header in bytes: type, chunk type, and the length in four bytes.
const HEADER: usize = 8;
/// The length of a chunk's fields before its body: channel, token, sequence number,
/// request.
const SECURITY: u64 = 16;
/// The maximum chunk length; implementations use 64 KiB.
const LONGEST_CHUNK: u32 = 1 << 24;

#[derive(Debug)]
pub(crate) struct OpcUa {
    /// The current chunk: its type and its final flag.
    chunk: Option<(usize, u8)>,
    /// The application's part of it, in bytes.
    body: u64,
}

impl OpcUa {
    pub(crate) const FIRST: Need = Need::Header(HEADER);

    pub(crate) fn new() -> Self {
        Self { chunk: None, body: 0 }
    }

    /// Whether a connection begins like this: with a HEL, ACK or RHE chunk.
    pub(crate) fn begins(bytes: &[u8]) -> bool {
        matches!(read(bytes), Some((0 | 1 | 3, b'F', _)))
    }
}

/// A chunk's type, its final flag, and its length.
fn read(header: &[u8]) -> Option<(usize, u8, u32)> {
    let kind = NAMES[..MESSAGE].iter().position(|name| header.starts_with(name.as_bytes()))?;
    let last = *header.get(3)?;
    let length = u32::from_le_bytes(header.get(4..HEADER)?.try_into().ok()?);
    let known = matches!(last, b'F' | b'C' | b'A') && (last == b'F' || kind == MSG);
    (known && (HEADER as u32..LONGEST_CHUNK).contains(&length)).then_some((kind, last, length))
}

impl Grammar for OpcUa {
    const LONGEST: usize = HEADER;

    fn next(&mut self, header: &[u8], messages: &mut Messages) -> Need {
        if header.is_empty() {
            if self.body > 0 {
                return Need::Payload(std::mem::take(&mut self.body));
            }
            if let Some((kind, last)) = self.chunk {
                messages.opcua[kind] += 1;
                messages.all += u64::from(last != b'C');
                if kind >= OPN {
                    messages.opcua[MESSAGE] += u64::from(last == b'F');
                    messages.opcua[ABORTED] += u64::from(last == b'A');
                }
            }
            return self.restart();
        }
        let Some((kind, last, length)) = read(header) else { return Need::Invalid };
        let left = u64::from(length) - HEADER as u64;
        self.chunk = Some((kind, last));
        self.body = if kind == MSG { left.saturating_sub(SECURITY) } else { 0 };
        Need::Pass(left - self.body)
    }

    fn restart(&mut self) -> Need {
        self.chunk = None;
        self.body = 0;
        Self::FIRST
    }

    fn plausible(&self, bytes: &[u8]) -> bool {
        read(bytes).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::Parser;
    use crate::stream::Piece;

    fn chunk(kind: &[u8; 4], body: usize) -> Vec<u8> {
        let mut chunk = kind.to_vec();
        chunk.extend((body as u32 + 8).to_le_bytes());
        chunk.resize(8 + body, 3);
        chunk
    }

    #[test]
    fn chunks_make_messages() {
        let mut all = chunk(b"HELF", 40);
        assert!(OpcUa::begins(&all));
        for (kind, body) in [(b"OPNF", 60), (b"MSGC", 116), (b"MSGF", 20), (b"MSGA", 16)] {
            all.extend(chunk(kind, body));
        }
        let mut parser = Parser::new(OpcUa::new(), OpcUa::FIRST);
        let mut messages = Messages::default();
        let mut payload = 0;
        for part in all.chunks(7) {
            payload += parser.take(Piece::Bytes(part), &mut messages).payload;
        }
        assert_eq!(messages.opcua, [1, 0, 0, 0, 1, 0, 3, 2, 1]);
        assert_eq!((payload, messages.all), (104, 4));
    }
}
