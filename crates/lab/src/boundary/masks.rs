//! Parts of `/proc` and `/sys` that describe or change the machine and not the node, hidden and
//! read-only as the OCI runtime specification's default configuration has them.

use crate::failure::Failure;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use std::path::Path;

const NONE: Option<&str> = None;

/// Paths that read as empty.
const MASKED: [&str; 16] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/mtrr",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/vmallocinfo",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/selinux",
];

/// Paths that are read-only.
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Settings of the node's own network namespace, which stay writable: routers set them.
const NETWORK: &str = "/proc/sys/net";

/// Hides and protects these paths in this mount namespace, whose `/dev` exists already.
pub(crate) fn mask() -> Result<(), Failure> {
    for path in MASKED.map(Path::new).into_iter().filter(|path| path.exists()) {
        let done = match path.is_dir() {
            true => mount(Some("masked"), path, Some("tmpfs"), MsFlags::MS_RDONLY, NONE),
            false => mount(Some("/dev/null"), path, NONE, MsFlags::MS_BIND, NONE),
        };
        done.map_err(|errno| Failure::of(format!("hide {}", path.display()), errno))?;
    }
    // A separate mount below a read-only one. Without the namespace's settings there is nothing
    // to keep.
    let network = Path::new(NETWORK);
    for path in READ_ONLY.map(Path::new).into_iter().filter(|path| path.exists()) {
        bind(path, true)
            .map_err(|errno| Failure::of(format!("protect {}", path.display()), errno))?;
        if network.starts_with(path) && network.exists() {
            bind(network, false)
                .map_err(|errno| Failure::of(format!("keep {NETWORK} writable"), errno))?;
        }
    }
    Ok(())
}

/// Mounts `path` over itself.
fn bind(path: &Path, read_only: bool) -> Result<(), Errno> {
    mount(Some(path), path, NONE, MsFlags::MS_BIND, NONE)?;
    // A remount sets all flags anew: without these, it would take them away.
    let kept = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | kept;
    let flags = if read_only { flags | MsFlags::MS_RDONLY } else { flags };
    mount(NONE, path, NONE, flags, NONE)
}
