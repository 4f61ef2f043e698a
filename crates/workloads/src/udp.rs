//! Request and response over kernel UDP: no connection, no retransmission.

use crate::error::Error;
use crate::link::{HELLO, SinkLink, SourceLink, Warning};
use crate::spec::{Peer, Spec};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

/// Asked for in both directions; the kernel may grant less without root.
const BUFFER: libc::c_int = 4 << 20;
/// Longer than any datagram.
const LARGEST: usize = 65_536;
/// How long a full send buffer is waited for before a datagram counts as lost.
const PATIENCE_MS: libc::c_int = 1_000;

struct Socket {
    socket: UdpSocket,
    buffer: Vec<u8>,
    warning: Warning,
}

impl Socket {
    fn bind(spec: &Spec) -> Result<Self, Error> {
        let tried = format!("bind a UDP socket to {}:{}", spec.address, spec.port_down);
        let socket = UdpSocket::bind((spec.address, spec.port_down))
            .map_err(|source| Error::Address { tried, source })?;
        socket.set_nonblocking(true).map_err(Error::io("make a UDP socket non-blocking"))?;
        let fd = socket.as_raw_fd();
        // As root past the system's limit, else up to it: replies of hundreds of
        // sinks come at once, and what the socket drops the network is blamed for.
        for (forced, plain) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            if set(fd, libc::SOL_SOCKET, forced, BUFFER).is_err() {
                set(fd, libc::SOL_SOCKET, plain, BUFFER)
                    .map_err(Error::io("enlarge a UDP socket's buffer"))?;
            }
        }
        // No path MTU discovery: a datagram that is larger than the MTU is cut
        // into fragments by the kernel, never refused.
        set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT)
            .map_err(Error::io("let the kernel fragment datagrams"))?;
        Ok(Self { socket, buffer: vec![0; LARGEST], warning: Warning::default() })
    }

    /// The next datagram: its length and who sent it.
    fn receive(&mut self) -> Result<Option<(usize, SocketAddr)>, Error> {
        loop {
            match self.socket.recv_from(&mut self.buffer) {
                Ok(received) => return Ok(Some(received)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A peer that is not up yet; the hello is repeated.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(Error::io("receive a datagram")(error)),
            }
        }
    }

    /// Hands a datagram to the kernel. What the kernel does not take is lost,
    /// as it would be further on, and said once: an outage is no failure.
    fn send(&mut self, to: SocketAddr, message: &[u8]) {
        for patient in [true, false] {
            match self.socket.send_to(message, to) {
                Ok(_) => return,
                Err(error) if error.kind() == ErrorKind::WouldBlock && patient => {
                    self.wait_writable();
                }
                Err(error) => {
                    return self.warning.once(|| {
                        format!("the kernel rejected a datagram for {to}, which is lost: {error}")
                    });
                }
            }
        }
    }

    fn wait_writable(&self) {
        let mut entry =
            libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one entry, which lives over the call.
        unsafe { libc::poll(&raw mut entry, 1, PATIENCE_MS) };
    }
}

fn set(fd: RawFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is an int that lives over the call, the size is its own.
    let result =
        unsafe { libc::setsockopt(fd, level, option, std::ptr::from_ref(&value).cast(), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The source's socket, one for all sinks.
pub struct UdpSource {
    socket: Socket,
    peers: Vec<SocketAddr>,
    by_address: HashMap<Ipv4Addr, usize>,
    answered: Vec<bool>,
    missing: usize,
}

impl UdpSource {
    /// Binds the socket.
    pub fn new(spec: &Spec) -> Result<Self, Error> {
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
        // No one means everyone, though no model over UDP does that so far.
        match peer {
            Some(peer) => self.socket.send(self.peers[peer], message),
            None => self.peers.iter().for_each(|peer| self.socket.send(*peer, message)),
        }
        Ok(())
    }

    fn receive(&mut self, message: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        while let Some((length, from)) = self.socket.receive()? {
            let SocketAddr::V4(from) = from else { continue };
            let Some(&peer) = self.by_address.get(from.ip()) else { continue };
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
        // A kernel socket stays readable as long as something is there.
        Ok(false)
    }
}

/// A sink's socket.
pub struct UdpSink {
    socket: Socket,
    source: Ipv4Addr,
    sender: Option<SocketAddr>,
    heard: bool,
}

impl UdpSink {
    /// Binds the socket.
    pub fn new(spec: &Spec) -> Result<Self, Error> {
        let source = spec.peers[0].address;
        Ok(Self { socket: Socket::bind(spec)?, source, sender: None, heard: false })
    }
}

impl SinkLink for UdpSink {
    fn descriptors(&self) -> Result<Vec<RawFd>, Error> {
        Ok(vec![self.socket.socket.as_raw_fd()])
    }

    fn greet(&mut self) -> Result<(), Error> {
        // Each hello is answered as it comes: the answer may be lost.
        Ok(())
    }

    fn greeted(&self) -> bool {
        self.heard
    }

    fn receive(&mut self, message: &mut Vec<u8>) -> Result<bool, Error> {
        while let Some((length, from)) = self.socket.receive()? {
            if from.ip() != self.source {
                continue;
            }
            self.sender = Some(from);
            if &self.socket.buffer[..length] == HELLO {
                self.heard = true;
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
