//! Veth pairs with a BPF program: frames arrive through one ring in shared memory, without
//! a system call and with the kernel's arrival time.

use super::bpf::{self, MapKind, Mapping};
use super::lanes::{Lanes, Turn};
use super::program::{self, FRAME, HEADER, Maps, PortState};
use super::ring_buffer::RingBuffer;
use super::{FrameIo, Poll, Received, Waker, close, unblock};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Instant, Span};

/// Room for 10,000 frames of MTU 1500 from each of three nodes, or for 500,000 small ones
/// from many. The smaller sizes are for hosts with little memory.
const SIZES: [u32; 3] = [64 << 20, 16 << 20, 4 << 20];
/// Frames taken from a port before the program's `taken` counter is updated: each update
/// costs the senders a cache line.
const REPORT_EVERY: u32 = 32;
/// Maximum wait for a record that is still being written: its writer was preempted, and
/// nothing reports when it resumes.
const MAX_WRITE_WAIT: Span = Span::from_us(20);

/// Token of the ring in `poll`.
const RECORDS: u64 = 0;

/// Ports that can be added later: 2 MB shared with the kernel.
const SPARE_PORTS: usize = 16_384;

/// Attaches the program to the interface with an index.
pub struct Attach(Box<Attaching>);

type Attaching = dyn Fn(u32, BorrowedFd<'_>) -> io::Result<()> + Send;

impl Attach {
    /// Uses this function.
    pub fn by(attach: impl Fn(u32, BorrowedFd<'_>) -> io::Result<()> + Send + 'static) -> Self {
        Self(Box::new(attach))
    }
}

impl std::fmt::Debug for Attach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Attach")
    }
}

/// The program's counters, readable from any thread.
#[derive(Debug, Clone)]
pub struct Tallies {
    shared: Arc<Shared>,
}

impl Tallies {
    /// Frames dropped so far because a port had used up its share of the ring, for each
    /// existing or spare port.
    pub fn refused(&self) -> Vec<u64> {
        let ports = 0..self.shared.count;
        ports.map(|port| self.shared.port(port).refused.load(Ordering::Relaxed)).collect()
    }
}

#[derive(Debug)]
struct Shared {
    ports: Mapping,
    sleeping: Mapping,
    /// Number of ports with state.
    count: usize,
}

impl Shared {
    fn port(&self, port: usize) -> &PortState {
        assert!(port < self.count);
        // SAFETY: the array has `count` states of this size, aligned by the page,
        // and both sides access them only by atomics.
        unsafe { &*self.ports.at(port * size_of::<PortState>()).cast::<PortState>() }
    }

    fn sleeping(&self) -> &AtomicU64 {
        // SAFETY: the array's only value is this word.
        unsafe { &*self.sleeping.at(0).cast::<AtomicU64>() }
    }
}

/// Frames of one port not yet reported to the program.
#[derive(Debug, Clone, Copy, Default)]
struct Unreported {
    frames: u32,
    figure: u64,
    /// Whether the port is in the list to report at the next wait.
    listed: bool,
}

/// Veth pairs whose frames arrive through a BPF ring.
#[derive(Debug)]
pub struct Ring {
    poll: Poll,
    /// Send-only packet sockets; `None` for a removed port, and for one of another thread.
    ends: Vec<Option<OwnedFd>>,
    ring: RingBuffer,
    lanes: Lanes,
    unreported: Vec<Unreported>,
    unreported_ports: Vec<u32>,
    shared: Arc<Shared>,
    program: OwnedFd,
    attach: Attach,
    /// Index of the first port's interface; the others follow.
    first: u32,
    /// Keeps the ring alive; the veth pairs keep the program alive.
    _maps: Maps,
}

impl Ring {
    /// Takes packet sockets at the medium's ends of veth pairs, and attaches the program there.
    /// Both interfaces of the first pair have the index `first` (ifindex); those of the others
    /// follow in order. `None`: a port whose frames another thread carries.
    ///
    /// # Errors
    /// Why this path is unavailable: the kernel does not support it, or this user has no
    /// permission.
    pub fn new(
        ends: Vec<impl Into<Option<OwnedFd>>>,
        first: u32,
        attach: Attach,
    ) -> io::Result<Self> {
        Self::with_room(ends, first, attach, SPARE_PORTS)
    }

