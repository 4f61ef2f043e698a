//! The monotonic clock, sleeping, and the scheduling of threads.

/// A time or a duration on CLOCK_MONOTONIC, in ns.
pub type Nanos = u64;

/// One second.
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// The current time.
pub fn now() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// The CPU time that this thread has used.
pub fn thread_time() -> Nanos {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Converts a wall clock time, in ns since 1970, to CLOCK_MONOTONIC by the current offset
/// of the two clocks. The result is never later than `now`, since the event is in the past.
pub(crate) fn from_wall(wall: Nanos, now: Nanos) -> Nanos {
    let ago = read(libc::CLOCK_REALTIME).saturating_sub(wall);
    now.saturating_sub(ago)
}

fn read(clock: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours and writable; the clocks always exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as Nanos * SECOND + time.tv_nsec as Nanos
}

/// A duration as a timespec.
pub(crate) fn timespec(ns: Nanos) -> libc::timespec {
    libc::timespec { tv_sec: (ns / SECOND) as libc::time_t, tv_nsec: (ns % SECOND) as libc::c_long }
}

/// Sleeps until `at`. Can return slightly late.
pub(crate) fn sleep_until(at: Nanos) {
    let until = timespec(at);
    loop {
        // SAFETY: `until` lives over the call; an absolute sleep needs no remainder.
        let result = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const until,
                std::ptr::null_mut(),
            )
        };
        if result != libc::EINTR {
            return;
        }
    }
}

/// Sleeps until `margin` before `at`, then spins until `at`.
pub(crate) fn wait_until(at: Nanos, margin: Nanos) {
    if at.saturating_sub(margin) > now() {
        sleep_until(at - margin);
    }
    while now() < at {
        std::hint::spin_loop();
    }
}

/// Sets this thread's timer slack to 1 ns; the default of 50 us delays the end of sleeps.
pub(crate) fn reduce_timer_slack() {
    // SAFETY: an option with integer arguments, of this thread alone.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Pins this thread to a core and raises its priority if permitted. The error says why it
/// cannot be pinned.
pub(crate) fn pin_with_priority(core: Option<usize>) -> Result<(), String> {
    // SAFETY: integer arguments; 0 is this thread. Without permission the priority does not
    // change.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    pin(core)
}

/// Pins this thread to a core at its current priority. The error says why it cannot be
/// pinned.
pub(crate) fn pin(core: Option<usize>) -> Result<(), String> {
    reduce_timer_slack();
    let Some(core) = core else { return Ok(()) };
    if core >= libc::CPU_SETSIZE as usize {
        return Err(format!("core {core} does not exist"));
    }
    // SAFETY: an all-zero set is empty; the core was checked to be within it.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result == 0 {
        return Ok(());
    }
    Err(format!("could not pin to core {core}: {}", std::io::Error::last_os_error()))
}

/// How late this machine ends a sleep, measured over a few short sleeps: the part of a wait
/// to spend spinning. 10 to 200 us.
pub(crate) fn margin() -> Nanos {
    let mut late: Vec<Nanos> = (0..20)
        .map(|_| {
            let at = now() + 200_000;
            sleep_until(at);
            now() - at
        })
        .collect();
    late.sort_unstable();
    (late[17] + 5_000).clamp(10_000, 200_000)
}
