//! Enters a node from outside, to run a program in it.

use crate::cgroup;
use crate::error::Error;
use crate::users;
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// A type of namespace: its name in `/proc/PID/ns`, and its flag.
type Kind = (&'static str, CloneFlags);

const USER: Kind = ("user", CloneFlags::CLONE_NEWUSER);
const NET: Kind = ("net", CloneFlags::CLONE_NEWNET);
const UTS: Kind = ("uts", CloneFlags::CLONE_NEWUTS);
const IPC: Kind = ("ipc", CloneFlags::CLONE_NEWIPC);
const PID: Kind = ("pid", CloneFlags::CLONE_NEWPID);
const GROUPS: Kind = ("cgroup", CloneFlags::CLONE_NEWCGROUP);
const FILES: Kind = ("mnt", CloneFlags::CLONE_NEWNS);

/// Moves this process into the namespaces of the node with this init, and under its limits: its
/// later children are in the node and end with it. The process itself keeps its PID namespace, and
/// becomes the node's root if the node has its own users. It must have one thread.
///
/// # Errors
/// When the node is gone or belongs to another user.
pub fn enter(init: i32) -> Result<(), Error> {
    // Before the mount namespace, in which the control groups may not be mounted; limits hold from
    // the first program on.
    cgroup::join(init).map_err(failed(init))?;
    let users = own_users(init)?;
    // The user namespace first: entering the others needs its capabilities (setns(2)).
    into(init, &[USER, NET, UTS, IPC, PID, GROUPS, FILES])?;
    become_root(init, users)
}

/// Moves this process into the file system of the node with this init only, as the node's root. It
/// must have one thread.
///
/// # Errors
/// When the node is gone or belongs to another user.
pub fn enter_files(init: i32) -> Result<(), Error> {
    let users = own_users(init)?;
    into(init, &[USER, FILES])?;
    become_root(init, users)
}

/// Moves this process into the network of the node with this init only. It must have one thread.
///
/// # Errors
/// When the node is gone or belongs to another user.
pub fn enter_network(init: i32) -> Result<(), Error> {
    into(init, &[USER, NET])
}

/// The user namespace of a node's programs, if it is not that of its init: the one that owns the
/// node's network namespace (ioctl_ns(2)).
fn own_users(init: i32) -> Result<Option<OwnedFd>, Error> {
    /// `NS_GET_USERNS` of `linux/nsfs.h`.
    const OWNER: libc::Ioctl = 0xb701;
    let of_init = fs::metadata(format!("/proc/{init}/ns/user")).map_err(failed(init))?;
    let network = File::open(format!("/proc/{init}/ns/net")).map_err(failed(init))?;
    // SAFETY: takes no argument; a valid descriptor is owned at once.
    let owner = unsafe {
        let fd = libc::ioctl(network.as_raw_fd(), OWNER);
        File::from(OwnedFd::from_raw_fd(Errno::result(fd).map_err(|e| failed(init)(e.into()))?))
    };
    if owner.metadata().map_err(failed(init))?.ino() == of_init.ino() {
        return Ok(None);
    }
    Ok(Some(owner.into()))
}

fn become_root(init: i32, users: Option<OwnedFd>) -> Result<(), Error> {
    let entered = users.map_or(Ok(()), |users| users::become_root(users.as_raw_fd()));
    entered.map_err(failed(init))
}

fn into(init: i32, kinds: &[Kind]) -> Result<(), Error> {
    let mut doors = Vec::new();
    // Opens all first, because names are looked up in the host's /proc.
    for (kind, flag) in kinds {
        let path = format!("/proc/{init}/ns/{kind}");
        let theirs = std::fs::read_link(&path).map_err(failed(init))?;
        let ours = std::fs::read_link(format!("/proc/thread-self/ns/{kind}"));
        // The kernel refuses to enter the user namespace that the process is already in.
        if theirs != ours.map_err(failed(init))? {
            doors.push((File::open(&path).map_err(failed(init))?, *flag));
        }
    }
    for (door, flag) in doors {
        setns(door, flag).map_err(|errno| failed(init)(errno.into()))?;
    }
    Ok(())
}

fn failed(init: i32) -> impl Fn(io::Error) -> Error {
    move |source| Error::Enter { init, source }
}
