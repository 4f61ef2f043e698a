//! CoAP client: sends requests and receives responses, block by block.

use super::callbacks::{Response, SessionEvent};
use super::codes::{TOKEN, method_code, nack, proto};
use super::endpoint::{group, security, work};
use super::ffi;
use super::security::Security;
use super::stack::{Outgoing, Session, Stack};
use crate::error::Error;
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::outcome::Outcome;
use crate::exchange::protocol::{Connecting, Driver, Protocol, Turn};
use crate::exchange::sections::Section;
use crate::exchange::watch::Watch;
use crate::protocols::tcp::stream;
use coap::{Block, code};
use record::spec::ExchangeSpec;
use record::{Coap, Connection, Method};
use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use units::Instant;

/// A client.
struct Client {
    spec: ExchangeSpec,
    options: Coap,
    to: SocketAddr,
    security: Security,
    /// A stack without a session, reused because creating one takes about a millisecond.
    idle: Option<Stack>,
    token: u16,
}

/// A session and its stack; the session is dropped first. A failed exchange drops its session,
/// including pending retransmissions.
struct Open {
    session: Session,
    stack: Stack,
    /// Unprocessed events.
    events: VecDeque<SessionEvent>,
}

/// The part of a transfer that a request carries or asks for.
#[derive(Debug, Clone, Copy, Default)]
struct Part<'a> {
    block1: Option<Block>,
    block2: Option<Block>,
    payload: &'a [u8],
}

impl<'a> Part<'a> {
    /// A payload in one request.
    fn whole(payload: &'a [u8]) -> Self {
        Self { payload, ..Self::default() }
    }
}

impl Open {
    /// The next event, if any.
    fn next(&mut self) -> Option<SessionEvent> {
        if self.events.is_empty() {
            self.events.extend(self.stack.take());
        }
        self.events.pop_front()
    }
}

/// The driver of all methods except observe.
pub fn driver(spec: &ExchangeSpec, options: Coap) -> Box<dyn Driver> {
    let host = if options.group { group(spec) } else { spec.peers[0].address };
    // In a group, each response changes the peer of a session.
    let persistent = spec.connection == Connection::Kept && !options.group;
    let client = Client {
        to: (host, spec.port).into(),
        security: security(spec, &options, &spec.peers[0]),
        spec: spec.clone(),
        options,
        idle: Stack::new().ok(),
        token: 0,
    };
    Box::new(Connecting::new(client, persistent))
}

impl Client {
    fn wait_for_event(
        &self,
        open: &mut Open,
        turn: &mut Turn<'_, '_>,
        expected: i32,
    ) -> Result<(), Failure> {
        loop {
            while let Some(event) = open.next() {
                match event {
                    SessionEvent::Event(event) if event == expected => return Ok(()),
                    event => self.fail_on(&event)?,
                }
            }
            work(&mut open.stack, turn)?;
        }
    }

    /// Fails on an event that ends the exchange in any state.
    fn fail_on(&self, event: &SessionEvent) -> Result<(), Failure> {
        let by_key = matches!(self.security, Security::Key(_));
        match event {
            SessionEvent::Nack(reason) => Err(nack(*reason, by_key)),
            SessionEvent::Event(ffi::DTLS_ERROR) => Err(nack(ffi::NACK_TLS_FAILED, by_key)),
            SessionEvent::Event(ffi::TCP_FAILED) => {
                Err(Failure::of(Reason::Refused, format!("no TCP connection to {}", self.to)))
            }
            SessionEvent::Event(ffi::TCP_CLOSED | ffi::SESSION_CLOSED | ffi::SESSION_FAILED) => {
                Err(Failure::of(Reason::Lost, "the connection was closed"))
            }
            _ => Ok(()),
        }
    }

    /// Sends a request and waits for its response.
    fn request(
        &mut self,
        open: &mut Open,
        turn: &mut Turn<'_, '_>,
        path: &str,
        part: Part<'_>,
    ) -> Result<(Response, Instant), Failure> {
        let token = self.send(open, path, part)?;
        loop {
            while let Some(event) = open.next() {
                match event {
                    SessionEvent::Response { response, at, .. } if response.token == token => {
                        return Ok((accepted(response)?, at));
                    }
                    event => self.fail_on(&event)?,
                }
            }
            work(&mut open.stack, turn)?;
        }
    }

