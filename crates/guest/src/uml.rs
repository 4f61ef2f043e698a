//! User Mode Linux in time-travel mode: computation takes no time.

use crate::boot::{self, Job};
use crate::{Error, Machine};
use std::path::Path;
use std::process::Command;

/// The path of the guest's folder for its kernel and its init, through the host's `/proc`. A fixed
/// path, because the kernel's command line influences its random numbers and must not vary.
const HERE: &str = "/proc/self/cwd";
/// The FIFO in the guest's folder from which its kernel reads while it is paused.
pub(crate) const KEYS: &str = "keys";

/// The command that starts the guest. Puts its files into `folder`, which must be its working
/// directory.
pub(crate) fn command(machine: &Machine, kernel: &Path, folder: &Path) -> Result<Command, Error> {
    std::os::unix::fs::symlink(&machine.tool, folder.join("init"))
        .map_err(Error::io("create the link to the guest's init"))?;
    nix::unistd::mkfifo(&folder.join(KEYS), nix::sys::stat::Mode::S_IRWXU)
        .map_err(|errno| Error::io("create the guest's input FIFO")(errno.into()))?;
    Job::of(machine)
        .with_output_of(folder)
        .write(folder)
        .map_err(Error::io("write the guest's job"))?;
    let mut command = Command::new(kernel);
    // The kernel creates a folder in its home for its control socket.
    command.args(arguments(machine)).env_clear().env("HOME", folder);
    Ok(command)
}

/// The kernel's command line.
fn arguments(machine: &Machine) -> Vec<String> {
    let mut arguments: Vec<String> = [
        // Computation takes no time. The fixed start time gives a repeated run the same times.
        "time-travel=inf-cpu",
        "norandmaps",
        "random.trust_cpu=off",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        // Only the console's output and the interrupt line reach the host.
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
