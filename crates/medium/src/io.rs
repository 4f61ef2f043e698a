//! The boundary between the engine and whatever carries frames to nodes.

use crate::Instant;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Frame I/O over a set of ports. A port's place in the set is its number.
pub trait FrameIo: Send {
    /// Waits until a frame can be read, `until` has come (CLOCK_MONOTONIC) or
    /// the waker was used.
    fn wait(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()>;
    /// The next frame that is there: its port and its length in `buffer`.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, usize)>;
    /// Sends `frame` to `port`; false when the kernel would not take it.
    fn send(&mut self, port: usize, frame: &[u8]) -> bool;
}

/// Wakes an engine that waits.
#[derive(Debug, Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Ends the present wait, or the next.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the descriptor is owned and the buffer is 8 bytes long.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

/// How many frames one port may give before others get their turn.
const TURN: u32 = 64;
const WAKER: u64 = u64::MAX;
const EVENTS: usize = 64;

/// TAP devices, one a port, read and written one frame a call.
pub struct Taps {
    epoll: OwnedFd,
    waker: Waker,
    taps: Vec<OwnedFd>,
    ready: Vec<(usize, u32)>,
}

impl Taps {
    /// Takes over TAP descriptors; they are made non-blocking.
    pub fn new(taps: Vec<OwnedFd>) -> io::Result<Self> {
        use std::os::fd::FromRawFd;
        // SAFETY: plain system calls; a valid descriptor is owned at once.
        let (epoll, event) = unsafe {
            let epoll = check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
            let epoll = OwnedFd::from_raw_fd(epoll);
            let event = check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?;
            (epoll, OwnedFd::from_raw_fd(event))
        };
        add(&epoll, event.as_raw_fd(), WAKER)?;
        for (port, tap) in taps.iter().enumerate() {
            let fd = tap.as_raw_fd();
            // SAFETY: fcntl on an owned descriptor with integer arguments.
            unsafe {
                let flags = check(libc::fcntl(fd, libc::F_GETFL))?;
                check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK))?;
            }
            add(&epoll, fd, port as u64)?;
        }
        Ok(Self { epoll, waker: Waker(Arc::new(event)), taps, ready: Vec::new() })
    }

    /// A handle that ends a wait from another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl FrameIo for Taps {
    fn wait(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()> {
        let gap = until.map(|until| until.saturating_sub(now));
        let timeout = gap.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        });
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
        if n < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        for event in &events[..n as usize] {
            if event.u64 == WAKER {
                let mut count = [0u8; 8];
                // SAFETY: reads the eventfd's 8 bytes into 8 bytes.
                unsafe { libc::read(self.waker.0.as_raw_fd(), count.as_mut_ptr().cast(), 8) };
            } else {
                self.ready.push((event.u64 as usize, TURN));
            }
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, usize)> {
        while let Some((port, turn)) = self.ready.last_mut() {
            if *turn == 0 {
                self.ready.pop();
                continue;
            }
            *turn -= 1;
            let port = *port;
            let fd = self.taps[port].as_raw_fd();
            // SAFETY: the buffer is writable for its whole length.
            let n = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
            if n > 0 {
                return Some((port, n as usize));
            }
            self.ready.pop();
        }
        None
    }

    fn send(&mut self, port: usize, frame: &[u8]) -> bool {
        let fd = self.taps[port].as_raw_fd();
        // SAFETY: the frame is readable for its whole length.
        let n = unsafe { libc::write(fd, frame.as_ptr().cast(), frame.len()) };
        n == frame.len() as isize
    }
}

impl Drop for Taps {
    /// Closing a TAP waits for a grace period of the kernel, 20 ms and more
    /// each; those of many threads overlap.
    fn drop(&mut self) {
        let mut taps = std::mem::take(&mut self.taps);
        let share = taps.len().div_ceil(64).max(1);
        std::thread::scope(|scope| {
            while !taps.is_empty() {
                let part = taps.split_off(taps.len().saturating_sub(share));
                scope.spawn(move || drop(part));
            }
        });
    }
}

fn add(epoll: &OwnedFd, fd: RawFd, data: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: data };
    // SAFETY: the event lives over the call.
    let result =
        unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    check(result).map(drop)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