    /// As [`Self::new`], with room for `spare` more ports.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn with_room(
        ends: Vec<impl Into<Option<OwnedFd>>>,
        first: u32,
        attach: Attach,
        spare: usize,
    ) -> io::Result<Self> {
        // The kernel may lack the memory, or this user the right to lock it.
        let [largest, smaller @ ..] = SIZES;
        let room = ends.len() + spare;
        let mut made = Self::prepare(room, first, largest);
        for size in smaller {
            made = made.or_else(|_| Self::prepare(room, first, size));
        }
        let (maps, ring, shared, program) = made?;
        let poll = Poll::new()?;
        poll.add(maps.ring.as_raw_fd(), RECORDS)?;
        let count = room.max(1);
        let mut all = Self {
            poll,
            ends: Vec::with_capacity(ends.len()),
            ring,
            lanes: Lanes::new(count),
            unreported: vec![Unreported::default(); count],
            unreported_ports: Vec::with_capacity(count),
            shared,
            program,
            attach,
            first,
            _maps: maps,
        };
        for end in ends {
            all.attach(end.into())?;
        }
        Ok(all)
    }

    fn prepare(
        ports: usize,
        first: u32,
        size: u32,
    ) -> io::Result<(Maps, RingBuffer, Arc<Shared>, OwnedFd)> {
        let ports = ports.max(1);
        let entries = u32::try_from(ports).map_err(io::Error::other)?;
        let state = size_of::<PortState>();
        let maps = Maps {
            ring: bpf::map(MapKind::RingBuffer, 0, size)?,
            size,
            ports: bpf::map(MapKind::SharedArray, state as u32, entries)?,
            sleeping: bpf::map(MapKind::SharedArray, 8, 1)?,
        };
        let program = program::load(&maps, first)?;
        let shared = Shared {
            ports: Mapping::new(maps.ports.as_fd(), 0, ports * state, true)?,
            sleeping: Mapping::new(maps.sleeping.as_fd(), 0, 8, true)?,
            count: ports,
        };
        let ring = RingBuffer::new(maps.ring.as_fd(), size)?;
        Ok((maps, ring, Arc::new(shared), program))
    }

    /// Checks without a node whether this process can use this path: loads the program and
    /// passes it to `attach`.
    ///
    /// # Errors
    /// Why this process cannot.
    pub fn try_out(attach: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>) -> io::Result<()> {
        let (_maps, _, _, program) = Self::prepare(1, 1, SIZES[SIZES.len() - 1])?;
        attach(program.as_fd())
    }

    /// The program's counters.
    pub fn tallies(&self) -> Tallies {
        Tallies { shared: self.shared.clone() }
    }

    /// Copies the record's frame into `buffer`.
    fn take(&mut self, record: u64, buffer: &mut [u8]) -> Option<Received> {
        let (port, len, arrived) = header(self.ring.at(record, HEADER))?;
        let frame = self.ring.at(record, HEADER + len).get(HEADER..)?;
        buffer.get_mut(..len)?.copy_from_slice(frame);
        self.count(port, len);
        let released = self.lanes.released();
        self.ring.release(released);
        Some(Received { port, len, arrived: Some(arrived) })
    }

    fn count(&mut self, port: usize, len: usize) {
        let unreported = &mut self.unreported[port];
        if !unreported.listed {
            unreported.listed = true;
            self.unreported_ports.push(port as u32);
        }
        unreported.frames += 1;
        unreported.figure += FRAME + program::room(len) as u64;
        if unreported.frames >= REPORT_EVERY {
            self.report(port);
        }
    }

    fn report(&mut self, port: usize) {
        let figure = self.unreported[port].figure;
        (self.unreported[port].frames, self.unreported[port].figure) = (0, 0);
        let taken = &self.shared.port(port).taken;
        taken.store(taken.load(Ordering::Relaxed).wrapping_add(figure), Ordering::Relaxed);
    }

    fn report_all(&mut self) {
        while let Some(port) = self.unreported_ports.pop() {
            self.unreported[port as usize].listed = false;
            self.report(port as usize);
        }
        let released = self.lanes.released();
        self.ring.report(released);
    }
}

