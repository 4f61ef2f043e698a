//! Signals that stop a run.

use crate::Status;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Stops the run cleanly on SIGINT (Ctrl-C), SIGTERM and SIGHUP (closed terminal): sets the
/// returned flag. A second signal exits immediately; nodes then end with this process, and `gc`
/// removes the cgroups.
pub(crate) fn watch_signals() -> std::io::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        // Respect nohup.
        if is_ignored(signal) {
            continue;
        }
        let status = Status::Interrupted as i32;
        // Registered before the flag, so the first signal finds the flag unset and only sets it;
        // the handlers run in this order.
        signal_hook::flag::register_conditional_shutdown(signal, status, flag.clone())?;
        signal_hook::flag::register(signal, flag.clone())?;
    }
    Ok(flag)
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) an error, which has a cause and a place: by
/// default a signal ends the process.
pub(crate) fn ignore_file_size() {
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero action is valid; it is only read into.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action);
        action.sa_sigaction == libc::SIG_IGN
    }
}
