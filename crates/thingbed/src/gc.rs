//! Removing what was left behind.

use crate::{Status, complain, say};

/// Removes what is left of tools that were killed, and says what it was.
pub fn gc() -> Status {
    let found = match lab::collect() {
        Ok(found) => found,
        Err(error) => {
            complain(format!(
                "could not read the ledger in {}: {error}",
                lab::ledger_dir().display()
            ));
            return Status::Failed;
        }
    };
    let mut status = Status::Fine;
    for leftover in &found {
        for group in &leftover.cgroups {
            say(format_args!(
                "removed {} of process {}, which is gone",
                group.display(),
                leftover.pid
            ));
        }
        for failure in &leftover.failed {
            complain(format!("could not remove all of process {}: {failure}", leftover.pid));
            status = Status::Failed;
        }
    }
    if found.iter().all(|leftover| leftover.cgroups.is_empty()) {
        say("nothing was left behind");
    }
    status
}
