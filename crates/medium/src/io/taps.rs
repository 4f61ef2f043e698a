//! TAP devices, one a port, read and written one frame a call: the path that
//! works wherever nodes have TAPs.

use super::{FrameIo, Poll, Received, TURN, Waker, check};
use crate::Instant;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// TAP devices, one a port.
#[derive(Debug)]
pub struct Taps {
    poll: Poll,
    taps: Vec<OwnedFd>,
    ready: Vec<(usize, u32)>,
}

impl Taps {
    /// Takes over TAP descriptors; they are made non-blocking.
    ///
    /// # Errors
    /// When there are too many open files.
    pub fn new(taps: Vec<OwnedFd>) -> io::Result<Self> {
        let poll = Poll::new()?;
        for (port, tap) in taps.iter().enumerate() {
            let fd = tap.as_raw_fd();
            // SAFETY: fcntl on an owned descriptor with integer arguments.
            unsafe {
                let flags = check(libc::fcntl(fd, libc::F_GETFL))?;
                check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK))?;
            }
            poll.add(fd, port as u64)?;
        }
        Ok(Self { poll, taps, ready: Vec::new() })
    }

    /// A handle that ends a wait from another thread.
    pub fn waker(&self) -> Waker {
        self.poll.waker.clone()
    }

    /// Also waits for `fd`, which is no port.
    pub(super) fn watch(&self, fd: RawFd) -> io::Result<()> {
        self.poll.add(fd, self.taps.len() as u64)
    }
}

impl FrameIo for Taps {
    fn wait(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()> {
        let Self { poll, taps, ready } = self;
        poll.wait(now, until, |token| {
            if token < taps.len() as u64 {
                ready.push((token as usize, TURN));
            }
        })
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<Received> {
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
                return Some(Received { port, len: n as usize, arrived: None });
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
        close(std::mem::take(&mut self.taps));
    }
}

/// Closes descriptors that take their time, many at once.
fn close(mut descriptors: Vec<OwnedFd>) {
    let share = descriptors.len().div_ceil(64).max(1);
    std::thread::scope(|scope| {
        while !descriptors.is_empty() {
            let part = descriptors.split_off(descriptors.len().saturating_sub(share));
            scope.spawn(move || drop(part));
        }
    });
}
