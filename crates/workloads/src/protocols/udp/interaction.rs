//! Request and response over kernel UDP: no connection, no retransmission.

use super::{LARGEST, bind, receive};
use crate::error::Error;
use crate::link::{HELLO, SinkLink, SourceLink, Warning};
use record::spec::{InteractionSpec, Peer};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

/// Requested socket buffer size in bytes, for both directions; without root the kernel may grant
/// less.
const BUFFER_BYTES: libc::c_int = 4 << 20;
/// Maximum wait for room in the send buffer before a datagram is dropped.
const SEND_TIMEOUT_MS: libc::c_int = 1_000;

struct Socket {
    socket: UdpSocket,
    buffer: Vec<u8>,
    warning: Warning,
}

impl Socket {
    fn bind(spec: &InteractionSpec) -> Result<Self, Error> {
        let socket = bind(spec.address, spec.port_down)?;
        let fd = socket.as_raw_fd();
        // Root may exceed the system's limit. Large buffers are needed because hundreds of sinks
        // reply at once, and drops at the socket would count as network loss.
        for (forced, plain) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            if set(fd, libc::SOL_SOCKET, forced, BUFFER_BYTES).is_err() {
                set(fd, libc::SOL_SOCKET, plain, BUFFER_BYTES)
                    .map_err(Error::io("enlarge a UDP socket's buffer"))?;
            }
        }
        // Disable path MTU discovery: the kernel fragments a datagram larger than the MTU instead
        // of rejecting it.
        set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT)
            .map_err(Error::io("let the kernel fragment datagrams"))?;
        Ok(Self { socket, buffer: vec![0; LARGEST], warning: Warning::default() })
    }

    /// Receives the next datagram: length and sender.
    fn receive(&mut self) -> Result<Option<(usize, SocketAddr)>, Error> {
        receive(&self.socket, &mut self.buffer)
    }

    /// Sends a datagram. If the kernel rejects it, it is lost, as it could be in the network, with
    /// one warning: an outage is not an error.
    fn send(&mut self, to: SocketAddr, message: &[u8]) {
        for may_wait in [true, false] {
            match self.socket.send_to(message, to) {
                Ok(_) => return,
                Err(error) if error.kind() == ErrorKind::WouldBlock && may_wait => {
                    self.wait_writable();
                }
                Err(error) => {
                    return self
                        .warning
                        .once(|| format!("could not send a datagram to {to}: {error}"));
                }
            }
        }
    }

    fn wait_writable(&self) {
        let mut entry =
            libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one entry, which outlives the call.
        unsafe { libc::poll(&raw mut entry, 1, SEND_TIMEOUT_MS) };
    }
}

