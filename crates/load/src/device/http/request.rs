//! Parses heads of HTTP requests: resource, body length, or the status of a refusal.
//! Without I/O.

use crate::coap::decoded;
use crate::http::{Body, content_length, has_token};

/// The maximum length of a head, in bytes; 431 beyond.
pub(crate) const LONGEST_HEAD: usize = 16_384;
/// The maximum length of a request line, in bytes; 414 beyond. RFC 9112, section 3,
/// requires at least 8,000.
const LONGEST_LINE: usize = 8_192;
/// The maximum size of a body, in bytes; 413 beyond.
pub(crate) const LARGEST_BODY: u64 = 1 << 20;
/// The supported methods, in the format of the Allow header.
pub(crate) const ALLOWED: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";

/// A request with a complete head.
#[derive(Debug)]
pub(crate) struct Request {
    /// The length of its head, in bytes.
    pub length: usize,
    /// The path of its resource, decoded, without the leading slash.
    pub path: Vec<u8>,
    pub is_head: bool,
    pub body: Body,
    /// Whether the connection stays open afterwards.
    pub keep_alive: bool,
    pub is_1_0: bool,
    /// Whether the client waits for 100 (Continue) before it sends the body.
    pub expects_continue: bool,
}

/// The result of parsing.
#[derive(Debug)]
pub(crate) enum Head {
    /// The head is incomplete.
    More,
    Request(Request),
    /// The request is refused with this status; the connection closes.
    Refused(&'static str),
}

/// Parses the head at the start of the bytes.
pub(crate) fn parse(bytes: &[u8]) -> Head {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= LONGEST_HEAD => length,
        Ok(_) => return too_long(bytes).map_or(Head::More, Head::Refused),
        Err(httparse::Error::TooManyHeaders) => {
            return Head::Refused("431 Request Header Fields Too Large");
        }
        Err(httparse::Error::Version) => return Head::Refused("505 HTTP Version Not Supported"),
        // The length first: a head that is cut at the limit may also be invalid.
        Err(_) => return Head::Refused(too_long(bytes).unwrap_or("400 Bad Request")),
    };
    match read(&request, length) {
        Ok(request) => Head::Request(request),
        Err(status) => Head::Refused(status),
    }
}

/// The status of the refusal if an incomplete head is already too long.
fn too_long(bytes: &[u8]) -> Option<&'static str> {
    let line = bytes.iter().position(|byte| *byte == b'\n');
    if line.unwrap_or(bytes.len()) > LONGEST_LINE {
        return Some("414 URI Too Long");
    }
    (bytes.len() > LONGEST_HEAD).then_some("431 Request Header Fields Too Large")
}