impl FrameIo for Ring {
    fn waker(&self) -> Waker {
        self.poll.waker.clone()
    }

    fn wait(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()> {
        if !self.lanes.is_empty() {
            return Ok(());
        }
        self.report_all();
        // Set before the last look at the ring: the program reads it after it has reserved a
        // record, so one of the two sees the other, and no wake-up is missed (decision 12).
        let sleeping = self.shared.sleeping();
        sleeping.store(1, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
        let until = match self.ring.is_drained() {
            true => until,
            // A record is still being written: check again soon.
            false => {
                sleeping.store(0, Ordering::SeqCst);
                if self.ring.is_ready() {
                    return Ok(());
                }
                Some(until.map_or(now + MAX_WRITE_WAIT, |until| until.min(now + MAX_WRITE_WAIT)))
            }
        };
        let waited = self.poll.wait(now, until, |_| ());
        self.shared.sleeping().store(0, Ordering::Relaxed);
        waited
    }

    fn can_doze(&self) -> bool {
        true
    }

    fn doze(&mut self, now: Instant, until: Instant) -> io::Result<()> {
        if !self.lanes.is_empty() {
            return Ok(());
        }
        // A record that is still being written may be old: its writer was preempted.
        if !self.ring.is_drained() && !self.ring.is_ready() {
            return self.wait(now, Some(until));
        }
        self.report_all();
        // Leave `sleeping` unset: otherwise the program would wake the medium.
        self.poll.waker.wait(now, until)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<Received> {
        loop {
            while self.lanes.looks_ahead() {
                let Some((record, bytes)) = self.ring.next() else { break };
                let (header, whole) = (header(bytes), bytes.len());
                let end = self.ring.position();
                let is_sound = |&(port, len, _): &(usize, usize, Instant)| {
                    port < self.shared.count && len <= whole - HEADER
                };
                let Some((port, ..)) = header.filter(is_sound) else {
                    self.lanes.skip(end);
                    continue;
                };
                if self.lanes.look(port, record, end) == Turn::Now {
                    return self.take(record, buffer);
                }
            }
            if let Some((_, record)) = self.lanes.parked() {
                return self.take(record, buffer);
            }
            if self.lanes.is_empty() && !self.ring.is_ready() {
                return None;
            }
        }
    }

    fn send(&mut self, port: usize, frame: &[u8]) -> bool {
        let Some(end) = &self.ends[port] else { return true };
        let (fd, start) = (end.as_raw_fd(), frame.as_ptr().cast());
        // A write to a socket would cost the kernel a twentieth more.
        // SAFETY: the frame is readable for its whole length.
        let n = unsafe { libc::send(fd, start, frame.len(), libc::MSG_DONTWAIT) };
        n == frame.len() as isize
    }

    /// The new interface's index must follow those of the existing ports.
    fn attach(&mut self, end: Option<OwnedFd>) -> io::Result<usize> {
        let port = self.ends.len();
        if port >= self.shared.count {
            return Err(io::Error::other(format!(
                "the ring is full: it holds at most {} ports",
                self.shared.count
            )));
        }
        if let Some(end) = &end {
            unblock(end)?;
            (self.attach.0)(self.first + port as u32, self.program.as_fd())?;
        }
        self.ends.push(end);
        Ok(port)
    }

    fn detach(&mut self, port: usize) -> Option<OwnedFd> {
        self.ends.get_mut(port)?.take()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        close(self.ends.drain(..).flatten().collect());
    }
}

/// Port, length and arrival time of a record.
fn header(record: &[u8]) -> Option<(usize, usize, Instant)> {
    let port = u32::from_ne_bytes(*record.first_chunk()?);
    let len = u32::from_ne_bytes(*record.get(4..)?.first_chunk()?);
    let arrived = u64::from_ne_bytes(*record.get(8..)?.first_chunk()?);
    Some((port as usize, len as usize, Instant::from_ns(arrived)))
}
