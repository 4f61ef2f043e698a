//! How well nodes with a separate root are closed on this machine.

use super::finding::{Finding, Grade};
use crate::environment::current_exe;

/// Whether root of a node with a separate root is another user than the host's.
pub(super) fn own_users() -> Finding {
    let what = "users of nodes";
    match lab::try_own_users(&current_exe()) {
        Ok(()) => Finding::good(what, "each node with a `root` has its own"),
        Err(why) => Finding::bad(
            what,
            Grade::Lacking,
            format!("not separate: {why}"),
            "in nodes with a `root`, root is this user, with the capabilities of a container",
            "use Linux 5.19 with user namespaces (CONFIG_USER_NS, sysctl \
             user.max_user_namespaces=10000), and keep images on ext4, XFS, Btrfs or tmpfs",
        ),
    }
}

/// Whether system calls can be refused to programs, and processes limited for each node.
pub(super) fn boundary() -> Finding {
    let what = "node boundary";
    let (calls, processes) = (lab::has_seccomp(), lab::can_limit_processes());
    // For ordinary users `RLIMIT_NPROC` limits the processes of all nodes of a lab together
    // (decision 57); root has no such limit.
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
