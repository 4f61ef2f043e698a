//! Packet sockets at the medium's ends of veth pairs, read through rings in shared memory
//! (TPACKET_V2): the path for users without access to `/dev/net/tun`.

use super::bpf::{Mapping, page_size};
use super::{FrameIo, Poll, Received, TURN, Waker, check};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use units::{Instant, Span};

/// Memory of all rings together, and minimum and maximum per ring.
const MEMORY: usize = 256 << 20;
// About 64 slots of full-size frames: a burst of TCP between two turns of the thread. With more than
// 2,048 ports, all rings together take more than `MEMORY` for this.
const LEAST: usize = 128 << 10;
const MOST: usize = 4 << 20;
/// Bytes before a frame in its slot: `struct tpacket2_hdr`, an address and padding, and
/// room for a VLAN tag.
const BEFORE: usize = 32 + 20 + 16 + 16;

/// Ring of one port.
#[derive(Debug)]
struct Slots {
    socket: OwnedFd,
    memory: Mapping,
    size: usize,
    /// Slots per block, bytes per block, and slots in total.
    in_block: usize,
    block: usize,
    count: usize,
    next: usize,
}

/// Packet sockets, one per port.
#[derive(Debug)]
pub struct Packet {
    poll: Poll,
    /// `None` for a port whose frames another thread carries.
    ports: Vec<Option<Slots>>,
    ready: Vec<(usize, u32)>,
    /// Offset of the kernel's arrival clock from CLOCK_MONOTONIC, in ns.
    clock_offset: Span,
}

impl Packet {
    /// Takes packet sockets, each bound to one interface; `None` for a port whose frames another
    /// thread carries.
    ///
    /// # Errors
    /// If the kernel has no memory for the rings, or a descriptor is not a packet socket.
    pub fn new(sockets: Vec<impl Into<Option<OwnedFd>>>) -> io::Result<Self> {
        let share = (MEMORY / sockets.len().max(1)).clamp(LEAST, MOST);
        let (poll, ports) = (Poll::new()?, Vec::with_capacity(sockets.len()));
        let mut all =
            Self { poll, ports, ready: Vec::new(), clock_offset: clock::realtime_offset() };
        for (port, socket) in sockets.into_iter().enumerate() {
            all.add(socket.into(), share).map_err(|error| {
                let what = format!("set up the packet socket of port {port}: {error}");
                io::Error::new(error.kind(), what)
            })?;
        }
        Ok(all)
    }

    /// Adds a port whose ring takes at most `share` bytes.
    fn add(&mut self, socket: Option<OwnedFd>, share: usize) -> io::Result<()> {
        let slots = socket.map(|socket| Slots::new(socket, share)).transpose()?;
        if let Some(slots) = &slots {
            self.poll.add(slots.socket.as_raw_fd(), self.ports.len() as u64)?;
        }
        self.ports.push(slots);
        Ok(())
    }

    /// A handle that reads the kernel's drop counters.
    ///
    /// # Errors
    /// If there are too many open files.
    pub fn overruns(&self) -> io::Result<DropCounters> {
        let clone = |slots: &Slots| slots.socket.try_clone();
        let sockets = self.ports.iter().map(|slots| slots.as_ref().map(clone).transpose());
        let read_before = self.ports.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(DropCounters { sockets: sockets.collect::<io::Result<_>>()?, read_before })
    }
}

/// Drop counters: frames that the kernel dropped because a port's ring was full.
#[derive(Debug)]
pub struct DropCounters {
    sockets: Vec<Option<OwnedFd>>,
    /// Drops read earlier: the kernel resets its counter with each read.
    read_before: Vec<AtomicU64>,
}

impl DropCounters {
    /// Dropped frames per port so far.
    pub fn read(&self) -> Vec<u64> {
        let tally = |(socket, read_before): (&Option<OwnedFd>, &AtomicU64)| {
            let Some(socket) = socket else { return 0 };
            let mut figures = [0u32; 2];
            let mut len = size_of_val(&figures) as u32;
            // SAFETY: writes two numbers into an array of two numbers.
            unsafe {
                libc::getsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_PACKET,
                    libc::PACKET_STATISTICS,
                    figures.as_mut_ptr().cast(),
                    &raw mut len,
                )
            };
            let new = u64::from(figures[1]);
            read_before.fetch_add(new, Ordering::Relaxed) + new
        };
        self.sockets.iter().zip(&self.read_before).map(tally).collect()
    }
}

