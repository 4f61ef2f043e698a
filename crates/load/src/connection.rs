//! One TCP connection: its requests in order, and the answers to them.

use crate::clock::{self, Nanos};
use crate::socket::Address;
use crate::template::{CAME, HTTP, Template, push_length};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use trace::Scheme;

/// The longest head of an HTTP answer.
const HEAD: usize = 65_536;
/// As much may wait to be written before no more is taken.
const FULL: usize = 1 << 20;

/// What has happened on a connection.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Nothing more for now.
    Nothing,
    /// It can be used.
    Open,
    /// An operation was answered.
    Answer {
        /// Which.
        number: u64,
        /// What the answer says.
        code: u16,
    },
    /// Something came that nobody asked for.
    Stray,
    /// What came is no message of the protocol.
    Garbage(&'static str),
    /// It has ended.
    Closed(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Greeting,
    Open,
}

/// How much of an HTTP answer is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Head,
    Bytes(u64),
    Chunk,
    ChunkBytes(u64),
    Trailer,
    ToEnd,
}

#[derive(Debug, Clone, Copy)]
struct UnderWay {
    number: u64,
    since: Nanos,
    /// Bytes of an echo that are still to come; the number of an MQTT message.
    left: u64,
    head: bool,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    scheme: Scheme,
    to: SocketAddr,
    state: State,
    made: Nanos,
    greeting: Vec<u8>,
    out: Vec<u8>,
    into: Vec<u8>,
    at: usize,
    under_way: VecDeque<UnderWay>,
    body: Body,
    code: u16,
    last: bool,
    writing: bool,
}

