//! Entering a node from outside, to run a program in it.

use crate::cgroup;
use crate::error::Error;
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::io;

/// A kind of namespace: its name in `/proc/PID/ns`, and its flag.
type Kind = (&'static str, CloneFlags);

const USER: Kind = ("user", CloneFlags::CLONE_NEWUSER);
const NET: Kind = ("net", CloneFlags::CLONE_NEWNET);
const UTS: Kind = ("uts", CloneFlags::CLONE_NEWUTS);
const IPC: Kind = ("ipc", CloneFlags::CLONE_NEWIPC);
const PID: Kind = ("pid", CloneFlags::CLONE_NEWPID);
const FILES: Kind = ("mnt", CloneFlags::CLONE_NEWNS);

/// Moves this process into the namespaces of the node with this init, and under
/// its limits: what it starts from then on is in the node, and goes with it. The
/// process itself stays in its own PID namespace. It must have one thread.
///
/// # Errors
/// When the node is gone, or another user's.
pub fn enter(init: i32) -> Result<(), Error> {
    cgroup::join(init).map_err(failed(init))?;
    into(init, &[USER, NET, UTS, IPC, PID, FILES])
}

/// Moves this process into the file system of the node with this init, and nothing
/// else. It must have one thread.
///
/// # Errors
/// When the node is gone, or another user's.
pub fn enter_files(init: i32) -> Result<(), Error> {
    into(init, &[USER, FILES])
}

/// Gives the node with this init another host name.
///
/// # Errors
/// When the node is gone, another user's, or the name too long.
pub fn set_host_name(init: i32, name: &str) -> Result<(), Error> {
    within(init, &[USER, UTS], || Ok(nix::unistd::sethostname(name)?))
}

/// Gives an interface of the node with this init another MTU, in bytes.
///
/// # Errors
/// When the node is gone, another user's, has no such interface, or it bears no
/// such MTU.
pub fn set_mtu(init: i32, interface: &str, mtu: u32) -> Result<(), Error> {
    within(init, &[USER, NET], || crate::interface::change_mtu(interface, mtu))
}

/// Does something within namespaces of a node, on a thread of its own: it enters
/// them, and this one does not.
fn within(
    init: i32,
    kinds: &'static [Kind],
    what: impl FnOnce() -> io::Result<()> + Send,
) -> Result<(), Error> {
    let work = || {
        into(init, kinds)?;
        what().map_err(failed(init))
    };
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|_| Err(failed(init)(io::Error::other("its thread panicked"))))
}

fn into(init: i32, kinds: &[Kind]) -> Result<(), Error> {
    let mut doors = Vec::new();
    // All are opened first: names are looked up in the host's /proc.
    for (kind, flag) in kinds {
        let path = format!("/proc/{init}/ns/{kind}");
        let theirs = std::fs::read_link(&path).map_err(failed(init))?;
        let ours = std::fs::read_link(format!("/proc/thread-self/ns/{kind}"));
        // Entering the user namespace that one is in already is refused.
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