impl Slots {
    fn new(socket: OwnedFd, share: usize) -> io::Result<Self> {
        // The Ethernet header, and a VLAN tag.
        let frame = mtu(&socket)? + 14 + 4;
        let size = (BEFORE + frame).next_multiple_of(16);
        // A block is contiguous kernel memory: no larger than needed.
        let block = size.next_multiple_of(page_size());
        let in_block = block / size;
        let blocks = (share / block).max(2);
        let option = |name: libc::c_int, value: &[u32]| {
            // SAFETY: the value is readable for its whole length.
            check(unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_PACKET,
                    name,
                    value.as_ptr().cast(),
                    size_of_val(value) as u32,
                )
            })
        };
        option(libc::PACKET_VERSION, &[libc::tpacket_versions::TPACKET_V2 as u32])?;
        let ring = [block, blocks, size, blocks * in_block].map(|figure| figure as u32);
        option(libc::PACKET_RX_RING, &ring)?;
        let memory = Mapping::new(socket.as_fd(), 0, blocks * block, true)?;
        let count = blocks * in_block;
        Ok(Self { socket, memory, size, in_block, block, count, next: 0 })
    }

    /// Offset of the slot `index`.
    fn place(&self, index: usize) -> usize {
        index / self.in_block * self.block + index % self.in_block * self.size
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: a slot begins with its status, an aligned word that kernel and
        // reader write atomically.
        unsafe { &*self.memory.at(self.place(self.next)).cast::<AtomicU32>() }
    }

    /// Copies the next available frame into `buffer`. Returns its length and its arrival
    /// time on the kernel's clock.
    fn read(&mut self, buffer: &mut [u8]) -> Option<(usize, Instant)> {
        // The kernel writes the frame before the status.
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let start = self.place(self.next);
        // SAFETY: this process owns the slot until its status changes; it lies within the
        // mapping, and begins with this header.
        let (header, slot) = unsafe {
            let header = std::ptr::read(self.memory.at(start).cast::<libc::tpacket2_hdr>());
            (header, self.memory.slice(start, self.size)?)
        };
        let from = usize::from(header.tp_mac);
        let frame = slot.get(from..from + header.tp_snaplen as usize);
        let tag = [header.tp_vlan_tpid.to_be_bytes(), header.tp_vlan_tci.to_be_bytes()];
        let tagged = header.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
        let len = frame.and_then(|frame| copy(frame, tagged.then(|| tag.concat()), buffer));
        let arrived = Span::from_s(header.tp_sec.into()) + Span::from_ns(header.tp_nsec.into());
        // After the copy: from here on the kernel may write another frame into the slot.
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.count;
        // A frame that does not fit has length 0 and is skipped by `receive`.
        Some((len.unwrap_or(0), Instant::START + arrived))
    }
}

/// Copies `frame` and re-inserts the VLAN tag that the kernel removed.
fn copy(frame: &[u8], tag: Option<Vec<u8>>, buffer: &mut [u8]) -> Option<usize> {
    let tag = tag.unwrap_or_default();
    let (addresses, rest) = frame.split_at_checked(12)?;
    let mut at = 0;
    for part in [addresses, &tag, rest] {
        buffer.get_mut(at..at + part.len())?.copy_from_slice(part);
        at += part.len();
    }
    Some(at)
}

/// MTU of the interface that a packet socket is bound to.
fn mtu(socket: &OwnedFd) -> io::Result<usize> {
    // SAFETY: all-zero structures are valid and live over the calls, which write
    // no more than they hold; each reads the union field that the one before wrote.
    unsafe {
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_ll>() as u32;
        let fd = socket.as_raw_fd();
        check(libc::getsockname(fd, (&raw mut address).cast(), &raw mut len))?;
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_ifru.ifru_ifindex = address.sll_ifindex;
        check(libc::ioctl(fd, libc::SIOCGIFNAME, &raw mut request))?;
        check(libc::ioctl(fd, libc::SIOCGIFMTU, &raw mut request))?;
        Ok(request.ifr_ifru.ifru_mtu as usize)
    }
}

impl FrameIo for Packet {
    fn waker(&self) -> Waker {
        self.poll.waker.clone()
    }

    fn wait(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()> {
        let Self { poll, ready, .. } = self;
        // epoll is level-triggered: frames beyond a port's turn are reported again.
        poll.wait(now, until, |token| ready.push((token as usize, TURN)))?;
        // The host's clock may be set during a run.
        self.clock_offset = clock::realtime_offset();
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<Received> {
        while let Some((port, turn)) = self.ready.last_mut() {
            let port = *port;
            *turn = turn.saturating_sub(1);
            let slots = self.ports[port].as_mut().filter(|_| *turn > 0);
            let read = slots.and_then(|slots| slots.read(buffer));
            match read {
                Some((0, _)) => {}
                Some((len, at)) => {
                    // The host's clock may have been set since the offset was read; no frame is of
                    // the future.
                    let arrived = Some((at - self.clock_offset).min(clock::now()));
                    return Some(Received { port, len, arrived });
                }
                None => drop(self.ready.pop()),
            }
        }
        None
    }

    fn send(&mut self, port: usize, frame: &[u8]) -> bool {
        let Some(slots) = &self.ports[port] else { return true };
        let fd = slots.socket.as_raw_fd();
        // SAFETY: the frame is readable for its whole length.
        let n = unsafe { libc::send(fd, frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
        n == frame.len() as isize
    }

    fn attach(&mut self, end: Option<OwnedFd>) -> io::Result<usize> {
        let port = self.ports.len();
        self.add(end, (MEMORY / (port + 1)).clamp(LEAST, MOST))?;
        Ok(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_goes_back_where_it_was() {
        let frame: Vec<u8> = (0..20).collect();
        let mut buffer = [0; 30];
        assert_eq!(copy(&frame, Some(vec![0x81, 0, 0, 5]), &mut buffer), Some(24));
        assert_eq!(buffer[..18], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x81, 0, 0, 5, 12, 13]);
        assert_eq!(copy(&frame, None, &mut buffer), Some(20));
        assert_eq!(copy(&frame, None, &mut [0; 19]), None);
        assert_eq!(copy(&frame[..5], None, &mut buffer), None);
    }
}
