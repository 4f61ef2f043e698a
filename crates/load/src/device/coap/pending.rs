//! Requests to be answered, and the encoding of answers.

use crate::coap::{self, Block, CHANGED, CONTENT, DELETED, Kind, Message, Writer, number};
use crate::socket::Address;
use trace::LARGEST_BLOCK;

/// A request to be answered.
#[derive(Clone, Copy)]
pub(crate) struct PendingRequest {
    pub resource: usize,
    pub to: Address,
    pub kind: Kind,
    pub code: u8,
    pub id: u16,
    token: [u8; 8],
    length: usize,
    pub shape: Shape,
}

/// The options of an answer, in addition to its code and content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The last block of the request.
    pub block1: Option<Block>,
    /// The block of the answer that the client requested.
    pub block2: Option<Block>,
    /// The sequence number of an observation.
    pub observe: Option<u32>,
    /// The content format that the client requested.
    pub format: Option<u32>,
    /// Whether to state the full size (Size2).
    pub size2: bool,
}

/// The content of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    /// A representation and its entity tag.
    Representation(&'a [u8], &'a [u8]),
    /// A diagnostic text for an error.
    Diagnostic(&'static str),
    /// No content.
    None,
}

impl PendingRequest {
    pub fn new(message: &Message, to: &Address, resource: usize, shape: Shape) -> Self {
        let mut token = [0; 8];
        let length = message.token.len().min(8);
        token[..length].copy_from_slice(&message.token[..length]);
        let (kind, code, id) = (message.kind, message.code, message.id);
        Self { resource, to: *to, kind, code, id, token, length, shape }
    }

    pub fn token(&self) -> &[u8] {
        &self.token[..self.length]
    }

    /// The code of a successful answer (RFC 7252, section 5.8; RFC 8132).
    pub fn success_code(&self) -> u8 {
        match self.code {
            1 | 5 => CONTENT,
            4 => DELETED,
            _ => CHANGED,
        }
    }

