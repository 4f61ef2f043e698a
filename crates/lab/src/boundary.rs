//! What a node's programs may do to the machine: capabilities, system calls, descriptors and
//! environment.
//!
//! A node with a separate root is a container: its programs have the capabilities, the system calls
//! and the parts of `/proc` and `/sys` that container engines grant by default. A node that sees the
//! host's files is no boundary against a hostile program, which could change those files; its
//! programs only lose what would change the whole machine by accident, such as its clock.
//!
//! The node's init and Thingbed's own programs keep all capabilities. The kernel lets no process
//! trace, or open the files and descriptors of, a process with more capabilities in the same user
//! namespace (ptrace(2), "Ptrace access mode checking"), so nothing in the node reaches the host
//! through them.

mod calls;
mod masks;

pub(crate) use masks::mask;

use crate::failure::Failure;
use caps::Capability;
use nix::errno::Errno;
use seccompiler::BpfProgram;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The limits of a node's programs; by default those of a node that sees the host's files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boundary {
    /// Whether the node has a separate root.
    pub rooted: bool,
    /// Capabilities that its programs have in addition, such as `SYS_TIME`.
    pub capabilities: Vec<String>,
    /// Whether its programs have all capabilities and system calls.
    pub privileged: bool,
}

/// The capabilities in nodes with a separate root: those of containers, and NET_ADMIN, which is
/// limited to the node's own network namespace and which `ip`, `tc` and `iptables` need.
const CONTAINER: [Capability; 14] = [
    Capability::CAP_CHOWN,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_FOWNER,
    Capability::CAP_FSETID,
    Capability::CAP_KILL,
    Capability::CAP_NET_BIND_SERVICE,
    Capability::CAP_NET_RAW,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_SETUID,
    Capability::CAP_SETGID,
    Capability::CAP_SETPCAP,
    Capability::CAP_SYS_CHROOT,
    Capability::CAP_AUDIT_WRITE,
    Capability::CAP_SETFCAP,
];

/// The capabilities that programs lose on nodes that see the host's files: they change the machine,
/// and no namespace limits them.
const MACHINE: [Capability; 8] = [
    Capability::CAP_SYS_MODULE,
    Capability::CAP_SYS_TIME,
    Capability::CAP_SYS_BOOT,
    Capability::CAP_SYS_RAWIO,
    Capability::CAP_SYS_PACCT,
    Capability::CAP_MAC_ADMIN,
    Capability::CAP_MAC_OVERRIDE,
    Capability::CAP_WAKE_ALARM,
];

/// Further capabilities that the kernel checks against the node's own user namespace. All others
/// are about the machine, and have no effect in such a namespace (user_namespaces(7)).
const OF_NODES: [Capability; 3] =
    [Capability::CAP_SYS_PTRACE, Capability::CAP_IPC_OWNER, Capability::CAP_NET_BROADCAST];

/// Number of bits in the kernel's capability sets (capset(2)).
const BITS: u8 = 64;

impl Boundary {
    /// The mask of the capabilities that programs may have.
    fn bounding(&self) -> u64 {
        if self.privileged {
            return u64::MAX;
        }
        let mask = |all: &[Capability]| all.iter().map(Capability::bitmask).sum::<u64>();
        let base = if self.rooted { mask(&CONTAINER) } else { !mask(&MACHINE) };
        base | self.added().map(|one| one.bitmask()).sum::<u64>()
    }

    /// The capabilities of the file. Unknown ones were refused when the file was read.
    fn added(&self) -> impl Iterator<Item = Capability> {
        caps::all().into_iter().filter(|known| {
            let known = known.to_string();
            self.capabilities.iter().any(|name| Some(&name[..]) == known.strip_prefix("CAP_"))
        })
    }

    /// Whether its programs are in a user namespace of the node: not if the file allows what only
    /// the machine's users may do.
    pub fn has_own_users(&self) -> bool {
        let of_nodes = |one: Capability| CONTAINER.contains(&one) || OF_NODES.contains(&one);
        self.rooted && !self.privileged && self.added().all(of_nodes)
    }

