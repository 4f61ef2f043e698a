//! Waits for descriptors or a deadline, whichever is first.

use crate::error::Error;
use std::io;
use std::os::fd::RawFd;
use units::{Instant, Span};

/// Waits on a fixed set of descriptors with nanosecond deadlines.
///
/// Uses ppoll instead of zmq_poll, whose millisecond resolution would be the send error.
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

    /// Replaces the first descriptor of the link by `link`, for reading and, if `writing`, for
    /// writing; none watches nothing.
    pub fn watch(&mut self, link: Option<RawFd>, writing: bool) {
        if let Some(entry) = self.set.get_mut(1) {
            entry.fd = link.unwrap_or(-1);
            entry.events = if writing { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
        }
    }

    /// Events of that descriptor after the last wait.
    pub fn revents(&self) -> libc::c_short {
        self.set.get(1).map_or(0, |entry| entry.revents)
    }

    /// Sleeps until a descriptor is ready or until `until`. A past time only polls; none waits
    /// indefinitely. Returns whether the control channel is readable.
    pub fn wait(&mut self, until: Option<Instant>) -> Result<bool, Error> {
        Ok(poll(&mut self.set, until).map_err(Error::io("wait for messages"))?
            && self.set[0].revents != 0)
    }
}

/// Waits until a descriptor of `set` is ready or until `until`. A past time only polls; none waits
/// indefinitely. False after a signal.
pub fn poll(set: &mut [libc::pollfd], until: Option<Instant>) -> io::Result<bool> {
    let timeout = until.map(|until| clock::timespec(until - clock::now()));
    for entry in &mut *set {
        entry.revents = 0;
    }
    // SAFETY: the set has the given length; the timeout outlives the call.
    let n = unsafe {
        libc::ppoll(
            set.as_mut_ptr(),
            set.len() as libc::nfds_t,
            timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            std::ptr::null(),
        )
    };
    if n >= 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        // The loops of callers wait again, with the time that is left.
        signal if signal.kind() == io::ErrorKind::Interrupted => Ok(false),
        error => Err(error),
    }
}

/// The earlier of two times, if any.
pub fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

/// A program wakes this long before a deadline and then sleeps once more: a virtual CPU wakes
/// hundreds of microseconds late after a long sleep, but only tens after a short one. Busy-waiting
/// would be more precise, but its CPU time would be measured as the protocol's.
const LEAD: Span = Span::from_ms(1);
/// For long waits, the program wakes earlier, by this fraction of the wait: poll(2) may be late by
/// up to a thousandth of it.
const LONG: u64 = 200;

/// When to wake for a deadline: first shortly before it, then exactly at it.
pub fn next_wake(due: Instant, now: Instant) -> Instant {
    let gap = due - now;
    let lead = LEAD.max(gap / LONG);
    if gap > lead { due - lead } else { due }
}

/// The shortest CPU time slice that the kernel grants, in ns.
const SLICE: u64 = 100_000;

/// Makes this thread wake on time. By default the kernel may delay timers by 50 us to save
/// wake-ups, and may first let another thread use its time slice of 3 ms; both would be send
/// error. Neither call needs privileges. A thread with short slices gets no more CPU time, only
/// sooner (Linux 6.12 and later; older kernels ignore the slice).
pub fn wake_precisely() {
    // SAFETY: an all-zero attribute is valid and outlives the call; both calls change only this
    // thread, and failure is harmless.
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
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn waits_for_the_moment_and_for_the_control_channel() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut waiter = Waiter::new(far.as_raw_fd(), vec![]);
        let until = clock::now() + Span::from_ms(5);
        assert!(!waiter.wait(Some(until)).unwrap());
        assert!(clock::now() >= until);
        near.write_all(b"x").unwrap();
        assert!(waiter.wait(None).unwrap());
        assert!(waiter.wait(Some(Instant::START)).unwrap());
    }

    #[test]
    fn a_long_wait_is_made_of_few_short_ones() {
        let due = Instant::START + Span::from_s(60);
        let (mut now, mut wakes) = (Instant::START, 0);
        while now < due {
            let until = next_wake(due, now);
            // The lateness that poll(2) allows itself.
            now = until + (until - now) / 1_000;
            wakes += 1;
        }
        assert!(now - due <= Span::from_ms(1) / 500, "{} late", now - due);
        assert!(wakes <= 4, "{wakes}");
    }

    #[test]
    fn the_first_of_two_times_is_the_earlier_one() {
        let at = Instant::from_ns;
        assert_eq!(earlier(Some(at(2)), Some(at(1))), Some(at(1)));
        assert_eq!(earlier(None, Some(at(1))), Some(at(1)));
        assert_eq!(earlier(Some(at(1)), None), Some(at(1)));
        assert_eq!(earlier(None, None), None);
    }

    #[test]
    fn a_link_can_be_replaced_and_left_out() {
        let (control, _other) = UnixStream::pair().unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut waiter = Waiter::new(control.as_raw_fd(), vec![-1]);
        let soon = || Some(Instant::START);
        near.write_all(b"x").unwrap();
        assert!(!waiter.wait(soon()).unwrap());
        assert_eq!(waiter.revents(), 0, "none is watched");
        waiter.watch(Some(far.as_raw_fd()), true);
        assert!(!waiter.wait(None).unwrap(), "the control channel is silent");
        assert_eq!(waiter.revents(), libc::POLLIN | libc::POLLOUT);
        waiter.watch(None, false);
        waiter.wait(soon()).unwrap();
        assert_eq!(waiter.revents(), 0);
    }
}
