//! The lab itself: nodes brought up, programs run in them, all of it taken down.

use crate::cgroup::{Groups, Limits};
use crate::error::Error;
use crate::ledger::Page;
use crate::nursery::{CONTROL, NURSERY};
use crate::wire::{
    Exit, Failure, FromInit, FromNursery, Link, NodeSpec, ToInit, ToNursery, Usage, pair, receive,
    send,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{MsgFlags, Shutdown, shutdown};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A node to be.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its name and interfaces.
    pub spec: NodeSpec,
    /// What it may use.
    pub limits: Limits,
}

/// A program to be run in a node.
#[derive(Debug)]
pub struct Program {
    /// Its name or path, and its arguments.
    pub argv: Vec<String>,
    /// Variables beside those of the tool.
    pub env: Vec<(String, String)>,
    /// The folder that it starts in. On a node with a root of its own, a program
    /// without `control` starts where that root says.
    pub cwd: String,
    /// Where its standard output goes.
    pub stdout: OwnedFd,
    /// Where its standard error goes.
    pub stderr: OwnedFd,
    /// A socket that it finds as descriptor 3 and in `THINGBED_CONTROL_FD`. Who has
    /// one is a program of the tool's own, and sees the host's files on every node.
    pub control: Option<OwnedFd>,
}

/// What happened in a node. `id` is what [`Lab::run`] was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A program has started.
    Started {
        /// The program.
        id: u64,
    },
    /// A program could not be started.
    NotStarted {
        /// The program.
        id: u64,
        /// Why.
        failure: Failure,
    },
    /// A program has ended.
    Ended {
        /// The program.
        id: u64,
        /// How.
        exit: Exit,
        /// What it used.
        usage: Usage,
    },
    /// A node's init is gone, and with it all of the node.
    NodeGone {
        /// The node's index.
        node: usize,
    },
}

/// The number (ifindex) of the first node's first interface; those of all others
/// follow in order. Beyond what the kernel gives to interfaces that come by
/// themselves, such as `lo` and `tunl0`.
pub const FIRST_INTERFACE: u32 = 1_000;

/// Descriptors that the tool needs beside two a node: its own files, and a
/// program's output and control socket on their way.
const SPARE_FILES: u64 = 256;

/// A lab that is up. Dropping it takes it down.
#[derive(Debug)]
pub struct Lab {
    pub(crate) sockets: Arc<Vec<OwnedFd>>,
    pids: Vec<i32>,
    pub(crate) names: Vec<String>,
    /// Nodes that were destroyed.
    gone: Vec<bool>,
    events: Receiver<Event>,
    reader: Option<JoinHandle<()>>,
    nursery: Child,
    control: Option<OwnedFd>,
    groups: Option<(Groups, Page)>,
}

impl Lab {
    /// Brings all members up, and gives what `link` says of each, in the order of its
    /// interfaces. `tool` is a program whose `main` calls [`crate::nursery()`]
    /// when its first argument is [`NURSERY`]. `hosts` is the text of the hosts
    /// file that all nodes see.
    ///
    /// # Errors
    /// What could not be had; nothing of the lab is left then.
    pub fn up(
        tool: &Path,
        members: &[Member],
        hosts: &str,
        link: Link,
    ) -> Result<(Self, Vec<Vec<OwnedFd>>), Error> {
        raise_files(members.len())?;
        let mut groups = limits(members)?;
        let (nursery, control) = nursery(tool)?;
        // From here on the nursery ends when `control` is closed, by any return.
        let (_events, events) = channel();
        let mut lab = Self {
            sockets: Arc::new(Vec::new()),
            pids: Vec::with_capacity(members.len()),
            gone: vec![false; members.len()],
            names: members.iter().map(|member| member.spec.name.clone()).collect(),
            events,
            reader: None,
            nursery,
            control: Some(control),
            groups: None,
        };
        lab.ask(&ToNursery::Prepare { hosts: hosts.to_owned(), link }, &[])?;
        let mut sockets = Vec::with_capacity(members.len());
        let mut first = FIRST_INTERFACE;
        for member in members {
            let (ours, theirs) = pair().map_err(Error::io("make a node's socket"))?;
            let pid = match lab.ask(&ToNursery::Spawn, &[theirs.as_raw_fd()])? {
                FromNursery::Spawned(pid) => pid,
                _ => return Err(Error::Gone { who: "the nursery".to_owned() }),
            };
            lab.pids.push(pid);
            if let Some((groups, _)) = groups.as_mut().filter(|_| !member.limits.is_none()) {
                let limited = groups.limit(&member.spec.name, &[pid], &member.limits);
                limited.map_err(|why| no_limits(&member.spec.name, why))?;
            }
            send(&ours, &ToInit::SetUp { spec: member.spec.clone(), first, link }, &[])
                .map_err(Error::io("tell an init what its node is"))?;
            first += member.spec.interfaces.len() as u32;
            sockets.push(ours);
        }
        let mut taps = Vec::with_capacity(members.len());
        for (socket, member) in sockets.iter().zip(members) {
            taps.push(await_up(socket, &member.spec.name)?);
        }
        lab.groups = groups;
        lab.sockets = Arc::new(sockets);
        let (sender, events) = channel();
        lab.events = events;
        let shared = lab.sockets.clone();
        let reader = std::thread::Builder::new().name("lab".into());
        let reader = reader.spawn(move || read(&shared, &sender));
        lab.reader = Some(reader.map_err(Error::io("start the lab's thread"))?);
        Ok((lab, taps))
    }

