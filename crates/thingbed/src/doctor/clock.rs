//! Checks whether runs in virtual time work on this machine.

use super::finding::{Finding, Grade};
use crate::environment::current_exe;
use guest::{Engine, Event, Guest, Machine};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A guest starts in about one second; the limit allows for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Virtual time with an infinite CPU: starts a guest.
pub(super) fn virtual_time() -> Finding {
    let what = "virtual time";
    let effect = "no `--clock virtual`: results depend on the speed of this machine, and runs on a \
                  busy machine are invalid";
    let kernel = match guest::find_kernel(&current_exe()) {
        Ok(kernel) => kernel,
        Err(guest::Error::WrongKernel(path)) => {
            let found =
                format!("THINGBED_KERNEL is {}, which is not an executable file", path.display());
            return Finding::bad(what, Grade::Lacking, found, effect, "unset THINGBED_KERNEL");
        }
        Err(_) => {
            let found = format!("the guest kernel {} is not installed", guest::KERNEL);
            return Finding::bad(what, Grade::Lacking, found, effect, "in a checkout: make kernel");
        }
    };
    let shown = kernel.display().to_string();
    match start(kernel) {
        Ok(took) => {
            Finding::good(what, format!("a guest starts in {:.1} s, {shown}", took.as_secs_f64()))
        }
        Err(error) => Finding::bad(
            what,
            Grade::Lacking,
            format!("a guest does not start: {error}"),
            effect,
            "virtual time needs ptrace and executable memory: in a container, --cap-add \
             SYS_PTRACE; and kernel.yama.ptrace_scope below 3",
        ),
    }
}

/// Starts a guest that exits at once. Returns the time from boot to exit.
fn start(kernel: PathBuf) -> Result<Duration, String> {
    let machine = Machine {
        engine: Engine::UserModeLinux { kernel },
        tool: current_exe(),
        arguments: vec!["--version".to_owned()],
        environment: Vec::new(),
        directory: PathBuf::from("/"),
        files: Vec::new(),
        writable: Vec::new(),
        // `--version` needs little; less memory than in a run lets the check work on small
        // machines.
        memory_bytes: 512 << 20,
        seed: 1,
        cache: PathBuf::new(),
        start_s: 0,
    };
    let began = Instant::now();
    let mut guest = Guest::boot(&machine).map_err(|error| error.to_string())?;
    // Only booting shows that virtual time works: ptrace and executable memory can be forbidden in
    // many ways.
    while began.elapsed() < LIMIT {
        match guest.next(Duration::from_millis(200)) {
            Ok(Event::Ended(0)) => return Ok(began.elapsed()),
            Ok(Event::Ended(status)) => return Err(format!("exit status {status}")),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Err(format!("it did not end within {} s", LIMIT.as_secs()))
}

/// Virtual time with a CPU of finite speed.
pub(super) fn virtual_cpu() -> Finding {
    let what = "virtual CPU";
    let effect = "no `--cpu N`: results cannot show which metrics depend on the CPU";
    let lacking = |found: &str, fix: &str| Finding::bad(what, Grade::Lacking, found, effect, fix);
    let Some(qemu) = guest::in_path("qemu-system-x86_64") else {
        return lacking("qemu-system-x86_64 is not installed", "apt install qemu-system-x86");
    };
    // No guest is booted here: the first start at a CPU speed takes up to a minute (decision 44).
    match guest::find_qemu_kernel(&current_exe()) {
        Ok(kernel) => {
            Finding::good(what, format!("{}, kernel {}", qemu.display(), kernel.image.display()))
        }
        Err(_) => {
            lacking("the guest kernel for QEMU is not installed", "in a checkout: make qemu-kernel")
        }
    }
}
