//! A TCP connection: its requests in order, and their answers.

pub(crate) mod mqtt;

use crate::http::{Answers, Found};
use crate::request_queue::SlotTimes;
use crate::socket::Address;
use crate::stamp;
use crate::template::{HTTP, NO_STATUS, Template};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use trace::Scheme;
use units::Instant;

/// The maximum of unwritten bytes before the connection takes no further request.
const FULL: usize = 1 << 20;
/// The maximum number of requests under way on a connection that does not wait for answers:
/// MQTT packet identifiers have 16 bits.
const PIPELINED: usize = 60_000;
/// The maximum number of reads of 16 kB in a row before other connections are served.
const READS: usize = 64;

/// An event on a connection.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Nothing more for now.
    Nothing,
    /// The connection is ready.
    Open,
    /// An operation was answered.
    Answer {
        /// The operation number.
        number: u64,
        /// The code of the answer.
        code: u16,
    },
    /// An answer without a request.
    Unexpected,
    /// Received bytes that are no message of the protocol.
    Garbage(&'static str),
    /// The connection has ended.
    Closed(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Greeting,
    Open,
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    number: u64,
    sent: Instant,
    /// The bytes of an echo that are still to come; or the packet identifier of an MQTT
    /// message.
    left: u64,
    head: bool,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    scheme: Scheme,
    to: SocketAddr,
    target: usize,
    state: State,
    begun: Instant,
    slot: SlotTimes,
    /// Since when the connection takes no further request although requests do not wait for
    /// answers.
    full_since: Option<Instant>,
    greeting: Vec<u8>,
    out: Vec<u8>,
    into: Vec<u8>,
    at: usize,
    /// When the last bytes read arrived.
    arrived: Instant,
    in_flight: VecDeque<InFlight>,
    answers: Answers,
    writing: bool,
}

impl Connection {
    /// Begins to connect to a target with its number, as the replacement of a connection
    /// that left its slot `before` (the default for none). `name` is the MQTT client identifier.
    pub fn open(
        scheme: Scheme,
        (to, target): (SocketAddr, usize),
        from: Option<IpAddr>,
        name: &str,
        before: SlotTimes,
    ) -> io::Result<Self> {
        let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: integer arguments; a valid descriptor is ours.
        let fd = unsafe { libc::socket(family, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created and has no other owner.
        let stream = unsafe { TcpStream::from_raw_fd(fd) };
        stream.set_nodelay(true)?;
        stamp::enable(fd);
        if let Some(from) = from {
            Address::new(SocketAddr::new(from, 0)).with(|name, length| {
                // SAFETY: the address lives over the call, and its length is correct.
                done(unsafe { libc::bind(fd, name, length) })
            })?;
        }
        let begun = clock::now();
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
            target,
            state: State::Connecting,
            begun,
            slot: before,
            full_since: None,
            greeting: if scheme == Scheme::Mqtt { mqtt::connect(name) } else { Vec::new() },
            out: Vec::with_capacity(4_096),
            into: Vec::with_capacity(16_384),
            at: 0,
            arrived: Instant::START,
            in_flight: VecDeque::new(),
            answers: Answers::new(),
            writing: true,
        })
    }

    pub fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// The number of its target.
    pub fn target(&self) -> usize {
        self.target
    }

    /// Whether all bytes read have been processed.
    pub fn is_drained(&self) -> bool {
        self.at == self.into.len()
    }

    pub fn is_opening(&self) -> bool {
        self.state != State::Open
    }

    /// Whether it can take a request now.
    pub fn is_free(&self) -> bool {
        let room = match self.scheme {
            Scheme::Http => self.in_flight.is_empty() && !self.answers.is_last(),
            _ => self.in_flight.len() < PIPELINED,
        };
        self.state == State::Open && room && self.out.len() < FULL
    }

    /// Whether the peer closes the connection and no answer is outstanding.
    pub fn is_spent(&self) -> bool {
        self.answers.is_last() && self.in_flight.is_empty()
    }

    /// When the connection became free, and who occupied it before.
    pub fn slot(&self) -> &SlotTimes {
        &self.slot
    }

    /// The slot that an open connection leaves when it is closed now. One that delivered its last
    /// answer was free from then on; one that waits for an answer was occupied by the target.
    pub fn vacated(&self) -> SlotTimes {
        let now = clock::now();
        match self.is_spent() {
            true => self.slot,
            false => SlotTimes::freed(now, now - self.since().unwrap_or(now)),
        }
    }

    /// Since when the oldest request, or the connection attempt, has been waiting.
    pub fn since(&self) -> Option<Instant> {
        if self.is_opening() {
            return Some(self.begun);
        }
        self.in_flight.front().map(|first| first.sent)
    }

    /// The operations without an answer.
    pub fn in_flight(&self) -> impl Iterator<Item = u64> {
        self.in_flight.iter().map(|one| one.number)
    }

    pub fn wants_to_write(&self) -> bool {
        self.state == State::Connecting || !self.out.is_empty()
    }

    /// Stores whether it is watched for writing. Returns whether that has changed.
    pub fn set_watched(&mut self, write: bool) -> bool {
        std::mem::replace(&mut self.writing, write) != write
    }

    /// Sends a request for operation `number` at `sent`.
    pub fn send(
        &mut self,
        template: &Template,
        number: u64,
        answers: bool,
        sent: Instant,
    ) -> Result<(), String> {
        // A packet identifier is not 0 (MQTT 3.1.1, 2.3.1).
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
            self.in_flight.push_back(InFlight { number, sent, left, head });
        }
        let result = self.flush();
        if self.scheme != Scheme::Http && !self.is_free() {
            self.full_since.get_or_insert(sent);
        }
        result
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

    /// Continues until the next event.
    pub fn advance(&mut self) -> Progress {
        if self.state == State::Connecting {
            match self.stream.take_error() {
                Ok(None) => {}
                Ok(Some(error)) | Err(error) => {
                    return Progress::Closed(format!("could not connect to {}: {error}", self.to));
                }
            }
            // Neither an error nor a peer: still connecting.
            if self.stream.peer_addr().is_err() {
                return Progress::Nothing;
            }
            self.state = State::Greeting;
            if self.greeting.is_empty() {
                return self.accepted(clock::now());
            }
            self.out = std::mem::take(&mut self.greeting);
        }
        if let Err(why) = self.flush() {
            return Progress::Closed(why);
        }
        let progress = self.read();
        if let Some(since) = self.full_since
            && self.is_free()
        {
            self.full_since = None;
            let now = clock::now();
            self.slot = SlotTimes::freed(now, now - since);
        }
        progress
    }

    fn read(&mut self) -> Progress {
        for _ in 0..READS {
            if let Some(progress) = self.parse() {
                return progress;
            }
            if self.at > 0 {
                self.into.drain(..self.at);
                self.at = 0;
            }
            let mut room = [0; 16_384];
            match stamp::receive(self.stream.as_raw_fd(), &mut room) {
                Ok((0, _)) => return self.ended(),
                Ok((count, arrived)) => {
                    self.arrived = arrived;
                    self.into.extend_from_slice(&room[..count]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Progress::Nothing,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Progress::Closed(format!("connection lost: {error}")),
            }
        }
        // epoll reports the remaining bytes again.
        Progress::Nothing
    }

    fn accepted(&mut self, at: Instant) -> Progress {
        self.state = State::Open;
        self.slot = SlotTimes::connected(&self.slot, self.begun, at);
        Progress::Open
    }

    fn ended(&mut self) -> Progress {
        if let Some(status) = self.answers.end() {
            return self.answer(HTTP.saturating_add(status));
        }
        let what = if self.state == State::Greeting { "the broker" } else { "the target" };
        Progress::Closed(format!("{what} closed the connection"))
    }

    /// Parses the bytes that are buffered.
    fn parse(&mut self) -> Option<Progress> {
        match self.scheme {
            Scheme::Mqtt => self.mqtt(),
            Scheme::Http => self.http(),
            _ => self.echo(),
        }
    }

    fn answer(&mut self, code: u16) -> Progress {
        let Some(first) = self.in_flight.pop_front() else { return Progress::Unexpected };
        if self.scheme == Scheme::Http {
            // The wall clock may have been set in between.
            let arrived = self.arrived.max(first.sent);
            self.slot = SlotTimes::freed(arrived, arrived - first.sent);
        }
        Progress::Answer { number: first.number, code }
    }

    fn http(&mut self) -> Option<Progress> {
        let head = self.in_flight.front().is_some_and(|request| request.head);
        let (used, found) = self.answers.parse(&self.into[self.at..], head);
        self.at += used;
        Some(match found? {
            Found::Answer(status) => self.answer(HTTP.saturating_add(status)),
            Found::Garbage(why) => Progress::Garbage(why),
        })
    }

    /// An echo has the length of its request.
    fn echo(&mut self) -> Option<Progress> {
        let there = (self.into.len() - self.at) as u64;
        if there == 0 {
            return None;
        }
        let Some(first) = self.in_flight.front_mut() else {
            self.at = self.into.len();
            return Some(Progress::Unexpected);
        };
        let taken = there.min(first.left);
        first.left -= taken;
        self.at += taken as usize;
        (first.left == 0).then(|| self.answer(NO_STATUS))
    }

    fn mqtt(&mut self) -> Option<Progress> {
        let found = mqtt::parse(&self.into[self.at..])?;
        // CONNACK and PUBACK have four bytes.
        self.at = (self.at + 4).min(self.into.len());
        Some(match (found, self.state) {
            (mqtt::Found::Accepted, State::Greeting) => self.accepted(self.arrived),
            (mqtt::Found::Refused(code), State::Greeting) => {
                Progress::Closed(format!("the broker refused the connection (code {code})"))
            }
            (mqtt::Found::Acknowledged(id), State::Open) => {
                let at = self.in_flight.iter().position(|one| one.left == u64::from(id));
                match at.and_then(|at| self.in_flight.remove(at)) {
                    Some(one) => Progress::Answer { number: one.number, code: NO_STATUS },
                    None => Progress::Unexpected,
                }
            }
            _ => Progress::Garbage("not an MQTT answer"),
        })
    }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    fn get() -> Template {
        let bytes = b"GET / HTTP/1.1\r\n\r\n".to_vec();
        Template { to: Err(String::new()), bytes, number_at: 0, coap: None }
    }

    /// The next event.
    fn next_event(connection: &mut Connection) -> Progress {
        loop {
            match connection.advance() {
                Progress::Nothing => std::thread::yield_now(),
                progress => return progress,
            }
        }
    }

    /// An open connection that has sent the request number 7, and its peer.
    fn requested() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let mut connection =
            Connection::open(Scheme::Http, (to, 0), None, "", SlotTimes::default()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        assert!(matches!(next_event(&mut connection), Progress::Open));
        connection.send(&get(), 7, true, clock::now()).unwrap();
        (connection, peer)
    }

    /// The events of an HTTP client for this response to one request, until the connection
    /// ends or receives invalid bytes.
    fn client_events(text: &str) -> (Vec<String>, SlotTimes) {
        let (mut connection, mut peer) = requested();
        assert!(!connection.is_free());
        // Unread bytes would turn the end of the connection into a reset.
        let mut request = [0; 18];
        peer.read_exact(&mut request).unwrap();
        peer.write_all(text.as_bytes()).unwrap();
        drop(peer);
        let mut all = Vec::new();
        loop {
            let progress = next_event(&mut connection);
            all.push(format!("{progress:?}"));
            if matches!(progress, Progress::Closed(_) | Progress::Garbage(_)) {
                return (all, connection.slot);
            }
        }
    }

    const ANSWERED: &str = "Answer { number: 7, code: 1200 }";
    const CLOSED: &str = "Closed(\"the target closed the connection\")";

    #[test]
    fn answers_belong_to_requests() {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let (all, slot) = client_events(answer);
        assert_eq!(all, [ANSWERED, CLOSED]);
        assert!(slot.ready > Instant::START && slot.vacant == slot.ready);
        assert_eq!(client_events(&answer.repeat(2)).0, [ANSWERED, "Unexpected", CLOSED]);
        assert_eq!(client_events("HTTP/1.0 200 OK\r\n\r\nto the end").0, [ANSWERED, CLOSED]);
        assert_eq!(client_events("HTTP/1.1 200 OK\r\nContent-Le").0, [CLOSED]);
        assert!(client_events("what?\r\n\r\n").0[0].starts_with("Garbage"));
    }

    #[test]
    fn a_peer_that_never_stops_does_not_keep_others_waiting() {
        let (mut connection, mut peer) = requested();
        let endless = std::thread::spawn(move || {
            let _ = peer.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while peer.write_all(&[b'x'; 65_536]).is_ok() {}
        });
        for _ in 0..20 {
            assert!(matches!(connection.advance(), Progress::Nothing));
            assert!(connection.into.capacity() < 1 << 20, "an answer's body is not kept");
        }
        drop(connection);
        endless.join().unwrap();
    }

    #[test]
    fn a_refused_connection_names_the_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        drop(listener);
        let why = match Connection::open(Scheme::Tcp, (to, 0), None, "", SlotTimes::default()) {
            Err(error) => error.to_string(),
            Ok(mut connection) => match next_event(&mut connection) {
                Progress::Closed(why) => why,
                other => panic!("{other:?}"),
            },
        };
        assert!(why.contains("refused"), "{why}");
    }
}
