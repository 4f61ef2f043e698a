//! How well nodes with a separate root are closed on this machine.

use super::finding::{Finding, Grade};

/// Whether system calls can be refused to programs, and processes limited for each node.
pub(super) fn boundary() -> Finding {
    let what = "node boundary";
    let (calls, processes) = (lab::has_seccomp(), lab::can_limit_processes());
    // SAFETY: asks for this process's user.
    let together = unsafe { libc::geteuid() } != 0;
    match (calls, processes) {
        (true, Ok(())) => Finding::good(what, "seccomp; processes limited for each node"),
        (false, _) => Finding::bad(
            what,
            Grade::Lacking,
            "the kernel has no seccomp filters",
            "nodes with a `root` are refused no system calls; capabilities still limit them",
            "use a kernel with CONFIG_SECCOMP_FILTER",
        ),
        (true, Err(why)) if together => Finding::bad(
            what,
            Grade::Lacking,
            format!("seccomp; processes limited for all nodes together: {why}"),
            "a node can use up the processes of the other nodes; `limits.processes` is rejected",
            "run as root, or: systemd-run --user --scope -p Delegate=yes thingbed ...",
        ),
        (true, Err(why)) => Finding::bad(
            what,
            Grade::Lacking,
            format!("seccomp; processes not limited: {why}"),
            "a node can use up the processes of the machine; `limits.processes` is rejected",
            "mount cgroup v2 with the controller pids",
        ),
    }
}
