//! TAP devices, one per port, with one frame per read or write: the path for nodes with
//! TAPs, and the one with super-frames. Also writes frames to packet sockets for the ring
//! path.

use super::{FrameIo, OTHER, Poll, Received, TURN, Waker, check};
use crate::{Instant, Segments, VNET_HEADER, VnetHeader};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The descriptor that connects the medium to a node's interface.
#[derive(Debug)]
pub struct End {
    /// The descriptor.
    pub fd: OwnedFd,
    /// What a read from it returns.
    pub gives: FrameFormat,
}

/// What a read from a descriptor returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameFormat {
    /// One frame per read.
    Frames,
    /// Unsegmented TCP, and all frames behind a virtio-net header (`IFF_VNET_HDR`); writes
    /// have the same format.
    SuperFrames,
    /// Nothing: a packet socket for sending only; a BPF program takes the incoming frames.
    Nothing,
}

impl From<OwnedFd> for End {
    /// An end with [`FrameFormat::Frames`].
    fn from(fd: OwnedFd) -> Self {
        Self { fd, gives: FrameFormat::Frames }
    }
}

impl End {
    /// Makes the descriptor non-blocking and adds it to `poll` as `port`.
    fn join(&self, poll: &Poll, port: usize) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: fcntl on an owned descriptor with integer arguments.
        unsafe {
            let flags = check(libc::fcntl(fd, libc::F_GETFL))?;
            check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK))?;
        }
        if self.gives == FrameFormat::Nothing {
            return Ok(());
        }
        poll.add(fd, port as u64)
    }

    /// Whether it uses super-frames.
    fn is_uncut(&self) -> bool {
        self.gives == FrameFormat::SuperFrames
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

/// TAP devices, one per port.
#[derive(Debug)]
pub struct Taps {
    poll: Poll,
    taps: Vec<End>,
    ready: Vec<(usize, u32)>,
}

impl Taps {
    /// Takes ordinary TAPs and makes them non-blocking.
    ///
    /// # Errors
    /// If there are too many open files.
    pub fn new(taps: Vec<OwnedFd>) -> io::Result<Self> {
        Self::of(taps.into_iter().map(End::from).collect())
    }

    /// As [`Self::new`], for all kinds of ends.
    ///
    /// # Errors
    /// If there are too many open files.
    pub fn of(taps: Vec<End>) -> io::Result<Self> {
        let poll = Poll::new()?;
        for (port, tap) in taps.iter().enumerate() {
            tap.join(&poll, port)?;
        }
        Ok(Self { poll, taps, ready: Vec::new() })
    }

    /// A handle that wakes the waiting thread from another thread.
    pub fn waker(&self) -> Waker {
        self.poll.waker.clone()
    }

    /// Polls the ports without waiting, for use when no port has a turn left.
    pub(super) fn look(&mut self) {
        // The next wait reports any error.
        let _ = self.wait(0, Some(0));
    }

    /// Also waits for `fd`, which is not a port.
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
                    // The segments count as frames of the port's turn.
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
                // Costs the kernel a twentieth less than a write to a socket.
                FrameFormat::Nothing => libc::send(fd, start, frame.len(), libc::MSG_DONTWAIT),
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

    /// An open file keeps the network stack of a removed node alive. `/dev/null` replaces
    /// it.
    fn detach(&mut self, port: usize) -> Option<OwnedFd> {
        let tap = self.taps.get_mut(port)?;
        let nothing = std::fs::File::options().read(true).write(true).open("/dev/null").ok()?;
        self.ready.retain(|(ready, _)| *ready != port);
        self.poll.remove(tap.fd.as_raw_fd());
        Some(std::mem::replace(tap, End::from(OwnedFd::from(nothing))).fd)
    }
}

/// Approximate number of segments behind a virtio-net header.
fn segments(bytes: &[u8]) -> usize {
    let segment = VnetHeader::split(bytes).map_or(0, |(header, _)| usize::from(header.segment));
    bytes.len().checked_div(segment).unwrap_or(0)
}

impl Drop for Taps {
    /// Closing a TAP waits for a kernel grace period, at least 20 ms each; several threads
    /// overlap these waits.
    fn drop(&mut self) {
        close(std::mem::take(&mut self.taps));
    }
}

/// Closes slow descriptors in parallel.
fn close(mut descriptors: Vec<End>) {
    let share = descriptors.len().div_ceil(64).max(1);
    std::thread::scope(|scope| {
        while !descriptors.is_empty() {
            let part = descriptors.split_off(descriptors.len().saturating_sub(share));
            scope.spawn(move || drop(part));
        }
    });
}
