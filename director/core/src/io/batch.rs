//! Several datagrams per system call: a session of many members, or with many open messages, sends
//! and receives most datagrams in groups. Datagrams of the same size to the same address go to the
//! kernel as one buffer, which it segments (UDP_SEGMENT), and come from it in the same way (UDP_GRO).

use crate::Span;
use libc::{c_int, c_void, cmsghdr, iovec, mmsghdr, sockaddr_storage, socklen_t};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use socket2::SockAddr;
use std::cell::RefCell;
use std::io::{Error, ErrorKind, Result};
use std::mem::{MaybeUninit, size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Buffers per system call.
const BUFFERS: usize = 16;
/// Size of a buffer, in bytes: the longest datagram, or segments of this length together.
const LONGEST: usize = 65_536;
/// Maximum datagrams per segmented buffer (the limit of Linux before 6.9).
const SEGMENTS: usize = 64;
/// Maximum bytes per segmented buffer, below the longest IP packet.
const SEGMENTED: usize = 60_000;
/// Room for control messages with an `int` and a `timespec`, aligned as their headers.
type Control = [u64; 8];
/// Longer waits in the socket are a clock that was set meanwhile.
const LONGEST_WAIT: Span = Span::from_s(1);

/// Asks the kernel to receive datagrams of one size and sender together, and for their arrival
/// times. An older kernel without this gives them one by one.
pub fn set_options(socket: impl AsFd) {
    let on: c_int = 1;
    let (fd, size) = (socket.as_fd().as_raw_fd(), size_of::<c_int>() as socklen_t);
    for (level, option) in
        [(libc::SOL_UDP, libc::UDP_GRO), (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)]
    {
        // SAFETY: the descriptor is open; the option is an int, which outlives the call.
        let _ = unsafe { libc::setsockopt(fd, level, option, (&raw const on).cast(), size) };
    }
}

/// A datagram that has arrived.
pub struct Arrival<'a> {
    pub bytes: &'a [u8],
    pub from: SocketAddr,
    /// Time for which it has waited in the socket: the machine was busy, not the path.
    pub waited: Span,
}

/// Buffers for datagrams that have arrived.
struct Buffers {
    bytes: Box<[u8]>,
    names: Box<[sockaddr_storage; BUFFERS]>,
    controls: [Control; BUFFERS],
    contents: [Content; BUFFERS],
}

/// What a buffer has.
#[derive(Clone, Copy, Default)]
struct Content {
    /// Its length, and that of a datagram in it, in bytes.
    length: usize,
    segment: usize,
    waited: Span,
}

thread_local! {
    /// Used by all sessions of a thread: their tasks do not wait while they handle datagrams.
    static SHARED: RefCell<Vec<Buffers>> = const { RefCell::new(Vec::new()) };
}

/// Datagrams that have arrived.
pub struct Batch {
    buffers: Option<Buffers>,
    count: usize,
}

impl Batch {
    /// Receives what has arrived, at most `BUFFERS` buffers; `None` if there is nothing. It asks the
    /// system: the runtime may not know yet of what has arrived while a task was sending. When all
    /// has been received, the runtime learns that.
    pub fn receive(socket: &UdpSocket) -> Option<Self> {
        let mut buffers = SHARED.with_borrow_mut(Vec::pop).unwrap_or_else(Buffers::new);
        let count = buffers.receive(socket.as_fd()).unwrap_or(0);
        let batch = Self { buffers: Some(buffers), count };
        if count < BUFFERS {
            let nothing = || Err::<(), Error>(ErrorKind::WouldBlock.into());
            let _ = socket.try_io(Interest::READABLE, nothing);
        }
        (count > 0).then_some(batch)
    }

    /// Whether it was all that had arrived.
    pub fn is_last(&self) -> bool {
        self.count < BUFFERS
    }

    /// The datagrams.
    pub fn iter(&self) -> impl Iterator<Item = Arrival<'_>> {
        let buffers = self.buffers.iter();
        buffers.flat_map(|buffers| (0..self.count).flat_map(|place| buffers.datagrams(place)))
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        SHARED.with_borrow_mut(|shared| shared.extend(self.buffers.take()));
    }
}

