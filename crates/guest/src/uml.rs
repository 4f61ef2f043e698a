//! User Mode Linux in time-travel mode: programs cost no time.

use crate::boot::{self, Job};
use crate::{Error, Machine};
use std::path::Path;
use std::process::Command;

/// The guest's own folder on the host, as its kernel and its init find it: through the host's
/// `/proc`. Random numbers come from the kernel's command line, too, so that it has to be the
/// same each time.
const HERE: &str = "/proc/self/cwd";
/// The FIFO from which its kernel reads while it stands still, in the guest's folder.
pub(crate) const KEYS: &str = "keys";

/// The command that starts it; its files come into `folder`, in which it has to start.
pub(crate) fn command(machine: &Machine, kernel: &Path, folder: &Path) -> Result<Command, Error> {
    std::os::unix::fs::symlink(&machine.tool, folder.join("init"))
        .map_err(Error::io("make the link to the guest's init"))?;
    nix::unistd::mkfifo(&folder.join(KEYS), nix::sys::stat::Mode::S_IRWXU)
        .map_err(|errno| Error::io("make the guest's keys")(errno.into()))?;
    Job::of(machine)
        .with_output_of(folder)
        .write(folder)
        .map_err(Error::io("write what the guest is to run"))?;
    let mut command = Command::new(kernel);
    // It makes a folder of its own in its home, for its control socket.
    command.args(arguments(machine)).env_clear().env("HOME", folder);
    Ok(command)
}

/// The kernel's command line.
fn arguments(machine: &Machine) -> Vec<String> {
    let mut arguments: Vec<String> = [
        // Programs cost no time; a fixed start, so that the same run has the same times.
        "time-travel=inf-cpu",
        "norandmaps",
        "random.trust_cpu=off",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        "con=null",
        "con0=null,fd:2",
        "ssl=null",
        "ssl0=fd:0,null",
        "loglevel=4",
        "panic=-1",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(format!("mem={}M", machine.memory_bytes >> 20));
    arguments.push(format!("time-travel-start={}000000000", machine.start_s));
    arguments.push(format!("random-seed={}", machine.seed));
    arguments.push(format!("init={HERE}/init"));
    arguments.extend(["--", boot::INIT, HERE].map(str::to_owned));
    arguments
}