    /// Writes an answer as a message of this type and ID. Returns its length.
    pub fn write(&self, room: &mut [u8], kind: Kind, id: u16, code: u8, content: Content) -> usize {
        let (bytes, etag): (&[u8], &[u8]) = match content {
            Content::Representation(bytes, etag) => (bytes, etag),
            Content::Diagnostic(diagnostic) => (diagnostic.as_bytes(), &[]),
            Content::None => (&[], &[]),
        };
        let shape = &self.shape;
        // The common case, a plain answer, does not order or encode options.
        if *shape == Shape::default() && bytes.len() <= usize::from(LARGEST_BLOCK) {
            return coap::answer(room, kind, code, id, self.token(), bytes);
        }
        let mut writer = Writer::new(room, kind, code, id, self.token());
        let block = self.block(bytes.len());
        let whole = matches!(content, Content::Representation(..));
        // With it, a client detects blocks of different representations (RFC 7959, 2.4).
        if whole && block.is_some_and(|block| block.more || block.number > 0) {
            writer.option(number::ETAG, etag);
        }
        if let Some(observe) = shape.observe.filter(|_| whole) {
            writer.uint(number::OBSERVE, observe);
        }
        if let Some(format) = shape.format.filter(|_| whole) {
            writer.uint(number::CONTENT_FORMAT, format);
        }
        // Options must be in the order of their numbers: Block2 is 23, Block1 27, Size2 28.
        for (option, block) in
            [(number::BLOCK2, block.filter(|_| whole)), (number::BLOCK1, shape.block1)]
        {
            if let Some(block) = block {
                writer.option(option, &block.encode());
            }
        }
        if shape.size2 && whole {
            writer.uint(number::SIZE2, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        let part = match block {
            Some(block) if whole => {
                let begin = block.offset().min(bytes.len());
                &bytes[begin..(begin + block.size()).min(bytes.len())]
            }
            _ => bytes,
        };
        writer.end(part)
    }

    /// The Block2 option of an answer with this many bytes; None if it needs none.
    fn block(&self, length: usize) -> Option<Block> {
        let requested = self.shape.block2;
        if requested.is_none() && length <= usize::from(LARGEST_BLOCK) {
            return None;
        }
        let first = Block { number: 0, more: false, exponent: 6 };
        let block = requested.unwrap_or(first);
        Some(Block { more: block.offset() + block.size() < length, ..block })
    }

    /// Whether an answer with this many bytes has the requested block.
    pub fn is_within(&self, length: usize) -> bool {
        self.shape.block2.is_none_or(|block| block.number == 0 || block.offset() < length)
    }

    /// A request from its parts, for tests.
    #[cfg(test)]
    pub fn of(peer: std::net::SocketAddr, resource: usize, token: &[u8]) -> Self {
        let mut room = [0; 32];
        let length = coap::answer(&mut room, Kind::NonConfirmable, 1, 7, token, b"");
        let message = Message::parse(&room[..length]).unwrap();
        Self::new(&message, &Address::new(peer), resource, Shape::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coap::AnswerOptions;

    const BODY: [u8; 2_500] = [b'2'; 2_500];

    fn written(shape: Shape, content: Content) -> Vec<u8> {
        let to = ([10, 0, 0, 1], 5683).into();
        let pending = PendingRequest { shape, ..PendingRequest::of(to, 0, b"tok") };
        let mut room = vec![0; 2_048];
        let length = pending.write(&mut room, Kind::NonConfirmable, 9, CONTENT, content);
        room.truncate(length);
        room
    }

    fn read(bytes: &[u8]) -> (AnswerOptions<'_>, usize) {
        let message = Message::parse(bytes).unwrap();
        assert_eq!((message.id, message.token), (9, &b"tok"[..]));
        (AnswerOptions::read(&message).unwrap(), message.payload.len())
    }

    #[test]
    fn a_short_answer_has_no_options() {
        let bytes = written(Shape::default(), Content::Representation(b"21.5", b"tag"));
        let message = Message::parse(&bytes).unwrap();
        assert!(!message.has_options() && message.payload == b"21.5");
        let bytes = written(Shape::default(), Content::None);
        assert_eq!(read(&bytes).1, 0);
    }

    #[test]
    fn a_long_answer_goes_in_blocks_of_the_size_that_was_asked_for() {
        let bytes = written(Shape::default(), Content::Representation(&BODY, b"tag"));
        let (options, carried) = read(&bytes);
        assert_eq!((options.block2, carried), (Block::at(0, 1_024, true), 1_024));
        assert_eq!(options.etag, Some(&b"tag"[..]));
        let request =
            |offset, size| Shape { block2: Block::at(offset, size, false), ..Shape::default() };
        let bytes = written(request(2_048, 1_024), Content::Representation(&BODY, b"tag"));
        let (options, carried) = read(&bytes);
        assert_eq!((options.block2, carried), (Block::at(2_048, 1_024, false), 452));
        let bytes = written(request(64, 64), Content::Representation(&BODY[..128], b"tag"));
        let (options, carried) = read(&bytes);
        assert_eq!((options.block2, carried), (Block::at(64, 64, false), 64));
        // An answer that fits into one block states that.
        let bytes = written(request(0, 64), Content::Representation(b"21.5", b"tag"));
        let (options, carried) = read(&bytes);
        assert_eq!((options.block2, options.etag, carried), (Block::at(0, 64, false), None, 4));
    }

    #[test]
    fn an_answer_has_what_was_asked_for() {
        let shape = Shape {
            block1: Block::at(64, 64, false),
            observe: Some(5),
            format: Some(40),
            size2: true,
            ..Shape::default()
        };
        let bytes = written(shape, Content::Representation(b"21.5", b"tag"));
        let message = Message::parse(&bytes).unwrap();
        let numbers: Vec<u16> = message.options().map(|(number, _)| number).collect();
        assert_eq!(numbers, [6, 12, 27, 28]);
        // An error has only the options that refer to the request.
        let bytes = written(shape, Content::Diagnostic("no such resource"));
        let message = Message::parse(&bytes).unwrap();
        let numbers: Vec<u16> = message.options().map(|(number, _)| number).collect();
        assert_eq!(numbers, [27]);
    }

    #[test]
    fn blocks_beyond_the_end_are_seen() {
        let to = ([10, 0, 0, 1], 5683).into();
        let within = |offset, length| {
            let shape = Shape { block2: Block::at(offset, 64, false), ..Shape::default() };
            PendingRequest { shape, ..PendingRequest::of(to, 0, b"") }.is_within(length)
        };
        assert!(within(0, 0) && within(64, 65) && !within(64, 64) && !within(64, 0));
    }
}