fn read(request: &httparse::Request, length: usize) -> Result<Request, &'static str> {
    const BAD: &str = "400 Bad Request";
    let headers = &*request.headers;
    let is = |name: &str| headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name)).count();
    let is_1_0 = request.version == Some(0);
    // HTTP/1.1 requires exactly one Host, HTTP/1.0 at most one (RFC 9112, section 3.2).
    if is("host") > 1 || is("host") == 0 && !is_1_0 {
        return Err(BAD);
    }
    let is_head = match request.method {
        Some("HEAD") => true,
        Some("GET" | "POST" | "PUT" | "PATCH" | "DELETE") => false,
        // Known methods without support get 405, unknown ones 501 (RFC 9110, 9.1).
        Some("OPTIONS" | "TRACE" | "CONNECT") => return Err("405 Method Not Allowed"),
        _ => return Err("501 Not Implemented"),
    };
    let target = request.path.unwrap_or_default();
    if target.len() > LONGEST_LINE {
        return Err("414 URI Too Long");
    }
    // The absolute form of a URI is allowed too (section 3.2.2).
    let path = match target.split_once("://") {
        Some(("http" | "HTTP", rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        _ => target,
    };
    let path = path.strip_prefix('/').ok_or(BAD)?;
    let path = decoded(path.split('?').next().unwrap_or_default());
    let body = match (is("transfer-encoding"), content_length(headers).map_err(|_| BAD)?) {
        (0, None) => Body::of(0),
        (0, Some(length)) if length > LARGEST_BODY => return Err("413 Content Too Large"),
        (0, Some(length)) => Body::of(length),
        // Both headers, or chunked coding in HTTP/1.0: servers may disagree on the length
        // (section 6.1).
        (_, Some(_)) => return Err(BAD),
        _ if is_1_0 => return Err(BAD),
        (1, None) if only(headers, "transfer-encoding", "chunked") => Body::chunked(),
        _ => return Err("501 Not Implemented"),
    };
    let expects_continue = match is("expect") {
        0 => false,
        1 if only(headers, "expect", "100-continue") => !is_1_0,
        _ => return Err("417 Expectation Failed"),
    };
    let keep_alive = match is_1_0 {
        true => has_token(headers, "connection", "keep-alive"),
        false => !has_token(headers, "connection", "close"),
    };
    Ok(Request { length, path, is_head, body, keep_alive, is_1_0, expects_continue })
}

/// Whether the header of this name has only this value.
fn only(headers: &[httparse::Header], name: &str, what: &str) -> bool {
    let own = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    own.map(|header| header.value.trim_ascii())
        .all(|value| value.eq_ignore_ascii_case(what.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(text: &str) -> Request {
        match parse(text.as_bytes()) {
            Head::Request(request) => request,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn refused(text: &str) -> &'static str {
        match parse(text.as_bytes()) {
            Head::Refused(status) => &status[..3],
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn requests_say_what_they_want() {
        let get = request("GET /a%20b/c?d HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(
            (get.path.as_slice(), get.keep_alive, get.is_head),
            (&b"a b/c"[..], true, false)
        );
        assert!(request("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n").is_head);
        let whole =
            request("GET http://x:80/a HTTP/1.1\r\nHost: x\r\nConnection: foo, Close\r\n\r\n");
        assert_eq!((whole.path.as_slice(), whole.keep_alive), (&b"a"[..], false));
        let old = request("GET /a HTTP/1.0\r\n\r\n");
        assert!(old.is_1_0 && !old.keep_alive);
        assert!(request("GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
        let expects_continue =
            "PUT /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
        assert!(request(expects_continue).expects_continue);
    }

    #[test]
    fn what_cannot_be_served_is_refused_by_its_status() {
        let with = |lines: &str| refused(&format!("PUT /a HTTP/1.1\r\nHost: x\r\n{lines}\r\n"));
        assert_eq!(refused("GET /a HTTP/1.1\r\n\r\n"), "400", "no host");
        assert_eq!(with("Host: y\r\n"), "400");
        assert_eq!(refused("\x16\x03\x01 what?\r\n\r\n"), "400");
        assert_eq!(refused("GET /a HTTP/2.0\r\nHost: x\r\n\r\n"), "505");
        assert_eq!(refused("BREW /a HTTP/1.1\r\nHost: x\r\n\r\n"), "501");
        assert_eq!(refused("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"), "405");
        assert_eq!(refused("GET a HTTP/1.1\r\nHost: x\r\n\r\n"), "400");
        assert_eq!(with("Content-Length: 1048577\r\n"), "413");
        assert_eq!(with("Content-Length: 5\r\nContent-Length: 6\r\n"), "400");
        assert_eq!(with("Content-Length: -5\r\n"), "400");
        assert_eq!(with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), "400");
        assert_eq!(with("Transfer-Encoding: gzip, chunked\r\n"), "501");
        assert_eq!(with("Expect: tea\r\n"), "417");
        let old = "PUT /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(refused(old), "400");
    }

    #[test]
    fn absurd_heads_are_refused_before_they_end() {
        let long = "x".repeat(LONGEST_LINE + 1);
        assert_eq!(refused(&format!("GET /{long}")), "414");
        assert_eq!(refused(&format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n")), "414");
        let header = format!("X: {}\r\n", "y".repeat(4_000));
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\n{}", header.repeat(5))), "431");
        let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "X: y\r\n".repeat(65));
        assert_eq!(refused(&many), "431");
        assert!(matches!(parse(b"GET / HTTP/1.1\r\nHost:"), Head::More));
        assert!(matches!(parse(b""), Head::More));
    }

    proptest! {
        #[test]
        fn any_bytes_are_no_panic_and_heads_are_bounded(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            times in 1usize..200,
        ) {
            let bytes = bytes.repeat(times);
            match parse(&bytes) {
                Head::More => prop_assert!(bytes.len() <= LONGEST_HEAD),
                Head::Request(request) => prop_assert!(request.length <= bytes.len()),
                Head::Refused(status) => prop_assert!(status.as_bytes()[0] >= b'4'),
            }
        }
    }
}