    /// Prepares what [`Seal::bound`] and [`Seal::close`] do to each program.
    ///
    /// # Errors
    /// When the list of refused system calls does not compile for this processor.
    pub fn seal(&self) -> io::Result<Seal> {
        // Compiled once for the node, since a process between fork and exec must not allocate.
        let filters = match self.rooted && !self.privileged {
            true => calls::filters(&self.added().collect::<Vec<_>>()).map_err(io::Error::other)?,
            false => Vec::new(),
        };
        Ok(Seal { bounding: self.bounding(), filters, no_new_privileges: self.rooted })
    }
}

/// A boundary, ready to be applied to programs.
#[derive(Debug)]
pub struct Seal {
    bounding: u64,
    filters: Vec<BpfProgram>,
    no_new_privileges: bool,
}

impl Seal {
    /// Limits the capabilities of a program at its start. The user of the program may change
    /// afterwards, before exec.
    pub fn bound(&self, command: &mut Command) {
        let bounding = self.bounding;
        // SAFETY: only system calls between fork and exec.
        unsafe { command.pre_exec(move || bound(bounding)) };
    }

    /// Refuses system calls to a program from its start, and closes all descriptors from
    /// `first` on; the last step before exec.
    pub fn close(&self, command: &mut Command, first: u32) {
        let (filters, no_new_privileges) = (self.filters.clone(), self.no_new_privileges);
        // SAFETY: only system calls between fork and exec; the filters are only read.
        unsafe {
            command.pre_exec(move || {
                // Before the filters, which could refuse calls of these steps.
                close_from(first)?;
                if no_new_privileges {
                    let nothing: libc::c_ulong = 0;
                    let yes: libc::c_ulong = 1;
                    if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, nothing, nothing, nothing) < 0 {
                        return Err(io::Error::last_os_error());
                    }
                }
                filters.iter().try_for_each(refuse)
            });
        }
    }
}

/// The variables of the caller that programs get, besides those whose name begins with [`OWN`]:
/// what programs need to find files and to speak to a user.
const PASSED_ON: [&str; 12] = [
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TERM",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "RUST_BACKTRACE",
];
/// How the names of Thingbed's own variables begin.
const OWN: &str = "THINGBED_";
/// The variable with the token of a page, which gives control of the lab; no program in a node gets it.
pub const PAGE_TOKEN: &str = "THINGBED_PAGE_TOKEN";

/// Gives a program only the variables of this process that it needs: others may be secrets.
pub fn clean_environment(command: &mut Command) {
    command.env_clear();
    command.envs(std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        PASSED_ON.contains(&&*name) || name.starts_with(OWN) && name != PAGE_TOKEN
    }));
}

/// Closes all descriptors from `first` on at exec. Not at once, because the standard library reports
/// a failed exec over one of them. For a process between fork and exec: only system calls.
///
/// # Errors
/// When the kernel refuses it.
pub fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: a plain system call on this process's own descriptors.
    let closed = unsafe {
        let flags = libc::CLOSE_RANGE_CLOEXEC as libc::c_ulong;
        libc::syscall(libc::SYS_close_range, libc::c_ulong::from(first), libc::c_ulong::MAX, flags)
    };
    if closed == 0 {
        return Ok(());
    }
    // Before Linux 5.11.
    // SAFETY: plain system calls; the structure outlives its call.
    unsafe {
        let mut files: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut files) < 0 {
            return Err(io::Error::last_os_error());
        }
        // Only below the soft limit: no descriptor can be above it, unless it was opened before the
        // limit fell.
        for fd in first as i32..i32::try_from(files.rlim_cur).unwrap_or(i32::MAX) {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
    Ok(())
}

/// Drops the capabilities outside `mask` from what programs can get by exec.
fn bound(mask: u64) -> io::Result<()> {
    let nothing: libc::c_ulong = 0;
    for number in (0..BITS).filter(|number| mask >> number & 1 == 0) {
        let number = libc::c_ulong::from(number);
        // SAFETY: plain system calls. A number above the kernel's last capability is not valid, so
        // that nothing must be dropped.
        unsafe {
            if libc::prctl(libc::PR_CAPBSET_READ, number, nothing, nothing, nothing) == 1
                && libc::prctl(libc::PR_CAPBSET_DROP, number, nothing, nothing, nothing) < 0
            {
                return Err(io::Error::last_os_error());
            }
        }
    }
    if mask != u64::MAX {
        clear_inheritable()?;
    }
    Ok(())
}