impl Buffers {
    fn new() -> Self {
        // SAFETY: all bytes of these structures may be zero.
        let names = Box::new(unsafe { zeroed() });
        let (controls, contents) = ([Control::default(); BUFFERS], [Content::default(); BUFFERS]);
        Self { bytes: vec![0; BUFFERS * LONGEST].into(), names, controls, contents }
    }

    fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<usize> {
        let mut parts: [iovec; BUFFERS] = std::array::from_fn(|place| iovec {
            iov_base: (&raw mut self.bytes[place * LONGEST]).cast(),
            iov_len: LONGEST,
        });
        // SAFETY: all bytes of these structures may be zero.
        let mut heads: [mmsghdr; BUFFERS] = unsafe { zeroed() };
        for (place, head) in heads.iter_mut().enumerate() {
            head.msg_hdr.msg_iov = &raw mut parts[place];
            head.msg_hdr.msg_iovlen = 1;
            head.msg_hdr.msg_name = (&raw mut self.names[place]).cast();
            head.msg_hdr.msg_namelen = size_of::<sockaddr_storage>() as socklen_t;
            head.msg_hdr.msg_control = (&raw mut self.controls[place]).cast();
            head.msg_hdr.msg_controllen = size_of::<Control>();
        }
        let (fd, wait) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: the descriptor is open. Each header points to a separate buffer, name and
        // control buffer with their sizes, which outlive the call.
        let count = unsafe {
            libc::recvmmsg(fd, heads.as_mut_ptr(), BUFFERS as u32, wait, std::ptr::null_mut())
        };
        let count = usize::try_from(count).map_err(|_| Error::last_os_error())?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (place, head) in heads.iter().take(count).enumerate() {
            let length = (head.msg_len as usize).min(LONGEST);
            // SAFETY: the kernel has filled the header, which points to our control buffer.
            let controls = unsafe { controls_of(&head.msg_hdr) };
            let waited = controls.arrived_at.map(|at| now.saturating_sub(at).into());
            let waited = waited.filter(|waited| *waited < LONGEST_WAIT).unwrap_or_default();
            let segment = controls.segment.unwrap_or(length).max(1);
            self.contents[place] = Content { length, segment, waited };
        }
        Ok(count)
    }

    fn datagrams(&self, place: usize) -> impl Iterator<Item = Arrival<'_>> {
        let Content { length, segment, waited } = self.contents[place];
        let whole = &self.bytes[place * LONGEST..][..length];
        let from = address(&self.names[place]);
        let arrival = move |(bytes, from)| Arrival { bytes, from, waited };
        let parts = move |from| whole.chunks(segment).map(move |part| arrival((part, from)));
        from.into_iter().flat_map(parts)
    }
}

/// What the kernel says of a received buffer.
#[derive(Default)]
struct Controls {
    /// The size of segments, if there is more than one.
    segment: Option<usize>,
    /// The arrival time, from the epoch of the system's clock.
    arrived_at: Option<Duration>,
}

/// Reads what the kernel says of a received buffer.
///
/// # Safety
/// `recvmmsg` has filled the header, and its control buffer still exists.
unsafe fn controls_of(head: &libc::msghdr) -> Controls {
    let mut controls = Controls::default();
    // SAFETY: the caller guarantees it; the macros stay within the control buffer.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(head);
        while let Some(control) = next.as_ref() {
            let data = libc::CMSG_DATA(control);
            match (control.cmsg_level, control.cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let size = data.cast::<c_int>().read_unaligned();
                    controls.segment = usize::try_from(size).ok();
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let at = data.cast::<libc::timespec>().read_unaligned();
                    let part = u32::try_from(at.tv_nsec).unwrap_or(0);
                    controls.arrived_at =
                        u64::try_from(at.tv_sec).ok().map(|whole| Duration::new(whole, part));
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(head, control);
        }
    }
    controls
}