fn set(fd: RawFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is an int that outlives the call, with its size.
    let result =
        unsafe { libc::setsockopt(fd, level, option, std::ptr::from_ref(&value).cast(), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The source's socket, one for all sinks.
pub struct UdpSource {
    socket: Socket,
    peers: Vec<SocketAddr>,
    by_address: HashMap<IpAddr, usize>,
    answered: Vec<bool>,
    missing: usize,
}

impl UdpSource {
    /// Binds the socket.
    pub fn new(spec: &InteractionSpec) -> Result<Self, Error> {
        let peers: &[Peer] = &spec.peers;
        Ok(Self {
            socket: Socket::bind(spec)?,
            peers: peers.iter().map(|peer| (peer.address, spec.port_down).into()).collect(),
            by_address: peers.iter().enumerate().map(|(i, peer)| (peer.address, i)).collect(),
            answered: vec![false; peers.len()],
            missing: peers.len(),
        })
    }
}

impl SourceLink for UdpSource {
    fn descriptors(&self) -> Result<Vec<RawFd>, Error> {
        Ok(vec![self.socket.socket.as_raw_fd()])
    }

    fn hello(&mut self) -> Result<(), Error> {
        for (peer, _) in self.peers.iter().zip(&self.answered).filter(|(_, answered)| !**answered) {
            self.socket.send(*peer, HELLO);
        }
        Ok(())
    }

    fn greeted(&self) -> bool {
        self.missing == 0
    }

    fn send(&mut self, peer: Option<usize>, message: &[u8]) -> Result<(), Error> {
        // None sends to all; no model over UDP uses this yet.
        match peer {
            Some(peer) => self.socket.send(self.peers[peer], message),
            None => self.peers.iter().for_each(|peer| self.socket.send(*peer, message)),
        }
        Ok(())
    }

    fn receive(&mut self, message: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        while let Some((length, from)) = self.socket.receive()? {
            let Some(&peer) = self.by_address.get(&from.ip()) else { continue };
            let datagram = &self.socket.buffer[..length];
            if datagram == HELLO {
                if !std::mem::replace(&mut self.answered[peer], true) {
                    self.missing -= 1;
                }
                continue;
            }
            message.clear();
            message.extend_from_slice(datagram);
            return Ok(Some(peer));
        }
        Ok(None)
    }

    fn pending(&mut self) -> Result<bool, Error> {
        // A kernel socket stays readable while data is available.
        Ok(false)
    }
}

/// A sink's socket.
pub struct UdpSink {
    socket: Socket,
    source: IpAddr,
    sender: Option<SocketAddr>,
    hello_received: bool,
}

impl UdpSink {
    /// Binds the socket.
    pub fn new(spec: &InteractionSpec) -> Result<Self, Error> {
        let source = spec.peers[0].address;
        Ok(Self { socket: Socket::bind(spec)?, source, sender: None, hello_received: false })
    }
}

impl SinkLink for UdpSink {
    fn descriptors(&self) -> Result<Vec<RawFd>, Error> {
        Ok(vec![self.socket.socket.as_raw_fd()])
    }

    fn greet(&mut self) -> Result<(), Error> {
        // Each hello is answered on arrival, because the answer may be lost.
        Ok(())
    }

    fn greeted(&self) -> bool {
        self.hello_received
    }

    fn receive(&mut self, message: &mut Vec<u8>) -> Result<bool, Error> {
        while let Some((length, from)) = self.socket.receive()? {
            if from.ip() != self.source {
                continue;
            }
            self.sender = Some(from);
            if &self.socket.buffer[..length] == HELLO {
                self.hello_received = true;
                self.socket.send(from, HELLO);
                continue;
            }
            message.clear();
            message.extend_from_slice(&self.socket.buffer[..length]);
            return Ok(true);
        }
        Ok(false)
    }

    fn reply(&mut self, message: &[u8]) -> Result<bool, Error> {
        if let Some(sender) = self.sender {
            self.socket.send(sender, message);
        }
        Ok(true)
    }

    fn pending(&mut self) -> Result<bool, Error> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(role: &str, port: u16) -> InteractionSpec {
        let (own, peers) = match role {
            "source" => (
                "127.0.0.1",
                json!([
                    {"name": "a", "address": "127.0.0.2"}, {"name": "b", "address": "127.0.0.3"},
                ]),
            ),
            _ => ("127.0.0.2", json!([{"name": "utility", "address": "127.0.0.1"}])),
        };
        serde_json::from_value(json!({
            "role": role, "node": "x", "down": "udp/request-response",
            "up": "udp/request-response", "address": own, "port_down": port, "mtu": 1_500,
            "peers": peers, "payload": "p", "reply_payload": "p", "events": "e",
            "every_ns": 1, "messages": 1,
        }))
        .unwrap()
    }

    /// Waits until a link has something to read.
    fn wait(fd: RawFd) {
        let mut entry = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
        let until = clock::now() + units::Span::from_s(60);
        assert!(crate::wait::poll(&mut entry, Some(until)).unwrap());
        assert_ne!(entry[0].revents, 0, "nothing arrived");
    }

    #[test]
    fn a_source_and_a_sink_greet_and_exchange_and_ignore_others() {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (source_spec, sink_spec) = (spec("source", port), spec("sink", port));
        let mut source = UdpSource::new(&source_spec).unwrap();
        let mut sink = UdpSink::new(&sink_spec).unwrap();
        let (of_source, of_sink) =
            (source.descriptors().unwrap()[0], sink.descriptors().unwrap()[0]);
        let mut message = Vec::new();
        // Of an address that is no peer: the other sink does not run.
        let stranger = UdpSocket::bind("127.0.0.9:0").unwrap();
        stranger.send_to(HELLO, ("127.0.0.2", port)).unwrap();
        stranger.send_to(b"forged", ("127.0.0.1", port)).unwrap();
        wait(of_sink);
        assert!(!sink.receive(&mut message).unwrap() && !sink.greeted());
        wait(of_source);
        assert_eq!(source.receive(&mut message).unwrap(), None);
        source.hello().unwrap();
        wait(of_sink);
        assert!(!sink.receive(&mut message).unwrap() && sink.greeted());
        wait(of_source);
        assert_eq!(source.receive(&mut message).unwrap(), None);
        assert!(!source.greeted(), "one sink is missing");
        let other = UdpSocket::bind(("127.0.0.3", port)).unwrap();
        other.send_to(HELLO, ("127.0.0.1", port)).unwrap();
        other.send_to(HELLO, ("127.0.0.1", port)).unwrap();
        wait(of_source);
        assert_eq!(source.receive(&mut message).unwrap(), None);
        assert!(source.greeted() && source.missing == 0, "a repeated hello counts once");
        // A message larger than the MTU of any link, an empty one, and their replies.
        for text in [&vec![b'x'; 60_000][..], b""] {
            source.send(Some(0), text).unwrap();
            wait(of_sink);
            assert!(sink.receive(&mut message).unwrap());
            assert_eq!(message, text);
            assert!(sink.reply(b"reply").unwrap());
            wait(of_source);
            assert_eq!(source.receive(&mut message).unwrap(), Some(0));
            assert_eq!(message, b"reply");
        }
        // What the kernel refuses is lost, as in a network.
        source.send(Some(0), &vec![0; 70_000]).unwrap();
        source.send(Some(1), b"to the other").unwrap();
        other.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        let mut buffer = [0; 64];
        let length = other.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"to the other");
    }
}
