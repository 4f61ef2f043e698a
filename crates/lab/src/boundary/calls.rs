//! The system calls that are refused in nodes with a separate root: those that container engines
//! refuse to containers without further capabilities (moby, `profiles/seccomp/default.json`).

use caps::Capability;
use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};
use std::collections::BTreeMap;

/// System calls, and the capability with which a node has them. Programs that use these in good
/// faith have another way when they get EPERM.
const REFUSED: &[(Capability, &[c_long])] = &[
    (
        Capability::CAP_SYS_ADMIN,
        &[
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_move_mount,
            libc::SYS_open_tree,
            libc::SYS_mount_setattr,
            libc::SYS_fsopen,
            libc::SYS_fsconfig,
            libc::SYS_fsmount,
            libc::SYS_fspick,
            libc::SYS_pivot_root,
            libc::SYS_setns,
            libc::SYS_unshare,
            libc::SYS_quotactl,
            libc::SYS_quotactl_fd,
            libc::SYS_swapon,
            libc::SYS_swapoff,
            libc::SYS_fanotify_init,
            libc::SYS_lookup_dcookie,
        ],
    ),
    (Capability::CAP_BPF, &[libc::SYS_bpf]),
    (Capability::CAP_PERFMON, &[libc::SYS_perf_event_open]),
    (
        Capability::CAP_SYS_MODULE,
        &[libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module],
    ),
    (
        Capability::CAP_SYS_BOOT,
        &[libc::SYS_reboot, libc::SYS_kexec_load, libc::SYS_kexec_file_load],
    ),
    (Capability::CAP_SYS_TIME, &[libc::SYS_clock_settime, libc::SYS_settimeofday]),
    (Capability::CAP_SYS_PACCT, &[libc::SYS_acct]),
    (Capability::CAP_SYSLOG, &[libc::SYS_syslog]),
    (Capability::CAP_DAC_READ_SEARCH, &[libc::SYS_open_by_handle_at]),
    #[cfg(target_arch = "x86_64")]
    (Capability::CAP_SYS_RAWIO, &[libc::SYS_iopl, libc::SYS_ioperm]),
];

/// System calls that are refused always: the kernel has had many faults in them, keyrings belong to
/// no namespace.
const NEVER: [c_long; 7] = [
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// The flags of clone(2) that create namespaces.
const NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWTIME,
];

/// The filters, except for what a program with the capabilities `added` has. All apply together.
pub(super) fn filters(added: &[Capability]) -> Result<Vec<BpfProgram>, BackendError> {
    let refused = REFUSED.iter().filter(|(with, _)| !added.contains(with));
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let listed = refused.flat_map(|(_, calls)| calls.iter()).chain(&NEVER);
    rules.extend(listed.map(|call| (*call, Vec::new())));
    // A virtual machine's host, which no network namespace hides.
    let vsock = argument(0, SeccompCmpOp::Eq, libc::AF_VSOCK as u64)?;
    rules.insert(libc::SYS_socket, vec![vsock]);
    // Typing into the terminal of who uses `thingbed exec`.
    let type_into = argument(1, SeccompCmpOp::Eq, libc::TIOCSTI)?;
    rules.insert(libc::SYS_ioctl, vec![type_into]);
    let mut missing = BTreeMap::new();
    if !added.contains(&Capability::CAP_SYS_ADMIN) {
        let flags = NAMESPACES.map(|flag| {
            let flag = u64::from(flag as u32);
            argument(0, SeccompCmpOp::MaskedEq(flag), flag)
        });
        rules.insert(libc::SYS_clone, flags.into_iter().collect::<Result<_, _>>()?);
        // Its flags are in memory, where no filter sees them. C libraries then use clone.
        missing.insert(libc::SYS_clone3, Vec::new());
    }
    // EPERM, as a kernel without the capability would answer.
    let mut filters = vec![compile(rules, libc::EPERM)?];
    if !missing.is_empty() {
        filters.push(compile(missing, libc::ENOSYS)?);
    }
    Ok(filters)
}

