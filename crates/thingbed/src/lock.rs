//! Locks of a sweep: one process at a time writes its folder, and one at a time executes each of its
//! runs.

use crate::remark;
use journal::{LOCK, Lock, LockError};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time for which a cluster's task waits for another one with the same run: an NFS server keeps the
/// lock of a host that died for up to a lease, by default 90 s.
const LEASE: Duration = Duration::from_secs(120);
/// Interval between two attempts.
const PERIOD: Duration = Duration::from_millis(500);

/// Locks the folder of a sweep; without a lock if its file system has none.
///
/// # Errors
/// When another process runs this sweep, as text for the user.
pub(crate) fn take(folder: &Path) -> Result<Option<Lock>, String> {
    of(&folder.join(LOCK)).map_err(|error| match error {
        LockError::Held { holder } => format!(
            "{holder} runs the sweep in {}\n  wait until it ends, or stop it; then start this \
             command again",
            folder.display()
        ),
        error => error.to_string(),
    })
}

/// Locks the run `requested` of a sweep for a task of a cluster. Waits a while for a task of another
/// host.
///
/// # Errors
/// When another process still executes this run, as text for the user.
pub(crate) fn of_run(slurm: &Path, requested: &str) -> Result<Option<Lock>, String> {
    let begun = Instant::now();
    loop {
        match of(&slurm.join(format!("{requested}.lock"))) {
            Err(LockError::Held { holder }) if begun.elapsed() > LEASE => {
                return Err(format!("{holder} executes the run {requested}"));
            }
            Err(LockError::Held { .. }) => std::thread::sleep(PERIOD),
            taken => return taken.map_err(|error| error.to_string()),
        }
    }
}

/// The lock; none, with a warning, if the file system has no locks.
fn of(path: &Path) -> Result<Option<Lock>, LockError> {
    match Lock::take(path) {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ LockError::Unsupported { .. }) => {
            remark(format_args!("warning: {error}; do not run this sweep twice at the same time"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
