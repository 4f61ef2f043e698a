//! UDP datagrams in batches: many with one system call, without allocation.

use crate::stamp;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use units::{Instant, Span};

/// The maximum number of datagrams per call.
pub(crate) const BATCH: usize = 32;
/// The largest datagram, in bytes.
const MAX_DATAGRAM: usize = 65_536;
/// The socket buffer size, in bytes; without root the kernel may grant less.
const BUFFER: libc::c_int = 32 << 20;

/// A socket address in the kernel's format.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl Address {
    /// An unset address.
    pub fn empty() -> Self {
        // SAFETY: all zero is a valid address of no family.
        let storage = unsafe { MaybeUninit::zeroed().assume_init() };
        Self { storage, length: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    pub fn new(address: SocketAddr) -> Self {
        let mut this = Self::empty();
        let at: *mut libc::sockaddr_storage = &raw mut this.storage;
        match address {
            SocketAddr::V4(v4) => {
                let name = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                // SAFETY: the storage is large enough and aligned for every family.
                unsafe { at.cast::<libc::sockaddr_in>().write(name) };
                this.length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            SocketAddr::V6(v6) => {
                let name = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { at.cast::<libc::sockaddr_in6>().write(name) };
                this.length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        this
    }

    /// As a standard library address; None for other families.
    pub fn get(&self) -> Option<SocketAddr> {
        let at: *const libc::sockaddr_storage = &raw const self.storage;
        match libc::c_int::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says what it is, and the storage holds any.
                let name = unsafe { at.cast::<libc::sockaddr_in>().read() };
                let ip = IpAddr::V4(Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr)));
                Some(SocketAddr::new(ip, u16::from_be(name.sin_port)))
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let name = unsafe { at.cast::<libc::sockaddr_in6>().read() };
                let ip = IpAddr::V6(Ipv6Addr::from(name.sin6_addr.s6_addr));
                Some(SocketAddr::new(ip, u16::from_be(name.sin6_port)))
            }
            _ => None,
        }
    }

    /// Calls `f` with the address and its length as system calls take them.
    pub fn with<T>(&self, f: impl FnOnce(*const libc::sockaddr, libc::socklen_t) -> T) -> T {
        f((&raw const self.storage).cast(), self.length)
    }
}

/// A non-blocking UDP socket.
pub(crate) struct Datagrams {
    fd: OwnedFd,
}