    /// The inits' process ids, as seen from here, in the order of the members.
    pub fn pids(&self) -> &[i32] {
        &self.pids
    }

    /// What has happened in nodes, in order within each.
    pub fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// Starts a program in a node; what becomes of it comes as events with this
    /// `id`, which is the caller's and used once.
    ///
    /// # Errors
    /// When the node is gone.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn run(&self, node: usize, id: u64, program: Program) -> Result<(), Error> {
        let Program { argv, env, cwd, stdout, stderr, control } = program;
        let run = ToInit::Run { id, argv, env, cwd, control: control.is_some() };
        let mut fds = vec![stdout.as_raw_fd(), stderr.as_raw_fd()];
        fds.extend(control.as_ref().map(AsRawFd::as_raw_fd));
        send(&self.sockets[node], &run, &fds).map_err(Error::io("start a program in a node"))
    }

    /// Sends `signal` to a program and all of its process group. One that has
    /// ended is left in peace.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn signal(&self, node: usize, id: u64, signal: i32) {
        let _ = send(&self.sockets[node], &ToInit::Signal { id, signal }, &[]);
    }

    /// Sends `signal` to every process of a node but its init.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn signal_all(&self, node: usize, signal: i32) {
        let _ = send(&self.sockets[node], &ToInit::SignalAll { signal }, &[]);
    }

    /// Puts other limits on a node and all that runs in it; what is none stays as
    /// it is.
    ///
    /// # Errors
    /// When this machine, or this user, cannot limit.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn limit(&mut self, node: usize, limits: &Limits) -> Result<(), Error> {
        let name = &self.names[node];
        if self.groups.is_none() {
            self.groups = Some(make_groups(name)?);
        }
        let Some((groups, _)) = &mut self.groups else { return Ok(()) };
        let pids = crate::usage::members(self.pids[node]);
        groups.limit(name, &pids, limits).map_err(|why| no_limits(name, why))
    }

    /// Ends a node, and with it all that runs in it.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn destroy(&mut self, node: usize) {
        self.gone[node] = true;
        let _ = shutdown(self.sockets[node].as_raw_fd(), Shutdown::Both);
    }

    /// Whether a node has not been destroyed.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn is_up(&self, node: usize) -> bool {
        !self.gone[node]
    }

    /// The index of the node called `name`.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|node| node == name)
    }

    /// Says something to the nursery and takes its answer.
    fn ask(&mut self, message: &ToNursery, fds: &[i32]) -> Result<FromNursery, Error> {
        let gone = || Error::Gone { who: "the nursery".to_owned() };
        let control = self.control.as_ref().ok_or_else(gone)?;
        send(control, message, fds).map_err(Error::io("speak to the nursery"))?;
        let answer = receive(control, MsgFlags::empty());
        match answer.map_err(Error::io("hear from the nursery"))? {
            Some((FromNursery::Failed(failure), _)) => Err(Error::Lab(failure)),
            Some((answer, _)) => Ok(answer),
            None => Err(gone()),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for socket in self.sockets.iter() {
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
        }
        drop(self.control.take());
        // The nursery ends when the last of its nodes has.
        let _ = self.nursery.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn nursery(tool: &Path) -> Result<(Child, OwnedFd), Error> {
    let (ours, theirs) = pair().map_err(Error::io("make the nursery's socket"))?;
    let mut command = Command::new(tool);
    command.arg(NURSERY).stdin(Stdio::null()).stdout(Stdio::null());
    // Out of the terminal's foreground group: Ctrl-C is for the tool alone.
    command.process_group(0);
    let fd = theirs.as_raw_fd();
    // SAFETY: between fork and exec, system calls alone. When it is the right
    // number already, only its flag is in the way.
    unsafe {
        command.pre_exec(move || {
            let kept = match fd == CONTROL {
                true => libc::fcntl(fd, libc::F_SETFD, 0),
                false => libc::dup2(fd, CONTROL),
            };
            if kept < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        });
    }
    let nursery = command.spawn();
    let nursery = nursery.map_err(|source| Error::Nursery { path: tool.to_owned(), source })?;
    Ok((nursery, ours))
}

fn await_up(socket: &OwnedFd, node: &str) -> Result<Vec<OwnedFd>, Error> {
    match receive(socket, MsgFlags::empty()).map_err(Error::io("hear from an init"))? {
        Some((FromInit::Up, taps)) => Ok(taps),
        Some((FromInit::Failed(failure), _)) => Err(Error::Node { node: node.to_owned(), failure }),
        Some(_) | None => Err(Error::Gone { who: format!("the init of {node}") }),
    }
}

/// Reads what inits say until all of them are gone.
fn read(sockets: &[OwnedFd], events: &Sender<Event>) {
    let mut alive: Vec<usize> = (0..sockets.len()).collect();
    while !alive.is_empty() {
        let mut ready: Vec<_> = alive
            .iter()
            .map(|node| PollFd::new(sockets[*node].as_fd(), PollFlags::POLLIN))
            .collect();
        if poll(&mut ready, PollTimeout::NONE).is_err() {
            continue;
        }
        let spoken: Vec<bool> = ready.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        let mut spoken = spoken.into_iter();
        alive.retain(|node| {
            if !spoken.next().unwrap_or(false) {
                return true;
            }
            let (event, alive) = match receive(&sockets[*node], MsgFlags::MSG_DONTWAIT) {
                Ok(Some((FromInit::Started { id }, _))) => (Some(Event::Started { id }), true),
                Ok(Some((FromInit::NotStarted { id, failure }, _))) => {
                    (Some(Event::NotStarted { id, failure }), true)
                }
                Ok(Some((FromInit::Ended { id, exit, usage }, _))) => {
                    (Some(Event::Ended { id, exit, usage }), true)
                }
                Ok(Some(_)) => (None, true),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => (None, true),
                Ok(None) | Err(_) => (Some(Event::NodeGone { node: *node }), false),
            };
            if let Some(event) = event {
                // Nobody listens any more while the lab is taken down.
                let _ = events.send(event);
            }
            alive
        });
    }
}

fn limits(members: &[Member]) -> Result<Option<(Groups, Page)>, Error> {
    let Some(first) = members.iter().find(|member| !member.limits.is_none()) else {
        return Ok(None);
    };
    make_groups(&first.spec.name).map(Some)
}

/// Groups for a lab, of which `first` is the first node to be limited.
fn make_groups(first: &str) -> Result<(Groups, Page), Error> {
    static LABS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let lab = LABS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("thingbed-{}-{lab}", std::process::id());
    let mut groups = Groups::find(&name).map_err(|why| no_limits(first, why))?;
    let page = Page::write(&name, groups.roots()).map_err(Error::io("write the ledger"))?;
    groups.begin().map_err(|why| no_limits(first, why))?;
    Ok((groups, page))
}

fn no_limits(node: &str, why: String) -> Error {
    let mend = match nix::unistd::geteuid().is_root() {
        true => "mount cgroup v2 with the controllers cpu and memory, or take `limits` out",
        false => {
            "run as root, or have a group delegated (systemd-run --user --scope -p Delegate=yes), \
             or take `limits` out of the experiment"
        }
    };
    Error::Limits { node: node.to_owned(), why, mend }
}

/// Two descriptors a node are needed, and the soft limit is made for less.
fn raise_files(nodes: usize) -> Result<(), Error> {
    let failed =
        |errno: nix::errno::Errno| Error::io("raise the limit on open files")(errno.into());
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    let needed = 4 * nodes as u64 + SPARE_FILES;
    if needed > hard {
        return Err(Error::Files { nodes, needed, limit: hard });
    }
    if needed > soft {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(failed)?;
    }
    Ok(())
}
