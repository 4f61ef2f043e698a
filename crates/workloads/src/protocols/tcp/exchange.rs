//! Plain TCP: eight bytes, exchange number and payload size, then the payload. The sink answers
//! with the number in four bytes.

use crate::error::Error;
use crate::exchange::body::Body;
use crate::exchange::failure::Failure;
use crate::exchange::log::Receipts;
use crate::exchange::outcome::Outcome;
use crate::exchange::protocol::{Connecting, Driver, Protocol, Server, Turn};
use crate::exchange::sections::Section;
use crate::exchange::watch::Watch;
use crate::protocols::tcp::{EXHAUSTED_PAUSE, listen, stream};
use record::Connection;
use record::spec::ExchangeSpec;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use units::Instant;

/// Bytes before each payload.
const HEADER: usize = 8;
/// Bytes of the answer.
const ANSWER: usize = 4;

pub(crate) fn driver(spec: &ExchangeSpec) -> Box<dyn Driver> {
    let (host, port) = (spec.peers[0].address, spec.port);
    Box::new(Connecting::new(Source { host, port }, spec.connection == Connection::Kept))
}

pub(crate) fn server(spec: &ExchangeSpec) -> Result<Box<dyn Server>, Error> {
    let listener = listen(spec)?;
    let body = Body::new(spec.seed, spec.longest());
    Ok(Box::new(Sink { spec: spec.clone(), listener, body, clients: Vec::new() }))
}

struct Source {
    host: IpAddr,
    port: u16,
}

impl Protocol for Source {
    type Connection = TcpStream;

    fn connect(&mut self, turn: &mut Turn<'_, '_>) -> Result<TcpStream, Failure> {
        turn.enter(Section::TransportConnect);
        stream::connect(turn, self.host, self.port)
    }

    fn exchange(
        &mut self,
        turn: &mut Turn<'_, '_>,
        stream: &mut TcpStream,
    ) -> Result<Outcome, Failure> {
        turn.enter(Section::Payload);
        let number = (turn.number as u32).to_be_bytes();
        let mut message = Vec::with_capacity(HEADER + turn.size);
        message.extend_from_slice(&number);
        message.extend_from_slice(&(turn.size as u32).to_be_bytes());
        message.extend_from_slice(&turn.payload());
        stream::write(turn, stream, &message)?;
        let mut answer = [0; ANSWER];
        stream::fill(turn, stream, &mut answer)?;
        if answer != number {
            return Err(Failure::corrupt("the answer belongs to another exchange"));
        }
        Ok(Outcome::default())
    }

    fn close(&mut self, turn: &mut Turn<'_, '_>, stream: TcpStream) -> Result<(), Failure> {
        turn.enter(Section::TransportClose);
        stream::close(turn, stream)
    }
}

struct Sink {
    spec: ExchangeSpec,
    listener: TcpListener,
    body: Body,
    clients: Vec<Client>,
}

/// A connection, and its incomplete message.
struct Client {
    stream: TcpStream,
    peer: String,
    pending: Vec<u8>,
}

impl Server for Sink {
    fn serve(&mut self, watch: &mut Watch<'_>, receipts: &mut Receipts) -> Result<(), Error> {
        watch.ready()?;
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut paused_until: Option<Instant> = None;
        loop {
            paused_until = paused_until.filter(|until| *until > clock::now());
            // poll ignores a negative descriptor.
            let listener = paused_until.map_or_else(|| self.listener.as_raw_fd(), |_| -1);
            let mut set = vec![entry(listener)];
            set.extend(self.clients.iter().map(|client| entry(client.stream.as_raw_fd())));
            if watch.wait(&mut set, paused_until).is_err() {
                return Ok(());
            }
            let ready = |place: usize| set[place].revents != 0;
            // Entry 0 is the listener's; new connections follow later, so that entries match.
            let mut place = 0;
            let mut failure = None;
            let (longest, body) = (self.spec.longest(), &self.body);
            self.clients.retain_mut(|client| {
                place += 1;
                !ready(place)
                    || client.turn(longest, body, receipts).unwrap_or_else(|error| {
                        failure = Some(error);
                        false
                    })
            });
            if let Some(error) = failure {
                return Err(error);
            }
            let is_exhausted = self.accept_all();
            paused_until = is_exhausted.then(|| clock::now() + EXHAUSTED_PAUSE);
        }
    }
}

impl Sink {
    /// Accepts the connections that wait; returns whether some stay for want of descriptors or memory.
    fn accept_all(&mut self) -> bool {
        loop {
            match self.listener.accept() {
                Ok((stream, from)) => {
                    let fit = stream.set_nonblocking(true).and(stream.set_nodelay(true));
                    if fit.is_ok() {
                        let peer = self.spec.name_of(from.ip());
                        self.clients.push(Client { stream, peer, pending: Vec::new() });
                    }
                }
                Err(error) => return load::is_exhausted(&error),
            }
        }
    }
}

impl Client {
    /// Processes received data; returns whether the connection continues.
    fn turn(&mut self, longest: usize, body: &Body, to: &mut Receipts) -> Result<bool, Error> {
        let mut buffer = [0; 16_384];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(n) => self.pending.extend_from_slice(&buffer[..n]),
                Err(error) if stream::is_transient(&error) => return Ok(true),
                Err(_) => return Ok(false),
            }
            while let Some((header, rest)) = self.pending.split_first_chunk::<HEADER>() {
                let (number, size) = header.split_at(ANSWER);
                let size = u32::from_be_bytes([size[0], size[1], size[2], size[3]]) as usize;
                // An unrelated client may send anything.
                if size > longest {
                    return Ok(false);
                }
                let Some(payload) = rest.get(..size) else { break };
                let at = clock::now();
                // A foreign payload gets no answer, so that its driver notices.
                let Some(known) = body.number(payload) else { return Ok(false) };
                // Four bytes always fit into the send buffer of a connection that waits for them.
                let answered = self.stream.write(number).is_ok_and(|n| n == ANSWER);
                let whole = known.unwrap_or_else(|| u64::from(short(number)));
                to.note(&self.peer, Some(whole), size, at)?;
                if !answered {
                    return Ok(false);
                }
                self.pending.drain(..HEADER + size);
            }
        }
    }
}

/// The message number in a header.
pub(crate) fn short(number: &[u8]) -> u32 {
    number.first_chunk().map_or(0, |four| u32::from_be_bytes(*four))
}