impl Connection {
    /// Begins to connect; `name` is an MQTT client's.
    pub fn open(
        scheme: Scheme,
        to: SocketAddr,
        from: Option<IpAddr>,
        name: &str,
    ) -> io::Result<Self> {
        let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: integer arguments; the descriptor is ours if it is one.
        let fd = unsafe { libc::socket(family, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just made, and nobody else has it.
        let stream = unsafe { TcpStream::from_raw_fd(fd) };
        stream.set_nodelay(true)?;
        if let Some(from) = from {
            Address::new(SocketAddr::new(from, 0)).with(|name, length| {
                // SAFETY: the name lives over the call, and its length is its own.
                done(unsafe { libc::bind(fd, name, length) })
            })?;
        }
        Address::new(to).with(|name, length| {
            // SAFETY: as above.
            match done(unsafe { libc::connect(fd, name, length) }) {
                Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
                result => result,
            }
        })?;
        Ok(Self {
            stream,
            scheme,
            to,
            state: State::Connecting,
            made: clock::now(),
            greeting: if scheme == Scheme::Mqtt { greeting(name) } else { Vec::new() },
            out: Vec::with_capacity(4_096),
            into: Vec::with_capacity(16_384),
            at: 0,
            under_way: VecDeque::new(),
            body: Body::Head,
            code: 0,
            last: false,
            writing: true,
        })
    }

    pub fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    pub fn target(&self) -> SocketAddr {
        self.to
    }

    pub fn is_opening(&self) -> bool {
        self.state != State::Open
    }

    /// Whether a request can be sent now.
    pub fn is_free(&self) -> bool {
        let room = match self.scheme {
            Scheme::Http => self.under_way.is_empty(),
            // Numbers of messages have 16 bits.
            _ => self.under_way.len() < 60_000,
        };
        self.state == State::Open && room && !self.last && self.out.len() < FULL
    }

    /// Since when the oldest request waits, or the connection is being made.
    pub fn since(&self) -> Option<Nanos> {
        if self.is_opening() {
            return Some(self.made);
        }
        self.under_way.front().map(|first| first.since)
    }

    /// The operations that have no answer yet.
    pub fn under_way(&self) -> impl Iterator<Item = u64> {
        self.under_way.iter().map(|one| one.number)
    }

    pub fn wants_to_write(&self) -> bool {
        self.state == State::Connecting || !self.out.is_empty()
    }

    /// Notes what it is watched for; whether that is new.
    pub fn watched(&mut self, write: bool) -> bool {
        std::mem::replace(&mut self.writing, write) != write
    }

    /// Sends a request as the operation of this number.
    pub fn send(&mut self, template: &Template, number: u64, answers: bool) -> Result<(), String> {
        let id = (number % 65_535) as u16 + 1;
        let begin = self.out.len();
        self.out.extend_from_slice(&template.bytes);
        let numbered = self.scheme == Scheme::Mqtt && answers;
        let at = begin + template.number_at;
        if let Some(room) = self.out.get_mut(at..at + 2).filter(|_| numbered) {
            room.copy_from_slice(&id.to_be_bytes());
        }
        if answers {
            let left = if numbered { u64::from(id) } else { template.bytes.len() as u64 };
            let head = template.bytes.starts_with(b"HEAD ");
            self.under_way.push_back(UnderWay { number, since: clock::now(), left, head });
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), String> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(count) => {
                    self.out.drain(..count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("connection lost: {error}")),
            }
        }
        Ok(())
    }

    /// Goes on as far as one thing that has happened.
    pub fn go_on(&mut self) -> Progress {
        if self.state == State::Connecting {
            match self.stream.take_error() {
                Ok(None) => {}
                Ok(Some(error)) | Err(error) => {
                    return Progress::Closed(format!("cannot connect to {}: {error}", self.to));
                }
            }
            if self.stream.peer_addr().is_err() {
                return Progress::Nothing;
            }
            self.state = State::Open;
            if !self.greeting.is_empty() {
                self.state = State::Greeting;
                self.out = std::mem::take(&mut self.greeting);
            }
            if self.state == State::Open {
                return Progress::Open;
            }
        }
        if let Err(why) = self.flush() {
            return Progress::Closed(why);
        }
        loop {
            if let Some(progress) = self.parse() {
                return progress;
            }
            if self.at > 0 {
                self.into.drain(..self.at);
                self.at = 0;
            }
            let mut room = [0; 16_384];
            match self.stream.read(&mut room) {
                Ok(0) => return self.ended(),
                Ok(count) => self.into.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Progress::Nothing,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Progress::Closed(format!("connection lost: {error}")),
            }
        }
    }

    fn ended(&mut self) -> Progress {
        if self.body == Body::ToEnd {
            self.body = Body::Head;
            return self.answer(HTTP.saturating_add(self.code));
        }
        let what = if self.state == State::Greeting { "the broker" } else { "the target" };
        Progress::Closed(format!("{what} closed the connection"))
    }

    /// What the bytes that are there come to.
    fn parse(&mut self) -> Option<Progress> {
        match self.scheme {
            Scheme::Mqtt => self.mqtt(),
            Scheme::Http => self.http(),
            _ => self.echo(),
        }
    }

    fn answer(&mut self, code: u16) -> Progress {
        match self.under_way.pop_front() {
            Some(first) => Progress::Answer { number: first.number, code },
            None => Progress::Stray,
        }
    }

    /// An echo is as long as what was sent.
    fn echo(&mut self) -> Option<Progress> {
        let there = (self.into.len() - self.at) as u64;
        if there == 0 {
            return None;
        }
        let Some(first) = self.under_way.front_mut() else {
            self.at = self.into.len();
            return Some(Progress::Stray);
        };
        let taken = there.min(first.left);
        first.left -= taken;
        self.at += taken as usize;
        (first.left == 0).then(|| self.answer(CAME))
    }

    /// CONNACK and PUBACK (MQTT 3.1.1, sections 3.2 and 3.4).
    fn mqtt(&mut self) -> Option<Progress> {
        let packet: [u8; 4] = self.into.get(self.at..self.at + 4)?.try_into().ok()?;
        self.at += 4;
        match (packet[0], packet[1], self.state) {
            (0x20, 2, State::Greeting) if packet[3] == 0 => {
                self.state = State::Open;
                Some(Progress::Open)
            }
            (0x20, 2, State::Greeting) => {
                Some(Progress::Closed(format!("the broker refused us (code {})", packet[3])))
            }
            (0x40, 2, State::Open) => {
                let id = u64::from(u16::from_be_bytes([packet[2], packet[3]]));
                let at = self.under_way.iter().position(|one| one.left == id);
                let Some(one) = at.and_then(|at| self.under_way.remove(at)) else {
                    return Some(Progress::Stray);
                };
                Some(Progress::Answer { number: one.number, code: CAME })
            }
            _ => Some(Progress::Garbage("not an MQTT answer")),
        }
    }

    fn http(&mut self) -> Option<Progress> {
        loop {
            let there = &self.into[self.at..];
            match self.body {
                Body::Head => {
                    let head = match self.head()? {
                        Ok(head) => head,
                        Err(why) => return Some(Progress::Garbage(why)),
                    };
                    // 1xx says that the answer is still to come.
                    if (100..200).contains(&head.0) {
                        continue;
                    }
                    (self.code, self.body) = head;
                }
                Body::Bytes(0) => {
                    self.body = Body::Head;
                    return Some(self.answer(HTTP.saturating_add(self.code)));
                }
                Body::Bytes(left) | Body::ChunkBytes(left) => {
                    let taken = left.min(there.len() as u64);
                    if taken == 0 {
                        return None;
                    }
                    self.at += taken as usize;
                    self.body = match self.body {
                        Body::Bytes(_) => Body::Bytes(left - taken),
                        _ if left > taken => Body::ChunkBytes(left - taken),
                        _ => Body::Chunk,
                    };
                }
                Body::Chunk => match httparse::parse_chunk_size(there) {
                    Ok(httparse::Status::Complete((used, size))) => {
                        self.at += used;
                        // The end of line after the chunk belongs to it.
                        self.body = match size {
                            0 => Body::Trailer,
                            _ => Body::ChunkBytes(size.saturating_add(2)),
                        };
                    }
                    Ok(httparse::Status::Partial) if there.len() < 64 => return None,
                    _ => return Some(Progress::Garbage("a chunk without a size")),
                },
                Body::Trailer => {
                    let end = there.windows(2).position(|two| two == b"\r\n")?;
                    self.at += end + 2;
                    if end == 0 {
                        self.body = Body::Bytes(0);
                    }
                }
                Body::ToEnd => {
                    self.at = self.into.len();
                    return None;
                }
            }
        }
    }

    /// Status and body of an answer whose head is all there.
    fn head(&mut self) -> Option<Result<(u16, Body), &'static str>> {
        let there = &self.into[self.at..];
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut headers);
        let used = match response.parse(there) {
            Ok(httparse::Status::Complete(used)) => used,
            Ok(httparse::Status::Partial) if there.len() < HEAD => return None,
            _ => return Some(Err("not an HTTP answer")),
        };
        let code = response.code.unwrap_or(0);
        let value = |name: &str| {
            let header =
                response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
            header.map(|header| header.value.trim_ascii())
        };
        let closes = value("connection").is_some_and(|value| value.eq_ignore_ascii_case(b"close"));
        let keeps =
            value("connection").is_some_and(|value| value.eq_ignore_ascii_case(b"keep-alive"));
        let without =
            matches!(code, 204 | 304) || self.under_way.front().is_some_and(|request| request.head);
        let body = if without {
            Body::Bytes(0)
        } else if value("transfer-encoding")
            .is_some_and(|value| value.to_ascii_lowercase().ends_with(b"chunked"))
        {
            Body::Chunk
        } else {
            match value("content-length").map(std::str::from_utf8) {
                Some(Ok(length)) => match length.parse() {
                    Ok(length) => Body::Bytes(length),
                    Err(_) => return Some(Err("an HTTP answer with a bad Content-Length")),
                },
                Some(Err(_)) => return Some(Err("an HTTP answer with a bad Content-Length")),
                None => Body::ToEnd,
            }
        };
        self.last = closes || body == Body::ToEnd || response.version == Some(0) && !keeps;
        self.at += used;
        Some(Ok((code, body)))
    }
}

