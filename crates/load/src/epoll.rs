//! epoll: waits for events on several descriptors.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use units::Span;

/// Events per call.
const EVENTS: usize = 64;

/// An epoll instance. The caller identifies each descriptor by a number.
#[derive(Debug)]
pub(crate) struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    /// # Errors
    /// When the kernel is out of descriptors or memory.
    pub fn new() -> io::Result<Self> {
        // SAFETY: an integer argument; a valid descriptor is ours.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created and has no other owner.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Adds a descriptor for reading, and for writing if `write`.
    pub fn add(&self, number: usize, fd: RawFd, write: bool) {
        self.control(libc::EPOLL_CTL_ADD, number, fd, write);
    }

    /// Changes whether a descriptor is watched for writing.
    pub fn change(&self, number: usize, fd: RawFd, write: bool) {
        self.control(libc::EPOLL_CTL_MOD, number, fd, write);
    }

    fn control(&self, what: libc::c_int, number: usize, fd: RawFd, write: bool) {
        let events = libc::EPOLLIN | libc::EPOLLRDHUP | if write { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event { events: events as u32, u64: number as u64 };
        // SAFETY: both descriptors are open, the event lives over the call.
        unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), what, fd, &raw mut event) };
    }

    /// Waits for at most `most`. Replaces the content of `ready` with the numbers of the
    /// ready descriptors.
    pub fn wait(&self, most: Span, ready: &mut Vec<usize>) {
        // SAFETY: all zero are valid events; they are only read as far as was written.
        let mut events: [libc::epoll_event; EVENTS] = unsafe { std::mem::zeroed() };
        let span = clock::timespec(most);
        // SAFETY: the array has room for EVENTS and lives over the call; no signal mask.
        let count = unsafe {
            libc::epoll_pwait2(
                self.fd.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS as libc::c_int,
                &raw const span,
                std::ptr::null(),
            )
        };
        ready.clear();
        ready.extend(events.iter().take(count.max(0) as usize).map(|event| event.u64 as usize));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_is_ready_is_told_by_its_number() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let (epoll, mut ready) = (Epoll::new().unwrap(), vec![9]);
        epoll.add(3, far.as_raw_fd(), false);
        epoll.wait(Span::ZERO, &mut ready);
        assert!(ready.is_empty());
        near.write_all(b"x").unwrap();
        epoll.wait(Span::from_s(5), &mut ready);
        assert_eq!(ready, [3]);
        epoll.add(4, near.as_raw_fd(), false);
        epoll.change(4, near.as_raw_fd(), true);
        epoll.wait(Span::from_s(5), &mut ready);
        ready.sort_unstable();
        assert_eq!(ready, [3, 4]);
    }
}
