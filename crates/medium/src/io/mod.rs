//! The boundary between the engine and whatever carries frames to nodes.

mod assembler;
mod bpf;
mod carrier;
mod lanes;
mod packet;
mod program;
mod ring;
mod ring_buffer;
mod taps;

pub use carrier::{Carrier, FramePath, Refused};
pub use packet::{Overruns, Packet};
pub use ring::{Attach, Ring, Tallies};
pub use taps::{End, Gives, Taps};

use crate::{Instant, Segments};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// A frame that was read into the caller's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The port that it came from.
    pub port: usize,
    /// Its length in the buffer.
    pub len: usize,
    /// When the kernel had it from the node (CLOCK_MONOTONIC), if the path
    /// tells.
    pub arrived: Option<Instant>,
    /// Whether it begins with the header of a TAP that gives super-frames, and may be
    /// one: see [`crate::Intake`].
    pub has_header: bool,
}

/// Frame I/O over a set of ports. A port's place in the set is its number.
pub trait FrameIo: Send {
    /// Waits until a frame can be read, `until` has come (CLOCK_MONOTONIC) or
    /// the waker was used.
    ///
    /// # Errors
    /// When the kernel cannot wait, which ends the engine.
    fn wait(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()>;
    /// Whether frames may lie where they are until they are asked for: whether each says
    /// when it came, and there is room for those of some milliseconds.
    fn can_doze(&self) -> bool {
        false
    }
    /// Waits until `until` has come or the waker was used, whether frames come or not.
    ///
    /// # Errors
    /// When the kernel cannot wait, which ends the engine.
    fn doze(&mut self, now: Instant, until: Instant) -> io::Result<()> {
        self.wait(now, Some(until))
    }
    /// Reads the next frame that is there into `buffer`. Frames of one port come
    /// in the order in which they were sent.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<Received>;
    /// Sends `frame` to `port`; false when the kernel would not take it.
    fn send(&mut self, port: usize, frame: &[u8]) -> bool;
    /// Sends segments to `port`, as one where it takes that and as a frame each where
    /// not; false when the kernel would not take all.
    fn send_segments(&mut self, port: usize, segments: &Segments) -> bool {
        segments.each().filter(|one| !self.send(port, &one.first())).count() == 0
    }
    /// Takes one more port over; its number, which is that of ports until then.
    ///
    /// # Errors
    /// When this way of carrying frames cannot, or there are too many open files.
    fn attach(&mut self, end: End) -> io::Result<usize> {
        drop(end);
        Err(io::Error::other("no port can be added here"))
    }
    /// Lets a port go: nothing comes from it any more, and what is sent to it is lost. What
    /// held it is the caller's to drop, which may take the kernel tens of milliseconds;
    /// nothing if the port holds nothing of a node's.
    fn detach(&mut self, port: usize) -> Option<OwnedFd> {
        let _ = port;
        None
    }
}

/// How many frames one port may give before others get their turn.
const TURN: u32 = 64;

/// Wakes an engine that waits.
#[derive(Debug, Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    fn new() -> io::Result<Self> {
        // SAFETY: a plain system call; a valid descriptor is owned at once.
        let event = unsafe {
            OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?)
        };
        Ok(Self(Arc::new(event)))
    }

    /// Ends the present wait, or the next.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the descriptor is owned and the buffer is 8 bytes long.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Waits for nothing else, until `until` at most.
    fn wait(&self, now: Instant, until: Instant) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let timeout = timeout(until.saturating_sub(now));
        // SAFETY: one descriptor and the time-out live over the call; no signal mask.
        let n = unsafe { libc::ppoll(&raw mut polled, 1, &raw const timeout, std::ptr::null()) };
        if n > 0 {
            self.clear();
        }
        interrupted_or(n).map(drop)
    }

    /// Forgets that it was used.
    fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: reads the eventfd's 8 bytes into 8 bytes.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), 8) };
    }
}

const WAKER: u64 = u64::MAX;
/// What is waited for and is no port.
const OTHER: u64 = u64::MAX - 1;
const EVENTS: usize = 64;

/// Waits for many descriptors, or for a time, in one call.
#[derive(Debug)]
struct Poll {
    epoll: OwnedFd,
    waker: Waker,
}

impl Poll {
    fn new() -> io::Result<Self> {
        // SAFETY: a plain system call; a valid descriptor is owned at once.
        let epoll =
            unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        let poll = Self { epoll, waker: Waker::new()? };
        poll.add(poll.waker.0.as_raw_fd(), WAKER)?;
        Ok(poll)
    }

    /// Tells of `fd` as `token` when it can be read.
    fn add(&self, fd: RawFd, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        let epoll = self.epoll.as_raw_fd();
        // SAFETY: the event lives over the call.
        check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) })?;
        Ok(())
    }

    /// No longer tells of `fd`; one that it does not know is none of its business.
    fn remove(&self, fd: RawFd) {
        let epoll = self.epoll.as_raw_fd();
        // SAFETY: integer arguments; the event is not read for a removal.
        unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    /// Waits, and calls `ready` with the token of each descriptor that can be
    /// read; the waker's is kept to itself.
    fn wait(
        &self,
        now: Instant,
        until: Option<Instant>,
        mut ready: impl FnMut(u64),
    ) -> io::Result<()> {
        let timeout = until.map(|until| timeout(until.saturating_sub(now)));
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // epoll_pwait2 has a nanosecond time-out in the same call; epoll_wait's
        // millisecond would cost a timer descriptor and two more calls a wait.
        // SAFETY: the array is as long as said, the timeout lives over the call.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS as libc::c_int,
                timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
                std::ptr::null::<libc::sigset_t>(),
                8usize,
            )
        };
        let n = interrupted_or(n as libc::c_int)?;
        for event in &events[..n] {
            match event.u64 {
                WAKER => self.waker.clear(),
                token => ready(token),
            }
        }
        Ok(())
    }
}

fn timeout(ns: Instant) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// What a wait came back with; nothing when a signal ended it.
fn interrupted_or(result: libc::c_int) -> io::Result<usize> {
    match check(result) {
        Ok(count) => Ok(count as usize),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        Err(error) => Err(error),
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
