//! The clock, and waiting until it shows a time.

/// A moment or a span on CLOCK_MONOTONIC, in ns.
pub type Nanos = u64;

/// One second.
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// The present moment.
pub fn now() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// The CPU time that this thread has had.
pub fn thread_time() -> Nanos {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// A time of the wall clock, in ns since 1970, on CLOCK_MONOTONIC, by the present distance of
/// the two; never later than `now`, since what is asked about has happened.
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

/// A span as the kernel takes it.
pub(crate) fn timespec(ns: Nanos) -> libc::timespec {
    libc::timespec { tv_sec: (ns / SECOND) as libc::time_t, tv_nsec: (ns % SECOND) as libc::c_long }
}

/// Sleeps until `at`, or a little longer.
pub(crate) fn sleep_until(at: Nanos) {
    let until = timespec(at);
    loop {
        // SAFETY: the time is ours; no remainder is asked for, since it is absolute.
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

/// Sleeps until `margin` before `at` and then looks at the clock until it is there.
pub(crate) fn wait_until(at: Nanos, margin: Nanos) {
    if at.saturating_sub(margin) > now() {
        sleep_until(at - margin);
    }
    while now() < at {
        std::hint::spin_loop();
    }
}

/// Lets this thread's sleeps end when they were asked to, and not up to 50 us later.
pub(crate) fn sharpen_sleep() {
    // SAFETY: an option with integer arguments, of this thread alone.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Takes this thread to a core and before others, as far as it may; says what it may not.
pub(crate) fn place(core: Option<usize>) -> Result<(), String> {
    // SAFETY: integer arguments; 0 is this thread. Without rights it stays as it was.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    stay_on(core)
}

/// Takes this thread to a core, among others as they are; says if it may not.
pub(crate) fn stay_on(core: Option<usize>) -> Result<(), String> {
    sharpen_sleep();
    let Some(core) = core else { return Ok(()) };
    if core >= libc::CPU_SETSIZE as usize {
        return Err(format!("core {core} does not exist"));
    }
    // SAFETY: an all-zero set is empty; the core was checked to lie within it.
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

/// How much later than asked this machine ends a sleep, by a few short ones: what to
/// leave for looking at the clock. 10 to 200 us.
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