/// Empties the inheritable set, which exec adds to the bounding set for root, and with it the
/// ambient set (capabilities(7)).
fn clear_inheritable() -> io::Result<()> {
    /// `_LINUX_CAPABILITY_VERSION_3`, and the two structures of `linux/capability.h`.
    #[repr(C)]
    struct Header(u32, i32);
    #[repr(C)]
    struct Sets([[u32; 3]; 2]);
    let (mut header, mut sets) = (Header(0x2008_0522, 0), Sets([[0; 3]; 2]));
    // SAFETY: both structures have the kernel's layout and live over the calls.
    unsafe {
        if libc::syscall(libc::SYS_capget, &raw mut header, &raw mut sets) < 0 {
            return Err(io::Error::last_os_error());
        }
        sets.0.iter_mut().for_each(|half| half[2] = 0);
        if libc::syscall(libc::SYS_capset, &raw mut header, &raw const sets) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Applies a filter; a kernel without seccomp has none (`thingbed doctor` says so).
fn refuse(filter: &BpfProgram) -> io::Result<()> {
    match seccompiler::apply_filter(filter) {
        Ok(()) => Ok(()),
        Err(_) if !has_seccomp() => Ok(()),
        Err(_) => Err(io::Error::from_raw_os_error(libc::EACCES)),
    }
}

/// Whether the kernel can refuse system calls to programs (seccomp(2), SECCOMP_MODE_FILTER).
pub fn has_seccomp() -> bool {
    // SAFETY: with a null pointer the call only checks the mode: EFAULT if the kernel has it.
    unsafe {
        let mode = libc::c_ulong::from(libc::SECCOMP_SET_MODE_FILTER);
        let none: libc::c_ulong = 0;
        libc::syscall(libc::SYS_seccomp, mode, none, none) < 0
            && *libc::__errno_location() == libc::EFAULT
    }
}

pub(crate) fn failed(error: io::Error) -> Failure {
    let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EINVAL));
    Failure::of(format!("prepare the boundary of a node ({error})"), errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(boundary: &Boundary, capability: Capability) -> bool {
        boundary.bounding() & capability.bitmask() != 0
    }

    #[test]
    fn a_root_has_the_capabilities_of_a_container_and_those_of_the_file() {
        let rooted = Boundary { rooted: true, ..Boundary::default() };
        assert!(has(&rooted, Capability::CAP_NET_ADMIN));
        assert!(!has(&rooted, Capability::CAP_SYS_ADMIN));
        assert!(!has(&rooted, Capability::CAP_SYS_PTRACE));
        let added = Boundary { capabilities: vec!["SYS_TIME".to_owned()], ..rooted.clone() };
        assert!(has(&added, Capability::CAP_SYS_TIME));
        assert_eq!(added.bounding().count_ones(), rooted.bounding().count_ones() + 1);
        let privileged = Boundary { privileged: true, ..rooted };
        assert_eq!(privileged.bounding(), u64::MAX);
        assert!(privileged.seal().unwrap().filters.is_empty());
    }

    #[test]
    fn what_only_the_machines_users_may_do_needs_them() {
        let with = |name: &str| Boundary {
            rooted: true,
            capabilities: vec![name.to_owned()],
            privileged: false,
        };
        assert!(with("SYS_PTRACE").has_own_users() && with("CHOWN").has_own_users());
        assert!(!with("SYS_TIME").has_own_users() && !with("SYS_ADMIN").has_own_users());
        assert!(!Boundary { privileged: true, ..with("CHOWN") }.has_own_users());
        assert!(!Boundary::default().has_own_users());
    }

    #[test]
    fn without_a_root_only_the_machine_is_out_of_reach() {
        let plain = Boundary::default();
        assert!(has(&plain, Capability::CAP_SYS_ADMIN));
        assert!(!has(&plain, Capability::CAP_SYS_TIME));
        assert!(plain.seal().unwrap().filters.is_empty());
    }
}
