//! When and where this thread runs: its core, its priority, and waits that end on time.

use units::{Instant, Span};

/// Sleeps until `margin` before `at`, then spins until `at`.
pub(crate) fn wait_until(at: Instant, margin: Span) {
    if at - margin > clock::now() {
        clock::sleep_until(at - margin);
    }
    while clock::now() < at {
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
pub(crate) fn margin() -> Span {
    let mut late: Vec<Span> = (0..20)
        .map(|_| {
            let at = clock::now() + Span::from_us(200);
            clock::sleep_until(at);
            clock::now() - at
        })
        .collect();
    late.sort_unstable();
    // The 18th of 20 is about the 90th percentile: a single preempted sleep does not decide.
    (late[17] + Span::from_us(5)).clamp(Span::from_us(10), Span::from_us(200))
}
