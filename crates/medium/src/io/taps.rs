//! TAP devices, one a port, read and written one frame a call: the path that
//! works wherever nodes have TAPs, and the one of those that give super-frames.

use super::{FrameIo, OTHER, Poll, Received, TURN, Waker, check};
use crate::{Instant, Segments, VNET_HEADER, VnetHeader};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// A TAP's descriptor.
#[derive(Debug)]
pub struct Tap {
    /// The descriptor.
    pub fd: OwnedFd,
    /// Whether TCP comes out of it, and may go in, uncut, and all frames behind a
    /// header that says so (`IFF_VNET_HDR`).
    pub uncut: bool,
}

impl From<OwnedFd> for Tap {
    /// A plain one.
    fn from(fd: OwnedFd) -> Self {
        Self { fd, uncut: false }
    }
}

impl Tap {
    /// Makes it non-blocking, and waits for what it gives as `port`.
    fn join(&self, poll: &Poll, port: usize) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: fcntl on an owned descriptor with integer arguments.
        unsafe {
            let flags = check(libc::fcntl(fd, libc::F_GETFL))?;
            check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK))?;
        }
        poll.add(fd, port as u64)
    }

    /// Writes the parts as one frame.
    fn write(&self, parts: [&[u8]; 2]) -> bool {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let parts = parts.map(|part| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        });
        // SAFETY: both parts are readable for their whole lengths, and not written to.
        let n = unsafe { libc::writev(self.fd.as_raw_fd(), parts.as_ptr(), 2) };
        n == len as isize
    }
}

/// TAP devices, one a port.
#[derive(Debug)]
pub struct Taps {
    poll: Poll,
    taps: Vec<Tap>,
    ready: Vec<(usize, u32)>,
}

impl Taps {
    /// Takes over plain TAPs; they are made non-blocking.
    ///
    /// # Errors
    /// When there are too many open files.
    pub fn new(taps: Vec<OwnedFd>) -> io::Result<Self> {
        Self::of(taps.into_iter().map(Tap::from).collect())
    }

    /// The same of TAPs of both kinds.
    ///
    /// # Errors
    /// When there are too many open files.
    pub fn of(taps: Vec<Tap>) -> io::Result<Self> {
        let poll = Poll::new()?;
        for (port, tap) in taps.iter().enumerate() {
            tap.join(&poll, port)?;
        }
        Ok(Self { poll, taps, ready: Vec::new() })
    }

    /// The port's descriptor.
    pub(super) fn end(&self, port: usize) -> BorrowedFd<'_> {
        self.taps[port].fd.as_fd()
    }

    /// A handle that ends a wait from another thread.
    pub fn waker(&self) -> Waker {
        self.poll.waker.clone()
    }

    /// Looks which ports have something, without waiting. For when none has its turn.
    pub(super) fn look(&mut self) {
        // What cannot be looked at now is seen at the next wait, which tells.
        let _ = self.wait(0, Some(0));
    }

    /// Also waits for `fd`, which is no port.
    pub(super) fn watch(&self, fd: RawFd) -> io::Result<()> {
        self.poll.add(fd, OTHER)
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

    fn doze(&mut self, now: Instant, until: Instant) -> io::Result<()> {
        self.poll.waker.wait(now, until)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<Received> {
        while let Some((port, turn)) = self.ready.last_mut() {
            if *turn == 0 {
                self.ready.pop();
                continue;
            }
            *turn -= 1;
            let port = *port;
            let Tap { fd, uncut } = &self.taps[port];
            let (fd, has_header) = (fd.as_raw_fd(), *uncut);
            // SAFETY: the buffer is writable for its whole length.
            let n = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
            if n > 0 {
                let len = n as usize;
                if has_header {
                    // Its segments are frames of its turn, too.
                    *turn = turn.saturating_sub(segments(&buffer[..len]) as u32);
                }
                return Some(Received { port, len, arrived: None, has_header });
            }
            self.ready.pop();
        }
        None
    }

    fn send(&mut self, port: usize, frame: &[u8]) -> bool {
        let tap = &self.taps[port];
        if tap.uncut {
            return tap.write([&[0; VNET_HEADER], frame]);
        }
        let fd = tap.fd.as_raw_fd();
        // SAFETY: the frame is readable for its whole length.
        let n = unsafe { libc::write(fd, frame.as_ptr().cast(), frame.len()) };
        n == frame.len() as isize
    }

    fn send_segments(&mut self, port: usize, segments: &Segments) -> bool {
        if self.taps[port].uncut {
            let run = segments.joined();
            return self.taps[port].write([run.before(), run.payload]);
        }
        segments.each().filter(|one| !self.send(port, &one.first())).count() == 0
    }

    fn attach(&mut self, end: Tap) -> io::Result<usize> {
        let port = self.taps.len();
        end.join(&self.poll, port)?;
        self.taps.push(end);
        Ok(port)
    }
}

/// About how many segments there are behind a TAP's header.
fn segments(bytes: &[u8]) -> usize {
    let segment = VnetHeader::split(bytes).map_or(0, |(header, _)| usize::from(header.segment));
    bytes.len().checked_div(segment).unwrap_or(0)
}

impl Drop for Taps {
    /// Closing a TAP waits for a grace period of the kernel, 20 ms and more
    /// each; those of many threads overlap.
    fn drop(&mut self) {
        close(std::mem::take(&mut self.taps));
    }
}

/// Closes descriptors that take their time, many at once.
fn close(mut descriptors: Vec<Tap>) {
    let share = descriptors.len().div_ceil(64).max(1);
    std::thread::scope(|scope| {
        while !descriptors.is_empty() {
            let part = descriptors.split_off(descriptors.len().saturating_sub(share));
            scope.spawn(move || drop(part));
        }
    });
}
