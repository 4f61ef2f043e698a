//! Parses bodies of HTTP messages, by length or in chunks (RFC 9112, sections 6 and 7.1).
//! Content is counted, not stored. Without I/O.

/// The maximum length of a chunk-size line, with extensions (section 7.1.1), in bytes.
const LONGEST_CHUNK_LINE: usize = 4_096;
/// The maximum length of a trailer line, in bytes.
const LONGEST_TRAILER: usize = 65_536;

/// The part of a body that is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Bytes(u64),
    ChunkSize,
    ChunkBytes(u64),
    ChunkEnd,
    Trailer,
}

/// The result of parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The body is incomplete.
    More,
    /// The body is complete.
    End,
    /// The body is invalid; the reason.
    Bad(&'static str),
}

/// The parser of one body.
#[derive(Debug)]
pub(crate) struct Body {
    rest: Rest,
    received: u64,
}

impl Body {
    /// A body of `length` bytes.
    pub fn of(length: u64) -> Self {
        Self { rest: Rest::Bytes(length), received: 0 }
    }

    /// A chunked body.
    pub fn chunked() -> Self {
        Self { rest: Rest::ChunkSize, received: 0 }
    }

    /// The number of content bytes received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Parses bytes. Returns the number of bytes consumed and the result.
    pub fn parse(&mut self, bytes: &[u8]) -> (usize, Part) {
        let mut used = 0;
        loop {
            let there = &bytes[used..];
            match self.rest {
                Rest::Bytes(0) => return (used, Part::End),
                Rest::Bytes(left) | Rest::ChunkBytes(left) => {
                    let taken = left.min(there.len() as u64);
                    if taken == 0 {
                        return (used, Part::More);
                    }
                    used += taken as usize;
                    self.received += taken;
                    self.rest = match self.rest {
                        Rest::Bytes(_) => Rest::Bytes(left - taken),
                        _ if left > taken => Rest::ChunkBytes(left - taken),
                        _ => Rest::ChunkEnd,
                    };
                }
                Rest::ChunkSize => match httparse::parse_chunk_size(there) {
                    Ok(httparse::Status::Complete((length, size))) => {
                        used += length;
                        self.rest = if size == 0 { Rest::Trailer } else { Rest::ChunkBytes(size) };
                    }
                    Ok(httparse::Status::Partial) if there.len() < LONGEST_CHUNK_LINE => {
                        return (used, Part::More);
                    }
                    _ => return (used, Part::Bad("a chunk without a size")),
                },
                Rest::ChunkEnd => match there {
                    [b'\r', b'\n', ..] => {
                        used += 2;
                        self.rest = Rest::ChunkSize;
                    }
                    // Half of the line end has arrived.
                    [] | [b'\r'] => return (used, Part::More),
                    _ => return (used, Part::Bad("a chunk longer than its size")),
                },
                Rest::Trailer => match there.windows(2).position(|two| two == b"\r\n") {
                    Some(end) => {
                        used += end + 2;
                        // An empty line ends the trailer.
                        if end == 0 {
                            self.rest = Rest::Bytes(0);
                        }
                    }
                    None if there.len() < LONGEST_TRAILER => return (used, Part::More),
                    None => return (used, Part::Bad("a trailer line that is too long")),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Parses a body in pieces of that length. Returns the result and the number of content
    /// bytes.
    fn parsed(mut body: Body, bytes: &[u8], piece: usize) -> (Part, u64) {
        let mut kept = Vec::new();
        for piece in bytes.chunks(piece) {
            kept.extend_from_slice(piece);
            let (used, part) = body.parse(&kept);
            kept.drain(..used);
            if part != Part::More {
                return (part, body.received());
            }
        }
        (body.parse(&kept).1, body.received())
    }

    #[test]
    fn chunks_end_with_an_empty_one() {
        let chunks = b"5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nA: b\r\n\r\n";
        for piece in [1, 2, 3, 7, 100] {
            assert_eq!(parsed(Body::chunked(), chunks, piece), (Part::End, 15), "{piece}");
            assert_eq!(parsed(Body::of(20), chunks, piece), (Part::End, 20));
        }
        assert_eq!(parsed(Body::chunked(), &chunks[..30], 100).0, Part::More);
        assert_eq!(parsed(Body::of(0), b"", 1), (Part::End, 0));
    }

    #[test]
    fn what_is_no_body_says_why() {
        let why = |text: &str| match parsed(Body::chunked(), text.as_bytes(), usize::MAX).0 {
            Part::Bad(why) => why,
            other => panic!("{text}: {other:?}"),
        };
        let line = "x".repeat(LONGEST_TRAILER);
        assert_eq!(why("five\r\n"), "a chunk without a size");
        assert_eq!(why(&format!("5;{line}")), "a chunk without a size");
        assert_eq!(why("5\r\nhello!\r\n"), "a chunk longer than its size");
        assert_eq!(why("fffffffffffffffff\r\n"), "a chunk without a size");
        assert_eq!(why(&format!("0\r\n{line}")), "a trailer line that is too long");
    }

    proptest! {
        #[test]
        fn any_bytes_come_to_the_same_however_they_are_cut(
            bytes in proptest::collection::vec(
                prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'2'), Just(b'0'), any::<u8>()], 0..60,
            ),
            piece in 1usize..20,
        ) {
            let whole = parsed(Body::chunked(), &bytes, usize::MAX);
            prop_assert_eq!(parsed(Body::chunked(), &bytes, piece), whole);
        }
    }
}
