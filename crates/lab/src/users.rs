//! The user namespace of a node with a separate root (user_namespaces(7)): its root is an
//! unprivileged user of the host.
//!
//! The node's init stays outside, in the namespace of its parent, and only programs enter: no
//! process in the namespace has a capability over one outside, whatever its user.

mod ids;

pub(crate) use ids::Ids;

use crate::emulator::Emulator;
use crate::failure::Failure;
use crate::mount_tree::owned_by;
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe, read, write};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

/// The namespaces that belong to the node's user namespace, so that its root configures them.
pub(crate) const OWNED: CloneFlags =
    CloneFlags::CLONE_NEWNET.union(CloneFlags::CLONE_NEWUTS).union(CloneFlags::CLONE_NEWIPC);

/// The users of a node.
#[derive(Debug)]
pub(crate) struct Users {
    namespace: OwnedFd,
    /// Which users of the init's namespace they are.
    pub ids: Ids,
    /// Keeps the list of formats with the emulator of its programs.
    _formats: Option<File>,
}

/// The step that lets a node run programs of another architecture.
pub(crate) const RUN_FOREIGN: &str = "run programs of another architecture";

/// What a node with its own users has.
#[derive(Debug, Default)]
pub(crate) struct Separate {
    pub users: Option<Users>,
    /// The folder of the root with its files owned by them, if they are other ones than the host's.
    pub lower: Option<OwnedFd>,
    /// Why the node has no separate emulator, if it needs one.
    pub no_emulator: Option<Failure>,
}

impl Users {
    /// Creates the namespace and those that belong to it, and enters the latter. `lower` is the
    /// folder of the root, and `emulator` runs its programs.
    ///
    /// # Errors
    /// When this machine cannot: a kernel without user namespaces, or a file system whose owners
    /// cannot be mapped. Then nothing has changed.
    pub fn create(
        ids: Ids,
        lower: &OwnedFd,
        emulator: Option<&Emulator>,
    ) -> Result<Separate, Failure> {
        let failed = |errno| Failure::of("create a process for a user namespace", errno);
        let ((report, reporter), (go, approval)) =
            (pipe().map_err(failed)?, pipe().map_err(failed)?);
        // SAFETY: this process has one thread, so the child may continue in Rust.
        match unsafe { fork() }.map_err(failed)? {
            ForkResult::Child => {
                drop((report, approval));
                first_process(&reporter, &go, emulator)
            }
            ForkResult::Parent { child } => {
                drop((reporter, go));
                let made = Family { child, report, approval }.take(ids, lower, emulator);
                let _ = kill(child, Signal::SIGKILL);
                while waitpid(child, None) == Err(Errno::EINTR) {}
                made
            }
        }
    }

    /// What [`become_root`] needs, for as long as this lives.
    pub fn entrance(&self) -> RawFd {
        self.namespace.as_raw_fd()
    }
}

/// Enters the user namespace `users`, and becomes its root if that is another user. For a process
/// between fork and exec: only system calls.
pub(crate) fn become_root(users: RawFd) -> io::Result<()> {
    // SAFETY: plain system calls; an empty list of groups needs no memory.
    unsafe {
        if libc::setns(users, libc::CLONE_NEWUSER) < 0 {
            return Err(io::Error::last_os_error());
        }
        // A user that the namespace does not have is shown as another number.
        if libc::geteuid() != 0
            // The same order as for any change of a user: groups, group, user.
            && (libc::setgroups(0, std::ptr::null()) < 0
                || libc::setresgid(0, 0, 0) < 0
                || libc::setresuid(0, 0, 0) < 0)
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The first process of the namespace: creates the others when its users are known, and waits for
/// its end. Each step is reported by its error number, 0 for none.
fn first_process(reporter: &OwnedFd, go: &OwnedFd, emulator: Option<&Emulator>) -> ! {
    let report = |done: Result<(), Errno>| {
        let errno = done.err().map_or(0, |errno| errno as i32);
        let _ = write(reporter, &errno.to_ne_bytes());
    };
    report(unshare(CloneFlags::CLONE_NEWUSER));
    let mut word = [0];
    if read(go, &mut word) == Ok(1) {
        report(unshare(OWNED));
        if let Some(emulator) = emulator {
            report(emulator.register());
        }
        // The end of file comes when the init has what it needs, or has ended.
        let _ = read(go, &mut word);
    }
    // SAFETY: ends the process at once; no destructor may run on the init's data that was copied.
    unsafe { libc::_exit(0) }
}

/// The first process of the namespace, and the pipes from and to it.
struct Family {
    child: Pid,
    report: OwnedFd,
    approval: OwnedFd,
}

impl Family {
    /// Waits for a step of the process.
    fn step(&self, tried: &str) -> Result<(), Failure> {
        let mut errno = [0; 4];
        match read(&self.report, &mut errno) {
            Ok(4) if errno == [0; 4] => Ok(()),
            Ok(4) => Err(Failure::of(tried, Errno::from_raw(i32::from_ne_bytes(errno)))),
            _ => Err(Failure::of(tried, Errno::EIO)),
        }
    }

    fn open(&self, kind: &str) -> Result<OwnedFd, Failure> {
        let file = File::open(format!("/proc/{}/ns/{kind}", self.child));
        file.map(OwnedFd::from).map_err(io(format!("open the namespace {kind} of a node")))
    }

    fn take(
        &self,
        ids: Ids,
        lower: &OwnedFd,
        emulator: Option<&Emulator>,
    ) -> Result<Separate, Failure> {
        // In step with the child: it creates the namespace, this process writes the maps, and then the
        // child, as its root, creates the others.
        self.step("create a user namespace")?;
        for (map, text) in [("uid_map", ids.user_map()), ("gid_map", ids.group_map())] {
            fs::write(format!("/proc/{}/{map}", self.child), text)
                .map_err(io("set the users of a node"))?;
        }
        let namespace = self.open("user")?;
        let lower = match ids.is_shifted() {
            true => Some(owned_by(lower, namespace.as_fd()).map_err(|errno| {
                Failure::of("show the files of the root to the users of a node", errno)
            })?),
            false => None,
        };
        let tried = "create the namespaces of a node";
        write(&self.approval, &[1]).map_err(|errno| Failure::of(tried, errno))?;
        self.step(tried)?;
        let formats = emulator.map(|emulator| self.formats(emulator)).transpose();
        // All are open before the first is entered, so that a failure changes nothing.
        for owned in [self.open("net")?, self.open("uts")?, self.open("ipc")?] {
            setns(owned, CloneFlags::empty()).map_err(|errno| Failure::of(tried, errno))?;
        }
        let no_emulator = formats.as_ref().err().cloned();
        let users = Users { namespace, ids, _formats: formats.unwrap_or_default() };
        Ok(Separate { users: Some(users), lower, no_emulator })
    }

    /// The list of formats of the namespace, which the kernel keeps while it is open.
    fn formats(&self, emulator: &Emulator) -> Result<File, Failure> {
        let tried = format!("{RUN_FOREIGN} ({})", emulator.architecture);
        self.step(&tried)?;
        let list = Emulator::list(self.child.as_raw());
        let opened = File::options().read(true).custom_flags(libc::O_PATH).open(list);
        opened.map_err(io(tried))
    }
}

fn io(tried: impl Into<String>) -> impl FnOnce(io::Error) -> Failure {
    let tried = tried.into();
    move |error| Failure::of(tried, Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
}

/// Whether root is the machine's root and not that of a user namespace.
pub(crate) fn is_host_root() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}