fn address(name: &sockaddr_storage) -> Option<SocketAddr> {
    let name = &raw const *name;
    // SAFETY: the storage is large enough for both structures, and aligned; the kernel has written
    // the one that the family says.
    unsafe {
        match c_int::from((*name).ss_family) {
            libc::AF_INET => {
                let own = &*name.cast::<libc::sockaddr_in>();
                let ip = Ipv4Addr::from(own.sin_addr.s_addr.to_ne_bytes());
                Some((ip, u16::from_be(own.sin_port)).into())
            }
            libc::AF_INET6 => {
                let own = &*name.cast::<libc::sockaddr_in6>();
                let (ip, port) = (Ipv6Addr::from(own.sin6_addr.s6_addr), own.sin6_port);
                let scope = own.sin6_scope_id;
                Some(SocketAddrV6::new(ip, u16::from_be(port), own.sin6_flowinfo, scope).into())
            }
            _ => None,
        }
    }
}

/// Datagrams to send, with their receivers.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: Vec<(SocketAddr, Vec<u8>)>,
    /// Whether the kernel or the interface does not segment.
    whole: bool,
}

impl Outbox {
    /// Adds a datagram.
    pub fn push(&mut self, to: SocketAddr, datagram: Vec<u8>) {
        self.queue.push((to, datagram));
    }

    /// Sends all. A failed send counts as a loss on the path.
    pub async fn flush(&mut self, socket: &UdpSocket) {
        let mut sent = 0;
        while let Some(rest) = self.queue.get(sent..).filter(|rest| !rest.is_empty()) {
            let send = || send(socket.as_fd(), rest, self.whole);
            match socket.try_io(Interest::WRITABLE, send) {
                Ok(count) => sent += count,
                Err(why) if why.kind() == ErrorKind::WouldBlock => {
                    if socket.writable().await.is_err() {
                        break;
                    }
                }
                // Not supported by the kernel or the interface, or longer than its packets.
                Err(_) if !self.whole && run(rest) > 1 => self.whole = true,
                Err(_) => sent += 1,
            }
        }
        self.queue.clear();
    }
}

/// Number of datagrams, from the first on, that one buffer can have: of the same size to the same
/// receiver, only the last one may be shorter.
fn run(datagrams: &[(SocketAddr, Vec<u8>)]) -> usize {
    let Some((to, first)) = datagrams.first() else { return 0 };
    let most = (SEGMENTED / first.len().max(1)).clamp(1, SEGMENTS);
    let mut count = 1;
    for (other, datagram) in &datagrams[1..most.min(datagrams.len())] {
        if other != to || datagram.len() > first.len() || datagram.is_empty() {
            break;
        }
        count += 1;
        if datagram.len() < first.len() {
            break;
        }
    }
    count
}

/// Sends datagrams; returns how many of them.
fn send(socket: BorrowedFd<'_>, datagrams: &[(SocketAddr, Vec<u8>)], whole: bool) -> Result<usize> {
    let parts: Vec<iovec> = datagrams
        .iter()
        .map(|(_, datagram)| iovec {
            iov_base: datagram.as_ptr().cast_mut().cast::<c_void>(),
            iov_len: datagram.len(),
        })
        .collect();
    let mut runs = [0; BUFFERS];
    let mut names = [const { MaybeUninit::<SockAddr>::uninit() }; BUFFERS];
    let mut controls = [Control::default(); BUFFERS];
    // SAFETY: all bytes of these structures may be zero.
    let mut heads: [mmsghdr; BUFFERS] = unsafe { zeroed() };
    let (mut first, mut used) = (0, 0);
    while first < datagrams.len() && used < BUFFERS {
        let count = if whole { 1 } else { run(&datagrams[first..]) };
        let head = &mut heads[used].msg_hdr;
        let name = names[used].write(datagrams[first].0.into());
        head.msg_name = name.as_ptr().cast_mut().cast();
        head.msg_namelen = name.len();
        head.msg_iov = parts[first..].as_ptr().cast_mut();
        head.msg_iovlen = count;
        if count > 1 {
            head.msg_control = (&raw mut controls[used]).cast();
            head.msg_controllen = size_of::<Control>();
            // SAFETY: the control buffer has room for this message, and is aligned as its header.
            head.msg_controllen = unsafe { segment(head, parts[first].iov_len as u16) };
        }
        runs[used] = count;
        (first, used) = (first + count, used + 1);
    }
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    // SAFETY: the descriptor is open. Each header points to buffers, a name and a control message
    // with their sizes, which outlive the call; the kernel only reads them.
    let count = unsafe { libc::sendmmsg(fd, heads.as_mut_ptr(), used as u32, flags) };
    let count = usize::try_from(count).map_err(|_| Error::last_os_error())?;
    Ok(runs[..count.min(used)].iter().sum())
}

