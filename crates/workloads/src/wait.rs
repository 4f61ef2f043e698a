//! Waiting for descriptors and for a moment, whichever comes first.

use crate::clock::{Nanos, SECOND, monotonic_now};
use crate::error::Error;
use std::io;
use std::os::fd::RawFd;

/// Waits on a fixed set of descriptors with nanosecond deadlines.
///
/// ppoll rather than zmq_poll, whose millisecond would be the send error.
#[derive(Debug)]
pub struct Waiter {
    set: Vec<libc::pollfd>,
}

impl Waiter {
    /// Watches `control`, then the descriptors of a link.
    pub fn new(control: RawFd, link: Vec<RawFd>) -> Self {
        let set = std::iter::once(control)
            .chain(link)
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            .collect();
        Self { set }
    }

    /// Sleeps until a descriptor is readable or `until` has come; a moment that
    /// is past only looks, none waits for ever. Says whether the control
    /// channel can be read.
    pub fn wait(&mut self, until: Option<Nanos>) -> Result<bool, Error> {
        let timeout = until.map(|until| {
            let gap = until.saturating_sub(monotonic_now());
            libc::timespec {
                tv_sec: (gap / SECOND) as libc::time_t,
                tv_nsec: (gap % SECOND) as libc::c_long,
            }
        });
        for entry in &mut self.set {
            entry.revents = 0;
        }
        // SAFETY: the set is as long as said, the timeout lives over the call.
        let n = unsafe {
            libc::ppoll(
                self.set.as_mut_ptr(),
                self.set.len() as libc::nfds_t,
                timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
                std::ptr::null(),
            )
        };
        if n < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(Error::io("wait for messages")(error));
            }
            return Ok(false);
        }
        Ok(self.set[0].revents != 0)
    }
}

/// The shortest slice of a processor that the kernel grants, in ns.
const SLICE: u64 = 100_000;

/// Wakes this thread when it is due. The kernel otherwise may gather timers over
/// 50 us to save wake-ups, and may let another thread use up its slice of 3 ms
/// first: all of that would be send error. Neither needs a privilege. A thread with
/// short slices gets no more of a processor, only sooner (Linux 6.12 and later;
/// before that the slice is ignored).
pub fn punctual() {
    // SAFETY: an all-zero attribute is valid and lives over the call; both calls
    // change only this thread, and failing is harmless.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
        let mut attributes: libc::sched_attr = std::mem::zeroed();
        attributes.size = size_of::<libc::sched_attr>() as u32;
        attributes.sched_policy = libc::SCHED_OTHER as u32;
        attributes.sched_nice = libc::getpriority(libc::PRIO_PROCESS, 0);
        attributes.sched_runtime = SLICE;
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MILLISECOND;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn waits_for_the_moment_and_for_the_control_channel() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut waiter = Waiter::new(far.as_raw_fd(), vec![]);
        let until = monotonic_now() + 5 * MILLISECOND;
        assert!(!waiter.wait(Some(until)).unwrap());
        assert!(monotonic_now() >= until);
        near.write_all(b"x").unwrap();
        assert!(waiter.wait(None).unwrap());
        assert!(waiter.wait(Some(0)).unwrap());
    }
}