    fn send(
        &mut self,
        open: &mut Open,
        path: &str,
        part: Part<'_>,
    ) -> Result<[u8; TOKEN], Failure> {
        self.token = self.token.wrapping_add(1);
        let token = self.token.to_be_bytes();
        let request = Outgoing {
            method: method_code(self.options.method),
            confirmable: self.options.confirmable,
            token: &token,
            path,
            observe: None,
            block1: part.block1,
            block2: part.block2,
            payload: part.payload,
        };
        open.session.send(&request).map_err(Failure::io("send a request"))?;
        Ok(token)
    }

    /// Requests the payload, block by block.
    fn get(&mut self, open: &mut Open, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure> {
        let path = format!("{:x}.{:x}", turn.number, turn.size);
        let mut whole = Vec::with_capacity(turn.size);
        let mut block = Block::sized(0, false, self.options.block as usize);
        loop {
            turn.enter(Section::Block(block.number + 1));
            let (response, at) =
                self.request(open, turn, &path, Part { block2: Some(block), ..Part::default() })?;
            // Requests are one after the other, with a token each: this is the next block.
            whole.extend_from_slice(&response.payload);
            match response.block2 {
                Some(received) if received.more => {
                    // Otherwise the next block's number would not be known (RFC 7959, 2.2).
                    if response.payload.len() != received.size() {
                        let why = "a block with others after it was not as long as its size";
                        return Err(Failure::corrupt(why));
                    }
                    // A server may choose a smaller block size; block numbers then refer to that
                    // size.
                    let number = (whole.len() / received.size()) as u32;
                    block = Block { number, more: false, exponent: received.exponent };
                }
                _ => {
                    turn.check(&whole)?;
                    return Ok(Outcome { received: Some(at) });
                }
            }
            // A server that never ends the payload must not fill the memory.
            if whole.len() > turn.size {
                return Err(Failure::corrupt("the answer is longer than requested"));
            }
        }
    }

    /// Sends the payload, block by block.
    fn put(&mut self, open: &mut Open, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure> {
        let path = format!("{:x}", turn.number);
        let whole = turn.payload();
        if whole.len() <= self.options.block as usize {
            turn.enter(Section::Block(1));
            self.request(open, turn, &path, Part::whole(&whole))?;
            return Ok(Outcome::default());
        }
        let (mut block, mut count) = (Block::sized(0, true, self.options.block as usize), 0);
        while let Some((now, part)) = block.cut(&whole) {
            count += 1;
            turn.enter(Section::Block(count));
            let (response, _) =
                self.request(open, turn, &path, Part { block1: Some(now), ..Part::whole(part) })?;
            if !now.more {
                break;
            }
            if response.code != code::CONTINUE {
                let why = format!("{} in the middle of a payload", code::text(response.code));
                return Err(Failure::of(Reason::Status, why));
            }
            let sent = now.offset() + part.len();
            // A server may request smaller blocks from here on.
            let exponent = response.block1.map_or(now.exponent, |b| b.exponent.min(now.exponent));
            let next = Block { number: 0, more: true, exponent };
            block = Block { number: (sent / next.size()) as u32, ..next };
        }
        Ok(Outcome::default())
    }

    /// Sends one request to the group and waits for all responses.
    fn group(&mut self, open: &mut Open, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure> {
        turn.enter(Section::Block(1));
        let (path, payload) = match self.options.method {
            Method::Get => (format!("{:x}.{:x}", turn.number, turn.size), Vec::new()),
            _ => (format!("{:x}", turn.number), turn.payload()),
        };
        let token = self.send(open, &path, Part::whole(&payload))?;
        let mut missing: BTreeSet<IpAddr> =
            self.spec.peers.iter().map(|peer| peer.address).collect();
        let mut received = None;
        while !missing.is_empty() {
            while let Some(event) = open.next() {
                match event {
                    SessionEvent::Response { from, response, at } if response.token == token => {
                        let response = accepted(response)?;
                        if self.options.method == Method::Get {
                            turn.check(&response.payload)?;
                            received = Some(at);
                        }
                        missing.remove(&from.ip());
                    }
                    event => self.fail_on(&event)?,
                }
            }
            if missing.is_empty() {
                break;
            }
            work(&mut open.stack, turn).map_err(|failure| {
                let names: Vec<_> = missing.iter().map(|host| self.spec.name_of(*host)).collect();
                let detail = format!("no answer from {}: {}", names.join(", "), failure.detail);
                Failure { detail, ..failure }
            })?;
        }
        Ok(Outcome { received })
    }
}

impl Client {
    /// Drops a session with no pending exchange, and keeps its stack.
    fn release(&mut self, open: Open) {
        let Open { session, mut stack, .. } = open;
        drop(session);
        stack.process();
        stack.take();
        self.idle = Some(stack);
    }
}

impl Protocol for Client {
    type Connection = Open;

    /// Opens a session; over UDP this is immediate.
    fn connect(&mut self, turn: &mut Turn<'_, '_>) -> Result<Open, Failure> {
        let transport = self.options.transport;
        let other = |error: Error| Failure::of(Reason::Other, error.to_string());
        let mut stack = match self.idle.take() {
            Some(stack) => stack,
            None => Stack::new().map_err(other)?,
        };
        // Plain UDP has no handshake, and no such section.
        if transport.is_secure() || transport.is_stream() {
            turn.enter(Section::TransportConnect);
        }
        let session = stack.session(self.to, proto(transport), &self.security);
        let mut session = session.map_err(other)?;
        session.set_times(self.options.ack_timeout, self.options.max_retransmit);
        let mut open = Open { session, stack, events: VecDeque::new() };
        if transport.is_secure() {
            self.wait_for_event(&mut open, turn, ffi::DTLS_CONNECTED)?;
        } else if transport.is_stream() {
            self.wait_for_event(&mut open, turn, ffi::TCP_CONNECTED)?;
        }
        if transport.is_stream() {
            turn.enter(Section::ProtocolConnect);
            self.wait_for_event(&mut open, turn, ffi::SESSION_CONNECTED)?;
        }
        Ok(open)
    }

    fn exchange(&mut self, turn: &mut Turn<'_, '_>, open: &mut Open) -> Result<Outcome, Failure> {
        match self.options.method {
            _ if self.options.group => self.group(open, turn),
            Method::Get => self.get(open, turn),
            Method::Put | Method::Post | Method::Delete => self.put(open, turn),
        }
    }

    /// Closes the session, with a shutdown if the transport has one.
    fn close(&mut self, turn: &mut Turn<'_, '_>, open: Open) -> Result<(), Failure> {
        let transport = self.options.transport;
        if !transport.is_stream() {
            if transport.is_secure() {
                turn.enter(Section::TransportClose);
            }
            self.release(open);
            return Ok(());
        }
        turn.enter(Section::TransportClose);
        let duplicate = duplicate_connection(open.stack.descriptor(), self.to);
        self.release(open);
        match duplicate {
            Some(stream) => stream::close(turn, stream),
            None => Ok(()),
        }
    }

    fn rest(
        &mut self,
        kept: &mut Option<Open>,
        watch: &mut Watch<'_>,
        until: Instant,
    ) -> Result<(), Failure> {
        // libcoap needs no calls between exchanges, but late messages and closed connections must
        // be noticed.
        watch.sleep(until)?;
        let Some(open) = kept else { return Ok(()) };
        open.stack.process();
        open.events.extend(open.stack.take());
        if open.events.iter().any(|event| self.fail_on(event).is_err()) {
            *kept = None;
        } else {
            open.events.clear();
        }
        Ok(())
    }
}

/// Returns a success response, or the error.
fn accepted(response: Response) -> Result<Response, Failure> {
    match response.code >> 5 {
        2 => Ok(response),
        _ => {
            let words = String::from_utf8_lossy(&response.payload);
            let text = format!(
                "{} {}",
                code::text(response.code),
                words.chars().take(80).collect::<String>()
            );
            Err(Failure::of(Reason::Status, text.trim().to_owned()))
        }
    }
}

/// Duplicates the descriptor of the connection to `peer`, found among those that the epoll
/// descriptor watches. libcoap closes its descriptor at
/// once and does not report when the peer closes.
fn duplicate_connection(epoll: RawFd, peer: SocketAddr) -> Option<TcpStream> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{epoll}")).ok()?;
    let watched = text.lines().filter_map(|line| {
        let fd = line.strip_prefix("tfd:")?;
        fd.split_whitespace().next()?.parse::<RawFd>().ok()
    });
    for fd in watched {
        // SAFETY: libcoap has it open, and is not called in the meantime.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        let theirs = socket2::SockRef::from(&socket).peer_addr().ok();
        if theirs.and_then(|address| address.as_socket()) == Some(peer) {
            let stream = TcpStream::from(socket.try_clone_to_owned().ok()?);
            debug_assert!(stream.as_raw_fd() != fd);
            return Some(stream);
        }
    }
    None
}