/// CONNECT with a clean session and no keep alive (MQTT 3.1.1, section 3.1).
fn greeting(name: &str) -> Vec<u8> {
    let mut rest = b"\0\x04MQTT\x04\x02\0\0".to_vec();
    rest.extend((name.len() as u16).to_be_bytes());
    rest.extend(name.as_bytes());
    let mut bytes = vec![0x10];
    push_length(&mut bytes, rest.len());
    bytes.extend(rest);
    bytes
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn get() -> Template {
        Template { to: Err(String::new()), bytes: b"GET / HTTP/1.1\r\n\r\n".to_vec(), number_at: 0 }
    }

    /// What an HTTP client makes of these answers, each piece in a write of its own.
    fn heard(pieces: &[&[u8]], close: bool) -> Vec<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut connection =
            Connection::open(Scheme::Http, listener.local_addr().unwrap(), None, "").unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        while !matches!(connection.go_on(), Progress::Open) {}
        connection.send(&get(), 7, true).unwrap();
        // Unread, it would turn the end of the connection into a reset.
        let mut request = [0; 18];
        peer.read_exact(&mut request).unwrap();
        for piece in pieces {
            peer.write_all(piece).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
            loop {
                match connection.go_on() {
                    Progress::Nothing => break,
                    other => all.push(format!("{other:?}")),
                }
                if all.last().is_some_and(|last| last.starts_with("Garbage")) {
                    return all;
                }
            }
        }
        if close {
            assert_eq!(request, *b"GET / HTTP/1.1\r\n\r\n");
            drop(peer);
            std::thread::sleep(std::time::Duration::from_millis(5));
            all.push(format!("{:?}", connection.go_on()));
        }
        all
    }

    const ANSWERED: &str = "Answer { number: 7, code: 1200 }";

    #[test]
    fn http_answers_are_found_however_they_are_cut() {
        let length = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(heard(&[length], false), [ANSWERED]);
        let bytes: Vec<&[u8]> = length.chunks(7).collect();
        assert_eq!(heard(&bytes, false), [ANSWERED]);
        let chunked =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n";
        assert_eq!(heard(&[chunked], false), [ANSWERED]);
        let bytes: Vec<&[u8]> = chunked.chunks(11).collect();
        assert_eq!(heard(&bytes, false), [ANSWERED]);
        assert_eq!(heard(&[b"HTTP/1.0 200 OK\r\n\r\nhello"], true), [ANSWERED]);
        let early = b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(heard(&[early], false), [ANSWERED]);
    }

    #[test]
    fn what_is_no_answer_is_told_from_what_is_one() {
        assert!(heard(&[b"\x16\x03\x01 what?\r\n\r\n"], false)[0].starts_with("Garbage"));
        let twice = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(heard(&[twice], false), [ANSWERED, "Stray"]);
        let length = b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n";
        assert!(heard(&[length], false)[0].contains("bad Content-Length"));
        assert!(heard(&[b"HTTP/1.1 200 OK\r\nContent-Le"], true)[0].contains("closed"));
    }

    #[test]
    fn nobody_there_is_said_with_the_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        drop(listener);
        let why = match Connection::open(Scheme::Tcp, to, None, "") {
            Err(error) => error.to_string(),
            Ok(mut connection) => loop {
                match connection.go_on() {
                    Progress::Closed(why) => break why,
                    _ => std::thread::yield_now(),
                }
            },
        };
        assert!(why.contains("refused"), "{why}");
    }
}
