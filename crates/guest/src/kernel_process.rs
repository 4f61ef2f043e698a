//! The process of a guest's kernel.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Puts the kernel into a separate process group, and kills it when the tool ends.
pub(crate) fn prepare(command: &mut Command) {
    command.process_group(0);
    // SAFETY: between fork and exec only system calls that may be used there.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // No address space randomisation: addresses are the same in each run.
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            Ok(())
        });
    }
}