fn argument(number: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    let condition = SeccompCondition::new(number, SeccompCmpArgLen::Dword, operator, value)?;
    SeccompRule::new(vec![condition])
}

/// A filter that refuses the calls of `rules`, and allows all others.
fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(errno as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?;
    let rest: BpfProgram = filter.try_into()?;
    Ok(other_numbers().into_iter().chain(rest).collect())
}

/// Refuses the second set of numbers that some kernels have for the same calls on x86-64 (x32).
fn other_numbers() -> Vec<sock_filter> {
    if std::env::consts::ARCH != "x86_64" {
        return Vec::new();
    }
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let jump = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    let end = (libc::BPF_RET | libc::BPF_K) as u16;
    /// `__X32_SYSCALL_BIT` of `asm/unistd.h`.
    const X32: u32 = 0x4000_0000;
    let refuse = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    vec![
        // The number is the first field of `struct seccomp_data`.
        sock_filter { code: load, jt: 0, jf: 0, k: 0 },
        sock_filter { code: jump, jt: 0, jf: 1, k: X32 },
        sock_filter { code: end, jt: 0, jf: 0, k: refuse },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a child gets from `call` under the filters: 0 or an error number.
    fn tried(added: &[Capability], call: fn() -> c_long) -> i32 {
        let filters = filters(added).unwrap();
        // SAFETY: the child only makes system calls, and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                for filter in &filters {
                    if seccompiler::apply_filter(filter).is_err() {
                        libc::_exit(99);
                    }
                }
                let failed = call() < 0;
                libc::_exit(if failed { *libc::__errno_location() } else { 0 });
            }
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            assert!(libc::WIFEXITED(status), "killed by {}", libc::WTERMSIG(status));
            libc::WEXITSTATUS(status)
        }
    }

    #[test]
    fn calls_are_refused_unless_the_file_has_their_capability() {
        if !super::super::has_seccomp() {
            eprintln!("NOT RUN: the kernel has no seccomp");
            return;
        }
        // SAFETY: an invalid path, and a request of no namespace.
        let swap = || unsafe { libc::syscall(libc::SYS_swapoff, c"".as_ptr()) };
        assert_eq!(tried(&[], swap), libc::EPERM);
        assert_ne!(tried(&[Capability::CAP_SYS_ADMIN], swap), 0);
        // SAFETY: plain system calls without memory.
        let unshare = || unsafe { libc::syscall(libc::SYS_unshare, 0) };
        assert_eq!(tried(&[], unshare), libc::EPERM);
        assert_eq!(tried(&[Capability::CAP_SYS_ADMIN], unshare), 0);
        // SAFETY: a null pointer, which the kernel refuses.
        let clone = || unsafe { libc::syscall(libc::SYS_clone3, 0, 0) };
        assert_eq!(tried(&[], clone), libc::ENOSYS);
        // SAFETY: a plain system call.
        assert_eq!(tried(&[], || unsafe { libc::syscall(libc::SYS_getpid) }), 0);
    }

    #[test]
    fn arguments_decide_where_a_call_is_needed() {
        if !super::super::has_seccomp() {
            return;
        }
        fn socket(family: i32) -> c_long {
            // SAFETY: a plain system call.
            unsafe { libc::syscall(libc::SYS_socket, family, libc::SOCK_STREAM, 0) }
        }
        assert_eq!(tried(&[], || socket(libc::AF_VSOCK)), libc::EPERM);
        assert_eq!(tried(&[], || socket(libc::AF_INET)), 0);
        let namespace = || {
            // SAFETY: refused before it has an effect, else the child ends at once.
            let pid = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_NEWUTS, 0, 0, 0, 0) };
            if pid == 0 {
                // SAFETY: ends the child.
                unsafe { libc::_exit(0) };
            }
            pid
        };
        assert_eq!(tried(&[], namespace), libc::EPERM);
    }
}
