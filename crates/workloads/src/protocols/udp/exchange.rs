//! Plain UDP: a datagram with the exchange number in four bytes before the payload. The sink
//! answers with these four bytes. No retransmission.

use super::{LARGEST, bind, receive};
use crate::address::unspecified_for;
use crate::error::Error;
use crate::exchange::body::Body;
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::log::Receipts;
use crate::exchange::outcome::Outcome;
use crate::exchange::protocol::{Connecting, Driver, Protocol, Server, Turn};
use crate::exchange::sections::Section;
use crate::exchange::watch::Watch;
use crate::protocols::tcp::exchange::short;
use crate::protocols::tcp::stream::is_transient;
use record::Connection;
use record::spec::ExchangeSpec;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Bytes before each payload, and of the answer.
const HEADER: usize = 4;
/// Maximum payload: a datagram over IPv4 has up to 65,507 bytes.
const LONGEST: usize = 65_507 - HEADER;

pub(crate) fn driver(spec: &ExchangeSpec) -> Box<dyn Driver> {
    let to = SocketAddr::from((spec.peers[0].address, spec.port));
    Box::new(Connecting::new(Source { to }, spec.connection == Connection::Kept))
}

pub(crate) fn server(spec: &ExchangeSpec) -> Result<Box<dyn Server>, Error> {
    let socket = bind(spec.address, spec.port)?;
    Ok(Box::new(Sink { spec: spec.clone(), socket, body: Body::new(spec.seed, spec.longest()) }))
}

struct Source {
    to: SocketAddr,
}

impl Protocol for Source {
    /// All exchanges over one socket have one port.
    type Connection = UdpSocket;

    fn connect(&mut self, _: &mut Turn<'_, '_>) -> Result<UdpSocket, Failure> {
        let failed = || Failure::io("open a socket");
        let socket = UdpSocket::bind((unspecified_for(self.to.ip()), 0)).map_err(failed())?;
        socket.set_nonblocking(true).map_err(failed())?;
        socket.connect(self.to).map_err(Failure::io(&format!("send to {}", self.to)))?;
        Ok(socket)
    }

    fn exchange(
        &mut self,
        turn: &mut Turn<'_, '_>,
        socket: &mut UdpSocket,
    ) -> Result<Outcome, Failure> {
        if turn.size > LONGEST {
            let why = format!("a datagram has room for {LONGEST} B of payload");
            return Err(Failure::of(Reason::Unsupported, why));
        }
        turn.enter(Section::Payload);
        let number = (turn.number as u32).to_be_bytes();
        let message = [&number[..], &turn.payload()].concat();
        while let Err(error) = socket.send(&message) {
            match is_transient(&error) {
                true => turn.wait(socket.as_raw_fd(), libc::POLLOUT)?,
                // The kernel reports the ICMP error of the previous datagram here.
                false => return Err(Failure::io("send")(error)),
            }
        }
        loop {
            turn.wait(socket.as_raw_fd(), libc::POLLIN)?;
            // One byte more detects a longer datagram, which is no answer.
            let mut answer = [0; HEADER + 1];
            match socket.recv(&mut answer) {
                Ok(HEADER) if answer[..HEADER] == number => return Ok(Outcome::default()),
                // A late answer, or an unrelated datagram.
                Ok(_) => {}
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(Failure::io("receive")(error)),
            }
        }
    }

    fn close(&mut self, _: &mut Turn<'_, '_>, _: UdpSocket) -> Result<(), Failure> {
        Ok(())
    }
}

struct Sink {
    spec: ExchangeSpec,
    socket: UdpSocket,
    body: Body,
}

impl Server for Sink {
    fn serve(&mut self, watch: &mut Watch<'_>, receipts: &mut Receipts) -> Result<(), Error> {
        watch.ready()?;
        let mut buffer = vec![0; LARGEST];
        let events = libc::POLLIN;
        let fd = self.socket.as_raw_fd();
        while watch.wait(&mut [libc::pollfd { fd, events, revents: 0 }], None).is_ok() {
            let Ok(Some((length, from))) = receive(&self.socket, &mut buffer) else { continue };
            let at = clock::now();
            let Some((header, payload)) = buffer[..length].split_first_chunk::<HEADER>() else {
                continue;
            };
            let Some(known) = self.body.number(payload) else { continue };
            // If the send buffer is full, the answer is lost, like any datagram.
            let _ = self.socket.send_to(header, from);
            let number = known.unwrap_or_else(|| u64::from(short(header)));
            receipts.note(&self.spec.name_of(from.ip()), Some(number), payload.len(), at)?;
        }
        Ok(())
    }
}
