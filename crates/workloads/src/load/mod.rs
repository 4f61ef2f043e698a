//! Load generators and devices as programs of a run. The crate `load` does the work; this module
//! handles start and stop messages and writes the results.

mod device;
mod prober;
mod sender;

pub use device::run as device;
pub use prober::run as probe;
pub use sender::run as load;

use crate::control::Control;
use crate::error::Error;
use crate::wait::Waiter;
use record::control::Command;
use serde::Serialize;
use std::fs;
use std::path::Path;
use units::Instant;

/// Pending control messages, without blocking.
fn pending_commands(control: &mut Control) -> Result<Vec<Command>, Error> {
    let mut waiter = Waiter::new(control.descriptor(), Vec::new());
    if waiter.wait(Some(Instant::START))? { control.read() } else { Ok(Vec::new()) }
}

/// Waits for a message that `accept` accepts.
fn wait_for<T>(
    control: &mut Control,
    mut accept: impl FnMut(&Command) -> Option<T>,
) -> Result<T, Error> {
    let mut waiter = Waiter::new(control.descriptor(), Vec::new());
    loop {
        // The stop message may have arrived together with another one, or while requests were
        // sent.
        if let Some(found) = control.is_stopped().then(|| accept(&Command::Stop {})).flatten() {
            return Ok(found);
        }
        waiter.wait(None)?;
        if let Some(found) = control.read()?.iter().find_map(&mut accept) {
            return Ok(found);
        }
    }
}

/// Writes the results for the parent process.
fn write_results(path: &Path, what: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_vec_pretty(what).unwrap_or_default();
    fs::write(path, text).map_err(|source| Error::Events { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_order_to_stop_that_came_early_is_not_waited_for_again() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut control = Control::over(far.as_raw_fd(), far.as_raw_fd()).unwrap();
        near.write_all(b"{\"start\":{\"at_ns\":17}}\n{\"stop\":{}}\n").unwrap();
        let start = wait_for(&mut control, |command| match command {
            Command::Start { at_ns } => Some(*at_ns),
            Command::Stop {} => None,
        });
        assert_eq!(start.unwrap(), 17);
        wait_for(&mut control, |command| (*command == Command::Stop {}).then_some(())).unwrap();
    }
}
