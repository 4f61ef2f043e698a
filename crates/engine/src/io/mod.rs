//! Interface between the engine and the frame backends.

mod assembler;
mod backend;
mod bpf;
mod lanes;
mod packet;
mod program;
mod ring;
mod ring_buffer;
mod taps;

pub use backend::{FrameBackend, FramePath, Refused};
pub use packet::{DropCounters, Packet};
pub use ring::{Attach, Ring, Tallies};
pub use taps::Taps;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use units::Instant;

/// A frame read into the caller's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Source port.
    pub port: usize,
    /// Length in the buffer.
    pub len: usize,
    /// Time at which the kernel got the frame from the node (CLOCK_MONOTONIC), if the path
    /// provides it.
    pub arrived: Option<Instant>,
}

/// Frame I/O over a set of ports, numbered by position.
pub trait FrameIo: Send {
    /// A handle that ends the wait from another thread.
    fn waker(&self) -> Waker;
    /// Waits until a frame is readable, `until` is reached (CLOCK_MONOTONIC), or the waker
    /// is used.
    ///
    /// # Errors
    /// If the kernel cannot wait. This stops the engine.
    fn wait(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()>;
    /// Whether frames may stay unread for a while: each has an arrival time, and there is
    /// room for the frames of several milliseconds.
    fn can_doze(&self) -> bool {
        false
    }
    /// Waits until `until` is reached or the waker is used, whether frames arrive or not.
    ///
    /// # Errors
    /// If the kernel cannot wait. This stops the engine.
    fn doze(&mut self, now: Instant, until: Instant) -> io::Result<()> {
        self.wait(now, Some(until))
    }
    /// Reads the next available frame into `buffer`. Frames of one port keep their order.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<Received>;
    /// Sends `frame` to `port`; `false` if the kernel rejects it.
    fn send(&mut self, port: usize, frame: &[u8]) -> bool;
    /// Adds a port and returns its number: the number of ports before. `None`: a port whose
    /// frames another thread carries.
    ///
    /// # Errors
    /// If this frame path does not support it, or there are too many open files.
    fn attach(&mut self, end: Option<OwnedFd>) -> io::Result<usize> {
        drop(end);
        Err(io::Error::other("this frame path does not support adding a port"))
    }
    /// Removes a port: it receives nothing, and frames sent to it are lost. The caller
    /// drops the returned descriptor, which may take the kernel tens of milliseconds.
    /// `None` if the port has no descriptor of a node.
    fn detach(&mut self, port: usize) -> Option<OwnedFd> {
        let _ = port;
        None
    }
}

/// Frames that one port may deliver before the next port's turn.
const TURN: u32 = 64;

/// Wakes a waiting engine.
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

    /// Ends the current wait, or the next one.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the descriptor is owned and the buffer is 8 bytes long.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Waits only for this waker, at most until `until`.
    fn wait(&self, now: Instant, until: Instant) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let timeout = clock::timespec(until - now);
        // SAFETY: one descriptor and the time-out live over the call; no signal mask.
        let n = unsafe { libc::ppoll(&raw mut polled, 1, &raw const timeout, std::ptr::null()) };
        if n > 0 {
            self.clear();
        }
        interrupted_or(n).map(drop)
    }

    /// Resets the waker.
    fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: reads the eventfd's 8 bytes into 8 bytes.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), 8) };
    }
}

/// Token of the waker: no port has this number.
const WAKER: u64 = u64::MAX;
// Events that do not fit are still pending at the next call, so a small array only costs calls.
const EVENTS: usize = 64;

/// Waits for many descriptors and a timeout in one call.
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

    /// Reports `fd` as `token` when it is readable.
    fn add(&self, fd: RawFd, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        let epoll = self.epoll.as_raw_fd();
        // SAFETY: the event lives over the call.
        check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) })?;
        Ok(())
    }

    /// Stops reporting `fd`; ignores unknown descriptors.
    fn remove(&self, fd: RawFd) {
        let epoll = self.epoll.as_raw_fd();
        // SAFETY: integer arguments; the event is not read for a removal.
        unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    /// Waits, and calls `ready` with the token of each readable descriptor except the
    /// waker.
    fn wait(
        &self,
        now: Instant,
        until: Option<Instant>,
        mut ready: impl FnMut(u64),
    ) -> io::Result<()> {
        let timeout = until.map(|until| clock::timespec(until - now));
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // epoll_pwait2 takes a nanosecond timeout; epoll_wait's milliseconds would cost a
        // timer descriptor and two more calls per wait.
        // SAFETY: the array has the given length, and the timeout lives over the call.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS as libc::c_int,
                timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
                std::ptr::null::<libc::sigset_t>(),
                // Size of the kernel's signal set, which must be right though there is none.
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

/// Result of a wait; 0 if a signal ended it.
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

/// Makes a node's descriptor non-blocking.
fn unblock(end: &OwnedFd) -> io::Result<()> {
    let fd = end.as_raw_fd();
    // SAFETY: fcntl on an owned descriptor with integer arguments.
    unsafe {
        let flags = check(libc::fcntl(fd, libc::F_GETFL))?;
        check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK))?;
    }
    Ok(())
}

/// Closes descriptors of nodes in parallel: each waits for a kernel grace period, at least 20 ms.
fn close(mut descriptors: Vec<OwnedFd>) {
    // 64 threads, so that the waits overlap (decision 2).
    let share = descriptors.len().div_ceil(64).max(1);
    std::thread::scope(|scope| {
        while !descriptors.is_empty() {
            let part = descriptors.split_off(descriptors.len().saturating_sub(share));
            scope.spawn(move || drop(part));
        }
    });
}