/// Writes the control message that a buffer has segments of `size` bytes; returns its length.
///
/// # Safety
/// The header has a control buffer with room for it.
unsafe fn segment(head: &libc::msghdr, size: u16) -> usize {
    // SAFETY: the caller guarantees it.
    unsafe {
        let control: *mut cmsghdr = libc::CMSG_FIRSTHDR(head);
        (*control).cmsg_level = libc::SOL_UDP;
        (*control).cmsg_type = libc::UDP_SEGMENT;
        (*control).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as usize;
        libc::CMSG_DATA(control).cast::<u16>().write_unaligned(size);
        libc::CMSG_SPACE(size_of::<u16>() as u32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[tokio::test]
    async fn the_time_in_the_socket_is_known() {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let [own, other] =
            [UdpSocket::bind(local).await.unwrap(), UdpSocket::bind(local).await.unwrap()];
        set_options(&other);
        // The clocks differ by what adjusts the system's one.
        let (slack, begin) = (Duration::from_millis(5), Instant::now());
        loop {
            let began = Instant::now();
            own.send_to(&[1; 10], other.local_addr().unwrap()).await.unwrap();
            let sent = Instant::now();
            std::thread::sleep(Duration::from_millis(50));
            let least = sent.elapsed();
            let batch = Batch::receive(&other).unwrap();
            let most = began.elapsed();
            let waited = Duration::from(batch.iter().next().unwrap().waited);
            assert!(waited <= most + slack, "{waited:?} {most:?}");
            if waited + slack >= least {
                break;
            }
            // The kernel begins to take arrival times a while after the first socket asks for them.
            assert!(begin.elapsed() < Duration::from_secs(30), "{waited:?} {least:?}");
        }
    }

    #[tokio::test]
    async fn datagrams_arrive_one_by_one_whatever_they_were_sent_in() {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let open = || UdpSocket::bind(local);
        let (own, first, second) =
            (open().await.unwrap(), open().await.unwrap(), open().await.unwrap());
        set_options(&first);
        let sizes = [100, 100, 40, 100, 7, 7, 7, 1_400, 1_400, 8, 9];
        for whole in [false, true] {
            let mut outbox = Outbox { whole, ..Outbox::default() };
            for (place, size) in sizes.iter().enumerate() {
                for to in [&first, &second] {
                    outbox.push(to.local_addr().unwrap(), vec![place as u8; *size]);
                }
            }
            outbox.flush(&own).await;
            // To one receiver in a row.
            for _ in 0..100 {
                outbox.push(first.local_addr().unwrap(), vec![9; 50]);
            }
            outbox.flush(&own).await;
            assert!(outbox.queue.is_empty());
            for (socket, more) in [(&first, 100), (&second, 0)] {
                let mut received: Vec<Vec<u8>> = Vec::new();
                while received.len() < sizes.len() + more {
                    socket.readable().await.unwrap();
                    let Some(batch) = Batch::receive(socket) else { continue };
                    for arrival in batch.iter() {
                        assert_eq!(arrival.from, own.local_addr().unwrap());
                        received.push(arrival.bytes.to_vec());
                    }
                }
                let expected = sizes.iter().enumerate().map(|(place, n)| vec![place as u8; *n]);
                let expected = expected.chain((0..more).map(|_| vec![9; 50]));
                assert_eq!(received, expected.collect::<Vec<Vec<u8>>>());
            }
        }
    }
}
