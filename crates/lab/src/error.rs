//! Errors of a lab, each with its likely cause and fix.

use crate::failure::Failure;
use crate::users::RUN_FOREIGN;
use crate::veth::PUT_NETEM;
use std::path::PathBuf;

/// Why a lab could not be created or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A node could not be entered.
    #[error(
        "could not enter the node of process {init}: {source}{hint}",
        hint = enter_hint(.source)
    )]
    Enter {
        /// Its init.
        init: i32,
        /// The error of the kernel.
        source: std::io::Error,
    },
    /// The fork server could not be started.
    #[error("could not start {path}, the fork server of the nodes: {source}")]
    ForkServer {
        /// The program file.
        path: PathBuf,
        /// The error of the kernel.
        source: std::io::Error,
    },
    /// A step failed before any node was up.
    #[error("could not create the lab: {0}{hint}", hint = hint(.0))]
    Lab(Failure),
    /// A step failed inside a node.
    #[error("could not set up node {node}: {failure}{hint}", hint = hint(failure))]
    Node {
        /// Its name.
        node: String,
        /// The failed step and its cause.
        failure: Failure,
    },
    /// A node's init or the fork server ended unexpectedly.
    #[error(
        "{who} ended during the setup of the lab because something killed it; look for the \
         out-of-memory killer: dmesg | tail"
    )]
    Gone {
        /// The node's name, or the fork server.
        who: String,
    },
    /// The kernel refused a change of a running node, or netem on one of its links.
    #[error("could not {}: {}{hint}", .0.tried, reason(.0), hint = netem_hint(.0))]
    Change(Failure),
    /// Not enough file descriptors for the nodes.
    #[error(
        "{nodes} nodes need {needed} open files, and the limit of this process is {limit}\n  \
         raise the hard limit: ulimit -Hn {needed} as root, or LimitNOFILE= in systemd"
    )]
    Files {
        /// Number of nodes.
        nodes: usize,
        /// Descriptors needed.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// The lab cannot use an interface of the host.
    #[error("the lab cannot use the interface {interface}: {why}\n  {fix}")]
    Hardware {
        /// Its name.
        interface: String,
        /// The cause.
        why: String,
        /// The fix.
        fix: String,
    },
    /// Programs of an architecture cannot be run.
    #[error(
        "no emulator for programs of {architecture}: {why}\n  install QEMU's static emulators: \
         Debian, Ubuntu and Arch: package qemu-user-static; Fedora: package qemu-user-static-aarch64 \
         (or of another architecture)"
    )]
    Emulator {
        /// Its name in images (GOARCH).
        architecture: String,
        /// The cause.
        why: String,
    },
    /// CPU or memory limits are configured but not available.
    #[error("could not limit node {node}: {why}\n  {fix}")]
    Limits {
        /// The first node with a limit.
        node: String,
        /// The failed step, and where.
        why: String,
        /// The fix.
        fix: &'static str,
    },
    /// Any other error of the kernel.
    #[error("could not {tried}: {source}")]
    Io {
        /// The failed step.
        tried: &'static str,
        /// The error of the kernel.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn io(tried: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { tried, source }
    }
}

fn reason(failure: &Failure) -> String {
    match is_without_netem(failure) {
        true => "this kernel has no netem".to_owned(),
        false => std::io::Error::from_raw_os_error(failure.errno).to_string(),
    }
}

/// Whether the error is the kernel's for an unknown queueing discipline.
fn is_without_netem(failure: &Failure) -> bool {
    failure.tried.starts_with(PUT_NETEM) && failure.errno == libc::ENOENT
}

fn netem_hint(failure: &Failure) -> &'static str {
    match is_without_netem(failure) {
        true => {
            "\n  as root: modprobe sch_netem (Fedora: package kernel-modules-extra; elsewhere a \
             kernel with CONFIG_NET_SCH_NETEM); or remove `backend: netem`: Thingbed's own \
             emulation has all impairments of netem"
        }
        false => "",
    }
}

/// The likely cause of a failure and its fix, on a separate line.
fn hint(failure: &Failure) -> &'static str {
    let refused = matches!(failure.errno, libc::EPERM | libc::EACCES);
    match failure.tried.as_str() {
        "open /dev/net/tun" if refused => {
            "\n  this user cannot open the device: run as root, or as root once: chmod 666 \
             /dev/net/tun"
        }
        "open /dev/net/tun" => {
            "\n  the kernel's TUN driver is missing: modprobe tun; in a container add --device \
             /dev/net/tun"
        }
        "make a user namespace" => {
            "\n  without root, nodes need user namespaces: run as root, or allow them: \
             sysctl user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1 \
             (Ubuntu 24.04: kernel.apparmor_restrict_unprivileged_userns=0)"
        }
        "make a mount namespace" | "clone a process into new namespaces" if refused => {
            "\n  this process cannot create namespaces: run as root; in a container add \
             --privileged"
        }
        "clone a process into new namespaces" if failure.errno == libc::ENOSPC => {
            "\n  the limit on namespaces is reached: \
             sysctl user.max_net_namespaces=10000 user.max_pid_namespaces=10000"
        }
        "mount /proc" if refused => {
            "\n  a container that masks parts of /proc forbids new mounts of it: \
             docker run --privileged, or --security-opt systempaths=unconfined"
        }
        "set up address translation with nf_tables" => {
            "\n  `nat` needs the kernel's nf_tables: modprobe nf_tables nft_chain_nat nft_masq; \
             or remove `nat` from the experiment"
        }
        "add files to /etc" => {
            "\n  nodes have their own /etc/hosts and /etc/resolv.conf, which this system lacks: as root, \
             touch /etc/hosts /etc/resolv.conf"
        }
        "make a time namespace" => {
            "\n  `clock_offset` needs time namespaces: Linux 5.6 or later with CONFIG_TIME_NS, \
             and a /proc that is not masked; or remove it from the experiment"
        }
        tried if tried.ends_with("it is not a character device") => {
            "\n  `device` needs a character device such as a serial port: ls -l shows a c as the \
             first letter"
        }
        tried if tried.starts_with("pass the device") => {
            "\n  is it plugged in, and does it have a driver? see dmesg | tail"
        }
        tried if tried.starts_with("mount an overlay") => {
            "\n  the `root` of a node needs overlayfs: modprobe overlay; without root, Linux 5.11 \
             or later with overlayfs for users"
        }
        tried if tried.starts_with(RUN_FOREIGN) => {
            "\n  this needs Linux 6.7 or later with binfmt_misc, and a node with separate users \
             (without `privileged`; see `thingbed doctor`); or, as root, an emulator for all \
             programs of the machine: Debian and Ubuntu: apt install qemu-user-static \
             binfmt-support; Fedora: dnf install qemu-user-static"
        }
        tried if tried.starts_with("switch to the image's user") => {
            "\n  without root a node has only the user root: run as root"
        }
        _ => "",
    }
}

fn enter_hint(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::NotFound => {
            "\n  the node has just ended; `thingbed ps` lists the running nodes"
        }
        std::io::ErrorKind::PermissionDenied => {
            "\n  the node belongs to another user: switch to \
                                                 that user, or run as root"
        }
        _ => "",
    }
}