impl Datagrams {
    /// Creates a socket bound to this address.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: integer arguments; a valid descriptor is ours.
        let fd = unsafe { libc::socket(family, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created and has no other owner.
        let this = Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } };
        for (forced, plain) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            // The forced options exceed the system's limit, and need CAP_NET_ADMIN (socket(7)).
            if this.set(libc::SOL_SOCKET, forced, BUFFER).is_err() {
                this.set(libc::SOL_SOCKET, plain, BUFFER)?;
            }
        }
        let name = Address::new(address);
        // SAFETY: the address lives over the call, and its length is correct.
        let bound = unsafe { libc::bind(fd, (&raw const name.storage).cast(), name.length) };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(this) }
    }

    /// Enables reports of datagrams that were rejected: unreachable, too large.
    pub fn report_errors(&self, ipv4: bool) -> io::Result<()> {
        if ipv4 {
            self.set(libc::IPPROTO_IP, libc::IP_RECVERR, 1)
        } else {
            self.set(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)
        }
    }

    /// Disables multicast of groups that other sockets of this machine have joined.
    pub fn ignore_groups(&self, ipv4: bool) {
        // IPV6_MULTICAST_ALL, since Linux 4.20. Older kernels ignore it.
        const IPV6_ALL: libc::c_int = 29;
        let _ = match ipv4 {
            true => self.set(libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0),
            false => self.set(libc::IPPROTO_IPV6, IPV6_ALL, 0),
        };
    }

    fn set(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        let at = (&raw const value).cast();
        // SAFETY: the value is an int that lives over the call; the size is correct.
        let result = unsafe { libc::setsockopt(self.raw(), level, option, at, size) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The local address.
    pub fn local(&self) -> io::Result<SocketAddr> {
        let mut name = Address::empty();
        // SAFETY: address and length are ours and writable.
        let result = unsafe {
            libc::getsockname(self.raw(), (&raw mut name.storage).cast(), &raw mut name.length)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        name.get().ok_or_else(|| io::Error::other("the socket has no address"))
    }

    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Waits until a datagram arrives or `most` has passed. Returns whether one is there.
    pub fn wait(&self, most: Span) -> bool {
        let mut entry = libc::pollfd { fd: self.raw(), events: libc::POLLIN, revents: 0 };
        let span = clock::timespec(most);
        // SAFETY: one entry and a span, which live over the call; no signal mask.
        unsafe { libc::ppoll(&raw mut entry, 1, &raw const span, std::ptr::null()) > 0 }
    }

    /// Takes one rejected datagram from the error queue into `buffer`: its length and the
    /// errno.
    pub fn take_rejected(&self, buffer: &mut [u8]) -> Option<(usize, i32)> {
        let mut control = [0u64; 32];
        let mut name = Address::empty();
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all zero is a header without parts.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_name = (&raw mut name.storage).cast();
        header.msg_namelen = name.length;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        // SAFETY: everything that the header points to lives over the call.
        let got = unsafe { libc::recvmsg(self.raw(), &raw mut header, libc::MSG_ERRQUEUE) };
        if got < 0 {
            return None;
        }
        let mut why = 0;
        // SAFETY: the kernel has written the control messages that the macros traverse; an
        // extended error is plain integers, read unaligned.
        unsafe {
            let mut at = libc::CMSG_FIRSTHDR(&raw const header);
            while !at.is_null() {
                let kind = ((*at).cmsg_level, (*at).cmsg_type);
                if kind == (libc::IPPROTO_IP, libc::IP_RECVERR)
                    || kind == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
                {
                    let error = libc::CMSG_DATA(at).cast::<libc::sock_extended_err>();
                    why = error.read_unaligned().ee_errno as i32;
                }
                at = libc::CMSG_NXTHDR(&raw const header, at);
            }
        }
        Some((got as usize, why))
    }
}

/// Buffers for the datagrams of one call, allocated once.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    room: usize,
    names: Vec<Address>,
    lengths: Vec<usize>,
    parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// Buffers for the kernel's arrival times, if enabled.
    controls: Vec<[u64; 8]>,
    filled: usize,
}

// SAFETY: the pointers lead into vectors of the same structure, which never move after they
// are created; the owner of the structure owns them.
unsafe impl Send for Batch {}

impl Batch {
    /// Buffers for datagrams of up to `room` bytes.
    pub fn new(room: usize) -> Self {
        let room = room.clamp(64, MAX_DATAGRAM);
        let mut this = Self {
            bytes: vec![0; room * BATCH],
            room,
            names: vec![Address::empty(); BATCH],
            lengths: vec![0; BATCH],
            parts: Vec::with_capacity(BATCH),
            headers: Vec::with_capacity(BATCH),
            controls: Vec::new(),
            filled: 0,
        };
        let base = this.bytes.as_mut_ptr();
        for i in 0..BATCH {
            // SAFETY: there are BATCH buffers.
            let iov_base = unsafe { base.add(i * room) }.cast();
            this.parts.push(libc::iovec { iov_base, iov_len: room });
        }
        for i in 0..BATCH {
            // SAFETY: all zero is a header without parts.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = &raw mut this.parts[i];
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = (&raw mut this.names[i].storage).cast();
            this.headers.push(header);
        }
        this
    }

    /// The same, with arrival times of datagrams: see [`stamp::enable`].
    pub fn with_stamps(room: usize) -> Self {
        Self { controls: vec![[0; 8]; BATCH], ..Self::new(room) }
    }

    /// When the datagram at `i` arrived, on CLOCK_MONOTONIC; `now` if the kernel does not
    /// report it.
    pub fn arrived(&self, i: usize, now: Instant) -> Instant {
        if self.controls.is_empty() {
            return now;
        }
        // SAFETY: the kernel has filled in the header on reception, and the control buffer
        // is ours.
        let stamp = unsafe { stamp::stamp(&self.headers[i].msg_hdr) };
        stamp.map_or(now, |stamp| clock::from_realtime(stamp, now))
    }

    /// The number of datagrams.
    pub fn len(&self) -> usize {
        self.filled
    }

    pub fn is_full(&self) -> bool {
        self.filled == BATCH
    }

    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Removes the last datagram.
    pub fn pop_last(&mut self) {
        self.filled = self.filled.saturating_sub(1);
    }

    /// The datagram at `i`.
    pub fn get(&self, i: usize) -> &[u8] {
        &self.bytes[i * self.room..i * self.room + self.lengths[i]]
    }

    /// The sender's or the destination's address.
    pub fn name(&self, i: usize) -> &Address {
        &self.names[i]
    }

    /// Adds a datagram for `to`; `write` fills it in and returns its length. Does nothing
    /// if the batch is full.
    pub fn push(&mut self, to: &Address, write: impl FnOnce(&mut [u8]) -> usize) {
        if self.is_full() {
            return;
        }
        let i = self.filled;
        let length = write(&mut self.bytes[i * self.room..(i + 1) * self.room]).min(self.room);
        self.lengths[i] = length;
        self.names[i] = *to;
        self.filled += 1;
    }

    /// Sends the datagrams from index `from` on. Returns how many the kernel took.
    pub fn send(&mut self, socket: &Datagrams, from: usize) -> io::Result<usize> {
        for i in from..self.filled {
            self.parts[i].iov_len = self.lengths[i];
            self.headers[i].msg_hdr.msg_namelen = self.names[i].length;
        }
        let count = (self.filled - from) as libc::c_uint;
        let at = self.headers[from..].as_mut_ptr();
        // SAFETY: `count` headers follow there, and what they point to is ours.
        let sent = unsafe { libc::sendmmsg(socket.raw(), at, count, 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }

    /// Receives up to `most` datagrams; none is not an error.
    pub fn receive(&mut self, socket: &Datagrams, most: usize) -> io::Result<usize> {
        let most = most.clamp(1, BATCH);
        for i in 0..most {
            self.parts[i].iov_len = self.room;
            self.headers[i].msg_hdr.msg_namelen =
                size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            if let Some(control) = self.controls.get_mut(i) {
                self.headers[i].msg_hdr.msg_control = control.as_mut_ptr().cast();
                self.headers[i].msg_hdr.msg_controllen = size_of_val(control) as _;
            }
        }
        let at = self.headers.as_mut_ptr();
        self.filled = 0;
        // SAFETY: as above; with MSG_DONTWAIT it takes no timeout.
        let got = unsafe {
            libc::recvmmsg(
                socket.raw(),
                at,
                most as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if got < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        }
        for i in 0..got as usize {
            self.lengths[i] = (self.headers[i].msg_len as usize).min(self.room);
            self.names[i].length = self.headers[i].msg_hdr.msg_namelen;
        }
        self.filled = got as usize;
        Ok(self.filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local() -> Datagrams {
        Datagrams::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap()
    }

    #[test]
    fn a_batch_goes_and_comes_with_its_senders() {
        let (one, two) = (local(), local());
        let to = Address::new(two.local().unwrap());
        let mut out = Batch::new(100);
        for i in 0..BATCH + 3 {
            out.push(&to, |room| {
                room[..2].copy_from_slice(&[i as u8, 7]);
                2
            });
        }
        assert_eq!((out.len(), out.is_full()), (BATCH, true));
        assert_eq!(out.send(&one, 0).unwrap(), BATCH);
        let mut into = Batch::new(100);
        let mut seen = 0;
        while seen < BATCH {
            assert!(two.wait(Span::from_s(5)));
            for i in 0..into.receive(&two, 5).unwrap() {
                assert_eq!(into.get(i), [seen as u8, 7]);
                assert_eq!(into.name(i).get(), Some(one.local().unwrap()));
                seen += 1;
            }
        }
        assert_eq!(into.receive(&two, 5).unwrap(), 0);
    }

    #[test]
    fn a_rejected_datagram_has_its_reason() {
        let (one, two) = (local(), local());
        one.report_errors(true).unwrap();
        let to = Address::new(two.local().unwrap());
        drop(two);
        let mut out = Batch::new(100);
        out.push(&to, |room| {
            room[..3].copy_from_slice(b"abc");
            3
        });
        out.send(&one, 0).unwrap();
        let mut buffer = [0; 64];
        assert!(one.wait(Span::from_s(5)));
        assert_eq!(one.take_rejected(&mut buffer), Some((3, libc::ECONNREFUSED)));
        assert_eq!(&buffer[..3], b"abc");
        assert_eq!(one.take_rejected(&mut buffer), None);
    }

    #[test]
    fn addresses_read_back() {
        for text in ["127.0.0.1:5", "[::1]:6"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Address::new(address).get(), Some(address));
        }
        assert_eq!(Address::empty().get(), None);
    }
}
