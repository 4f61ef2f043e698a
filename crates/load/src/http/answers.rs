//! Parses HTTP/1.0 and HTTP/1.1 responses in a stream of bytes, RFC 9112: the end and the
//! status of each. Without I/O.

use super::body::{Body, Part};
use super::headers::{content_length, has_token};

/// The maximum length of a response's head, in bytes.
const LONGEST_HEAD: usize = 65_536;

/// The part of a response that is still to come.
#[derive(Debug)]
enum Rest {
    Head,
    Body(Body),
    /// The body ends with the connection.
    ToEnd,
}

/// The result of parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A response with this status is complete.
    Answer(u16),
    /// The bytes are not a valid response; the reason.
    Garbage(&'static str),
}

/// The parser of one connection's responses.
#[derive(Debug)]
pub(crate) struct Answers {
    rest: Rest,
    status: u16,
    last: bool,
}

impl Answers {
    pub fn new() -> Self {
        Self { rest: Rest::Head, status: 0, last: false }
    }

    /// Whether the server closes the connection after the current response.
    pub fn is_last(&self) -> bool {
        self.last
    }

    /// Handles the end of the connection. Returns the status of a response that ends with
    /// it.
    pub fn end(&mut self) -> Option<u16> {
        let whole = matches!(self.rest, Rest::ToEnd);
        self.rest = Rest::Head;
        whole.then_some(self.status)
    }

    /// Parses bytes until a response ends or no bytes are left. Returns the number of bytes
    /// consumed and the result. `head` marks the response to a HEAD request, which has no
    /// body.
    pub fn parse(&mut self, bytes: &[u8], head: bool) -> (usize, Option<Found>) {
        let mut used = 0;
        loop {
            let there = &bytes[used..];
            match &mut self.rest {
                Rest::Head => match self.head(there, head) {
                    Ok(0) => return (used, None),
                    Ok(length) => used += length,
                    Err(why) => return (used, Some(Found::Garbage(why))),
                },
                Rest::Body(body) => {
                    let (length, part) = body.parse(there);
                    used += length;
                    let found = match part {
                        Part::More => return (used, None),
                        Part::End => Found::Answer(self.status),
                        Part::Bad(why) => Found::Garbage(why),
                    };
                    self.rest = Rest::Head;
                    return (used, Some(found));
                }
                Rest::ToEnd => return (bytes.len(), None),
            }
        }
    }

    /// Parses a head. Returns its length, or 0 if it is incomplete.
    fn head(&mut self, there: &[u8], head: bool) -> Result<usize, &'static str> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(there) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if there.len() < LONGEST_HEAD => return Ok(0),
            _ => return Err("not an HTTP answer"),
        };
        let status = response.code.unwrap_or(0);
        // 1xx is an interim response; the final one follows (RFC 9110, section 15.2).
        if (100..200).contains(&status) {
            return Ok(length);
        }
        let headers = &*response.headers;
        let chunked = has_token(headers, "transfer-encoding", "chunked");
        let body = match content_length(headers)? {
            // These never have a body, whatever the headers say (RFC 9112, 6.3).
            _ if head || matches!(status, 204 | 304) => Rest::Body(Body::of(0)),
            // Chunked coding overrides a Content-Length; the connection must then be closed
            // (RFC 9112, section 6.3).
            _ if chunked => Rest::Body(Body::chunked()),
            Some(length) => Rest::Body(Body::of(length)),
            None => Rest::ToEnd,
        };
        let keeps = response.version != Some(0) || has_token(headers, "connection", "keep-alive");
        self.last = !keeps
            || matches!(body, Rest::ToEnd)
            || has_token(headers, "connection", "close")
            || chunked && content_length(headers)?.is_some();
        (self.status, self.rest) = (status, body);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Parses the bytes in pieces of that length. The last value says whether the
    /// connection can be reused.
    fn found(bytes: &[u8], piece: usize, closes: bool) -> (Vec<Found>, bool) {
        let mut answers = Answers::new();
        let (mut kept, mut all) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            kept.extend_from_slice(piece);
            loop {
                let (used, found) = answers.parse(&kept, false);
                kept.drain(..used);
                match found {
                    Some(found) => all.push(found),
                    None => break,
                }
                if matches!(found, Some(Found::Garbage(_))) {
                    return (all, false);
                }
            }
        }
        if closes {
            all.extend(answers.end().map(Found::Answer));
        }
        (all, !answers.is_last())
    }

    fn of(text: &str) -> (Vec<Found>, bool) {
        found(text.as_bytes(), usize::MAX, true)
    }

    const OK: Found = Found::Answer(200);

    #[test]
    fn answers_are_found_however_they_are_cut() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nh\r\n0\r\n\r\n",
            "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nConnection: x, Keep-Alive\r\nContent-Length: 0\r\n\r\n",
        ] {
            for piece in [1, 2, 7, 11, usize::MAX] {
                assert_eq!(found(text.as_bytes(), piece, false), (vec![OK], true), "{text}");
            }
        }
    }

    #[test]
    fn an_answer_may_be_the_last_of_its_connection() {
        for text in [
            "HTTP/1.0 200 OK\r\n\r\nhello",
            "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nto the end",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ] {
            assert_eq!(of(text), (vec![OK], false), "{text}");
        }
        let keeps = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(of(keeps), (vec![OK], true));
        // A truncated response is no response.
        assert_eq!(of("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello").0, []);
    }

    #[test]
    fn an_answer_to_head_has_no_body() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n";
        assert_eq!(Answers::new().parse(text, true), (text.len(), Some(OK)));
        assert_eq!(Answers::new().parse(text, false), (text.len(), None));
        let none = "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n";
        assert_eq!(of(none), (vec![Found::Answer(304)], true));
    }

    #[test]
    fn what_is_no_answer_says_why() {
        let why = |text: &str| match of(text).0.last() {
            Some(Found::Garbage(why)) => *why,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(why("\x16\x03\x01 what?\r\n\r\n"), "not an HTTP answer");
        for length in ["many", "-1", "+1", "1, 2", "", "99999999999999999999999"] {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            assert_eq!(why(&text), "a bad Content-Length", "{length}");
        }
        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(why(&format!("{chunks}five\r\n")), "a chunk without a size");
        let line = "x".repeat(LONGEST_HEAD);
        assert!(why(&format!("HTTP/1.1 200 OK\r\nX: {line}")).contains("not an HTTP"));
    }

    proptest! {
        /// Invalid bytes take bounded memory, and pieces of any size give the same result.
        #[test]
        fn any_bytes_are_no_panic(
            parts in proptest::collection::vec(prop_oneof![
                Just(b"HTTP/1.1 200 OK\r\n".to_vec()),
                Just(b"Content-Length: 3\r\n\r\nabc".to_vec()),
                Just(b"Transfer-Encoding: chunked\r\n\r\n".to_vec()),
                Just(b"3\r\nabc\r\n0\r\n\r\n".to_vec()),
                proptest::collection::vec(any::<u8>(), 0..40),
            ], 0..12),
            piece in 1usize..50,
        ) {
            let bytes = parts.concat();
            prop_assert_eq!(found(&bytes, piece, true), found(&bytes, usize::MAX, true));
        }
    }
}
