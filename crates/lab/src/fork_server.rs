//! The fork server (nursery): a small single-threaded process that clones the inits.
//!
//! A separate process, because cloning without exec is safe only in a process with one thread, and
//! because pages shared with one small parent keep nodes cheap.

use crate::etc::{self, HOSTS};
use crate::failure::Failure;
use crate::init;
use crate::netlink;
use crate::shared::Shared;
use crate::sysfs;
use crate::users;
use crate::wire::{FromForkServer, Link, ToForkServer, receive, send};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::MsgFlags;
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getegid, geteuid};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The hidden command that turns a process into a fork server, as its first argument.
pub const FORK_SERVER: &str = "__nursery";

/// The descriptor of a fork server's control socket.
pub(crate) const CONTROL: i32 = 3;

/// Runs the fork server until the tool is gone; then nothing of the lab is left. Must be called
/// first in `main`, before any other thread exists.
pub fn fork_server() -> std::process::ExitCode {
    // SAFETY: the process that starts a fork server leaves it this descriptor.
    let socket = unsafe { OwnedFd::from_raw_fd(CONTROL) };
    // A terminal's Ctrl-C is for the tool, which stops the lab cleanly.
    // SAFETY: ignoring a signal runs no code; sets flags of our own descriptor.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::fcntl(CONTROL, libc::F_SETFD, libc::FD_CLOEXEC);
    }
    let mut children = Vec::new();
    serve(&socket, &mut children);
    // All are killed before the first is waited for, so that they end at the same time.
    for child in &children {
        let _ = kill(*child, Signal::SIGKILL);
    }
    for child in &children {
        while waitpid(*child, None) == Err(Errno::EINTR) {}
    }
    std::process::ExitCode::SUCCESS
}

fn serve(socket: &OwnedFd, children: &mut Vec<Pid>) {
    let mut shared = Shared::default();
    while let Ok(Some((message, fds))) = receive::<ToForkServer>(socket, MsgFlags::empty()) {
        let mut attached = None;
        let answer = match message {
            ToForkServer::Prepare { hosts, link, hidden, processes } => {
                limit_processes(processes);
                prepare(&hosts, link, &hidden).map(|(made, ports)| {
                    (shared, attached) = (made, ports);
                    FromForkServer::Ready
                })
            }
            ToForkServer::Spawn { slot, own_users } => match fds.into_iter().next() {
                Some(control) => spawn(socket, control, &shared, slot, own_users).map(|pid| {
                    children.push(pid);
                    FromForkServer::Spawned(pid.as_raw())
                }),
                None => Err(Failure::of("take over an init's socket", Errno::EBADF)),
            },
            ToForkServer::Discard { pids, numbers } => {
                // Only in the lab's own namespace: elsewhere the interfaces are the host's.
                discard(children, &pids, shared.wire.as_ref().map_or(0..0, |_| numbers));
                Ok(FromForkServer::Ready)
            }
            // Nodes have the same file mounted over their own.
            ToForkServer::Hosts { hosts } => {
                write_hosts(Path::new(HOSTS), &hosts).map(|()| FromForkServer::Ready)
            }
        };
        let answer = answer.unwrap_or_else(FromForkServer::Failed);
        let attached: Vec<_> = attached.iter().map(AsRawFd::as_raw_fd).collect();
        if send(socket, &answer, &attached).is_err() {
            return;
        }
    }
}

/// Ends inits that are no longer needed, and removes their interfaces here.
fn discard(children: &mut Vec<Pid>, pids: &[i32], numbers: Range<u32>) {
    for pid in pids.iter().map(|pid| Pid::from_raw(*pid)) {
        if let Some(place) = children.iter().position(|child| *child == pid) {
            // Forgotten first: its number may be reused after it is reaped.
            children.swap_remove(place);
            let _ = kill(pid, Signal::SIGKILL);
            while waitpid(pid, None) == Err(Errno::EINTR) {}
        }
    }
    // Interfaces that were never created, and TAPs, do not exist here.
    for number in numbers {
        let _ = netlink::remove(number);
    }
}

