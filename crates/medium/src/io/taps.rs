//! TAP devices, one a port, read and written one frame a call: the path that
//! works wherever nodes have TAPs, and the one of those that give super-frames. What
//! is sent by packet sockets is written here, too.

use super::{FrameIo, OTHER, Poll, Received, TURN, Waker, check};
use crate::{Instant, Segments, VNET_HEADER, VnetHeader};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The descriptor by which frames go to and come from a node's interface.
#[derive(Debug)]
pub struct End {
    /// The descriptor.
    pub fd: OwnedFd,
    /// What comes out of it.
    pub gives: Gives,
}

/// What comes out of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    /// One frame a read.
    Frames,
    /// TCP uncut, and all frames behind a header that says so (`IFF_VNET_HDR`); the same
    /// may go in.
    SuperFrames,
    /// Nothing: it is a packet socket that sends, and a program takes what comes.
    Nothing,
}

impl From<OwnedFd> for End {
    /// One that gives frames.
    fn from(fd: OwnedFd) -> Self {
        Self { fd, gives: Gives::Frames }
    }
}

impl End {
    /// Makes it non-blocking, and waits for what it gives as `port`.
    fn join(&self, poll: &Poll, port: usize) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: fcntl on an owned descriptor with integer arguments.
        unsafe {
            let flags = check(libc::fcntl(fd, libc::F_GETFL))?;
            check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK))?;
        }
        if self.gives == Gives::Nothing {
            return Ok(());
        }
        poll.add(fd, port as u64)
    }

    /// Whether it gives and takes super-frames.
    fn is_uncut(&self) -> bool {
        self.gives == Gives::SuperFrames
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
    taps: Vec<End>,
    ready: Vec<(usize, u32)>,
}

impl Taps {
    /// Takes over plain TAPs; they are made non-blocking.
    ///
    /// # Errors
    /// When there are too many open files.
    pub fn new(taps: Vec<OwnedFd>) -> io::Result<Self> {
        Self::of(taps.into_iter().map(End::from).collect())
    }

    /// The same of TAPs of both kinds.
    ///
    /// # Errors
    /// When there are too many open files.
    pub fn of(taps: Vec<End>) -> io::Result<Self> {
        let poll = Poll::new()?;
        for (port, tap) in taps.iter().enumerate() {
            tap.join(&poll, port)?;
        }
        Ok(Self { poll, taps, ready: Vec::new() })
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
            let tap = &self.taps[port];
            let (fd, has_header) = (tap.fd.as_raw_fd(), tap.is_uncut());
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
        if tap.is_uncut() {
            return tap.write([&[0; VNET_HEADER], frame]);
        }
        let (fd, start) = (tap.fd.as_raw_fd(), frame.as_ptr().cast());
        // SAFETY: the frame is readable for its whole length.
        let n = unsafe {
            match tap.gives {
                // A twentieth less work for the kernel than a write to a socket.
                Gives::Nothing => libc::send(fd, start, frame.len(), libc::MSG_DONTWAIT),
                _ => libc::write(fd, start, frame.len()),
            }
        };
        n == frame.len() as isize
    }

    fn send_segments(&mut self, port: usize, segments: &Segments) -> bool {
        if self.taps[port].is_uncut() {
            let run = segments.joined();
            return self.taps[port].write([run.before(), run.payload]);
        }
        segments.each().filter(|one| !self.send(port, &one.first())).count() == 0
    }

    fn attach(&mut self, end: End) -> io::Result<usize> {
        let port = self.taps.len();
        end.join(&self.poll, port)?;
        self.taps.push(end);
        Ok(port)
    }

    /// As long as the file is open, the kernel of a node that is gone answers. In its place
    /// comes one that takes and gives nothing.
    fn detach(&mut self, port: usize) -> Option<OwnedFd> {
        let tap = self.taps.get_mut(port)?;
        let nothing = std::fs::File::options().read(true).write(true).open("/dev/null").ok()?;
        self.ready.retain(|(ready, _)| *ready != port);
        self.poll.remove(tap.fd.as_raw_fd());
        Some(std::mem::replace(tap, End::from(OwnedFd::from(nothing))).fd)
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
fn close(mut descriptors: Vec<End>) {
    let share = descriptors.len().div_ceil(64).max(1);
    std::thread::scope(|scope| {
        while !descriptors.is_empty() {
            let part = descriptors.split_off(descriptors.len().saturating_sub(share));
            scope.spawn(move || drop(part));
        }
    });
}
