//! TAP devices, one per port, with one frame per read or write: the path for nodes with TAPs. Also
//! reads and writes packet sockets, for networks with segmentation offload.

use super::{FrameIo, Poll, Received, TURN, Waker, close, unblock};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use units::Instant;

/// TAP devices, one per port.
#[derive(Debug)]
pub struct Taps {
    poll: Poll,
    /// `None` for a removed port, and for one of another thread.
    taps: Vec<Option<OwnedFd>>,
    ready: Vec<(usize, u32)>,
}

impl Taps {
    /// Takes TAPs, or packet sockets, and makes them non-blocking; `None` for a port whose frames
    /// another thread carries.
    ///
    /// # Errors
    /// If there are too many open files.
    pub fn new(taps: Vec<impl Into<Option<OwnedFd>>>) -> io::Result<Self> {
        let mut all = Self { poll: Poll::new()?, taps: Vec::new(), ready: Vec::new() };
        for tap in taps {
            all.attach(tap.into())?;
        }
        Ok(all)
    }
}

impl FrameIo for Taps {
    fn waker(&self) -> Waker {
        self.poll.waker.clone()
    }

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
            let Some(tap) = &self.taps[port] else { continue };
            let fd = tap.as_raw_fd();
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
        let Some(tap) = &self.taps[port] else { return true };
        let fd = tap.as_raw_fd();
        // SAFETY: the frame is readable for its whole length.
        let n = unsafe { libc::write(fd, frame.as_ptr().cast(), frame.len()) };
        n == frame.len() as isize
    }

    fn attach(&mut self, end: Option<OwnedFd>) -> io::Result<usize> {
        let port = self.taps.len();
        if let Some(end) = &end {
            unblock(end)?;
            self.poll.add(end.as_raw_fd(), port as u64)?;
        }
        self.taps.push(end);
        Ok(port)
    }

    fn detach(&mut self, port: usize) -> Option<OwnedFd> {
        let end = self.taps.get_mut(port)?.take()?;
        self.ready.retain(|(ready, _)| *ready != port);
        self.poll.remove(end.as_raw_fd());
        Some(end)
    }
}

impl Drop for Taps {
    fn drop(&mut self) {
        close(self.taps.drain(..).flatten().collect());
    }
}