/// Creates the mount namespace that all nodes copy: private, with the lab's hosts file mounted over
/// the host's and the folders `hidden` empty. If BPF programs are attached to veth pairs, also
/// returns a socket for that.
fn prepare(
    hosts: &str,
    link: Link,
    hidden: &[PathBuf],
) -> Result<(Shared, Option<OwnedFd>), Failure> {
    if !geteuid().is_root() {
        user_namespace()?;
    }
    let tried = |what: &str| {
        let what = what.to_owned();
        move |errno| Failure::of(what, errno)
    };
    unshare(CloneFlags::CLONE_NEWNS).map_err(tried("make a mount namespace"))?;
    let none: Option<&str> = None;
    // Recursively private: mounts of nodes must not appear on the host, nor the host's later mounts
    // in nodes.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(tried("make mounts private"))?;
    // The file is on a tmpfs that only this process sees for a moment, so that nothing is written
    // to the host's disk.
    mount(Some("hosts"), "/tmp", Some("tmpfs"), MsFlags::empty(), Some("mode=755,size=16m"))
        .map_err(tried("mount a tmpfs"))?;
    let file = Path::new("/tmp/hosts");
    write_hosts(file, hosts)?;
    // Before the bind mount, which needs an existing file.
    etc::ensure(HOSTS)?;
    mount(Some(file), HOSTS, none, MsFlags::MS_BIND, none)
        .map_err(tried("bind the lab's hosts file over /etc/hosts"))?;
    // Detached, and not removed: the bind mount keeps the file alive.
    umount2("/tmp", MntFlags::MNT_DETACH).map_err(tried("detach the tmpfs"))?;
    for dir in hidden.iter().filter(|dir| dir.is_dir()) {
        let empty = mount(Some("hidden"), dir, Some("tmpfs"), MsFlags::MS_RDONLY, none);
        empty.map_err(|errno| Failure::of(format!("hide {}", dir.display()), errno))?;
    }
    let mounted = sysfs::mounted();
    if link == Link::Tap {
        return Ok((Shared { wire: None, mounted }, None));
    }
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(tried("create a network namespace for Thingbed's ends"))?;
    let wire = std::fs::File::open("/proc/self/ns/net").map_err(|error| {
        let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
        Failure::of("open the network namespace of Thingbed's ends", errno)
    })?;
    let ports = match link {
        Link::Bpf => {
            let socket = netlink::Socket::open(libc::NETLINK_ROUTE)
                .map_err(tried("open a socket to the network configuration"))?;
            Some(socket.into_fd())
        }
        _ => None,
    };
    Ok((Shared { wire: Some(wire.into()), mounted }, ports))
}

fn write_hosts(file: &Path, hosts: &str) -> Result<(), Failure> {
    std::fs::write(file, hosts).map_err(|error| {
        let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
        Failure::of("write the hosts file", errno)
    })
}

/// Limits the processes of all nodes together, where no group may limit those of each: the kernel
/// counts them for the user in its user namespace, and those of the host's root not at all
/// (getrlimit(2)).
fn limit_processes(most: u64) {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NPROC) {
        let most = most.min(hard);
        let _ = setrlimit(Resource::RLIMIT_NPROC, most, most);
    }
}

/// Becomes root of a new user namespace.
fn user_namespace() -> Result<(), Failure> {
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER)
        .map_err(|errno| Failure::of("make a user namespace", errno))?;
    let write = |file: &str, text: String| {
        std::fs::write(file, text).map_err(|error| {
            let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
            Failure::of(format!("write {file}"), errno)
        })
    };
    // An unprivileged group map requires that setgroups is denied (user_namespaces(7)).
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("0 {user} 1"))?;
    write("/proc/self/gid_map", format!("0 {group} 1"))
}

/// How many nodes the numbers of labs whose fork servers started after each other are apart.
const SLOTS_OF_LAB: u32 = 127;

/// Clones an init into new namespaces, without those that belong to users of the node.
fn spawn(
    socket: &OwnedFd,
    control: OwnedFd,
    shared: &Shared,
    slot: u32,
    own_users: bool,
) -> Result<Pid, Failure> {
    let owned = if own_users { 0 } else { users::OWNED.bits() };
    let namespaces = libc::CLONE_NEWNS | libc::CLONE_NEWPID | owned;
    // SAFETY: an all-zero clone_args is valid.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    // Other labs at the same time begin elsewhere.
    let slot = slot.wrapping_add(std::process::id().wrapping_mul(SLOTS_OF_LAB));
    args.flags = namespaces as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    let size = std::mem::size_of::<libc::clone_args>();
    // SAFETY: without CLONE_VM this is a fork, and the process has one thread, so the child may
    // continue in Rust. The arguments live over the call.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size) };
    let pid = Errno::result(pid)
        .map_err(|errno| Failure::of("clone a process into new namespaces", errno))?;
    if pid == 0 {
        // SAFETY: the child's own copy of a descriptor that it does not need.
        // Else an init would keep the fork server's socket open, and its end of file would not
        // come.
        unsafe { libc::close(socket.as_raw_fd()) };
        init::init(&control, shared, slot);
    }
    Ok(Pid::from_raw(pid as i32))
}
