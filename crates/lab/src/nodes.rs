//! The lab: creates nodes, runs programs in them and removes them.

mod bring_up;

use crate::cgroup::{Groups, Limits, OutOfMemory, PROCESSES};
use crate::error::Error;
use crate::fork_server::{CONTROL, FORK_SERVER};
use crate::ledger::Page;
use crate::meter::Meter;
use crate::node::{Event, Node};
use crate::ports::Ports;
use crate::wire::{FromForkServer, Link, NodeSpec, ToForkServer, pair, receive, send};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::MsgFlags;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The configuration of a node.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its name and interfaces.
    pub spec: NodeSpec,
    /// Its resource limits.
    pub limits: Limits,
}

/// The ifindex of the first node's first interface; those of all others follow in order. Above the
/// numbers that the kernel gives to automatic interfaces such as `lo` and `tunl0`.
pub const FIRST_INTERFACE: u32 = 1_000;

/// Descriptors that the tool needs in addition to two per node: its own files, and the output and
/// control socket of a program that starts.
const SPARE_FILES: u64 = 256;
/// Processes that the nodes of a lab may have for each node, in addition to [`PROCESSES`].
const PROCESSES_EACH: u64 = 64;
/// Number of files that a meter keeps open for each node.
const METERED: u64 = 10;

/// A running lab. Dropping it removes it.
#[derive(Debug)]
pub struct Lab {
    nodes: Vec<Node>,
    events: Receiver<Event>,
    sender: Sender<Event>,
    /// One thread for each set of nodes that started together.
    readers: Vec<JoinHandle<()>>,
    link: Link,
    /// The attachment points of BPF programs, until [`Self::ports`] takes them.
    ports: Option<Ports>,
    /// The next ifindex.
    next: u32,
    fork_server: Child,
    control: Option<OwnedFd>,
    groups: Option<(Groups, Page)>,
    /// Why nodes are in no groups that count, if so.
    uncounted: Option<String>,
    /// Why a node with a separate root has no separate users, if so.
    same_users: Option<String>,
}

impl Lab {
    /// Starts all members and returns the descriptors of their interfaces, as `link` describes, in
    /// the order of the interfaces. `tool` is a program whose `main` calls [`crate::fork_server()`]
    /// when its first argument is [`FORK_SERVER`]. `hosts` is the text of the hosts file that all nodes
    /// see.
    ///
    /// # Errors
    /// The failed step; nothing of the lab is left then.
    pub fn up(
        tool: &Path,
        members: &[Member],
        hosts: &str,
        link: Link,
    ) -> Result<(Self, Vec<Vec<OwnedFd>>), Error> {
        raise_files(members.len())?;
        let limits = shares(members)?;
        let limited = members.iter().find(|member| !member.limits.is_none());
        let (groups, uncounted) = match (make_groups(), limited) {
            (Ok(groups), _) => (Some(groups), None),
            (Err(why), Some(limited)) => return Err(no_limits(&limited.spec.name, why)),
            (Err(why), None) => (None, Some(why)),
        };
        let (fork_server, control) = start_fork_server(tool)?;
        // From here on the fork server ends when `control` is closed, on any return.
        let (sender, events) = channel();
        let mut lab = Self {
            nodes: Vec::with_capacity(members.len()),
            events,
            sender,
            readers: Vec::new(),
            link,
            ports: None,
            next: FIRST_INTERFACE,
            fork_server,
            control: Some(control),
            groups,
            uncounted,
            same_users: None,
        };
        let must = limited.is_some();
        let hidden = crate::ledger::control_dirs();
        // Root of a node with its own users is an ordinary user to the kernel, which would count
        // against this limit; its group limits it.
        let grouped = nix::unistd::geteuid().is_root() && lab.groups.is_some();
        let processes = if grouped { u64::MAX } else { processes(members.len()) };
        let (_, attached) = lab.ask_for(
            &ToForkServer::Prepare { hosts: hosts.to_owned(), link, hidden, processes },
            &[],
        )?;
        lab.ports = attached.into_iter().next().map(Ports::new);
        let ends = lab.settle(members, &limits, must)?;
        Ok((lab, ends))
    }

    /// With [`Link::Bpf`], once: where a BPF program is attached to the nodes' interfaces.
    pub fn ports(&mut self) -> Option<Ports> {
        self.ports.take()
    }

    /// The nodes, in the order of the members.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The nodes, to destroy some.
    pub fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// The nodes' process ids in the host's numbering, in the order of the members.
    pub fn pids(&self) -> Vec<i32> {
        self.nodes.iter().map(|node| node.kind.pid()).collect()
    }

    /// The events of nodes, in order within each node.
    pub fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// Changes the limits of a node and all its processes; values that are `None` stay.
    ///
    /// # Errors
    /// When this machine or this user cannot limit.
    ///
    /// # Panics
    /// When the node does not exist.
    pub fn limit(&mut self, node: usize, limits: &Limits) -> Result<(), Error> {
        let node = &self.nodes[node];
        let name = &node.name;
        if self.groups.is_none() {
            self.groups = Some(make_groups().map_err(|why| no_limits(name, why))?);
        }
        let Some((groups, _)) = &mut self.groups else { return Ok(()) };
        let pids = crate::usage::members(node.kind.pid());
        groups.limit(name, &pids, limits).map_err(|why| no_limits(name, why))?;
        node.limited.store(true, Relaxed);
        Ok(())
    }

    /// A reader of the nodes' resource usage: from their control groups, or from `/proc` without
    /// them. It may be used on any thread and may outlive the lab.
    pub fn meter(&self) -> Meter {
        let pids = self.pids();
        let Some((groups, _)) = self.groups.as_ref().filter(|_| self.uncounted.is_none()) else {
            return Meter::of_processes(&pids);
        };
        let source = groups.source();
        let dirs = self.nodes.iter().map(|node| groups.dirs(&node.name)).collect();
        let limited: Vec<_> = self.nodes.iter().map(|node| node.limited.clone()).collect();
        Meter::of_groups(source, &pids, dirs, &limited)
    }

    /// Why [`Self::meter`] has no control groups to read, if so.
    pub fn uncounted(&self) -> Option<&str> {
        self.uncounted.as_deref()
    }

    /// Why the programs of a node with a separate root share the users of the host, if this machine
    /// cannot give them others.
    pub fn same_users(&self) -> Option<&str> {
        self.same_users.as_deref()
    }

    /// Whether a process of a node was killed for lack of memory since the last call. Unknown
    /// without control groups.
    ///
    /// # Panics
    /// When the node does not exist.
    pub fn out_of_memory(&mut self, node: usize) -> Option<OutOfMemory> {
        let (groups, _) = self.groups.as_ref()?;
        let node = &mut self.nodes[node];
        let limit = groups.memory_limit(&node.name);
        node.out_of_memory(groups.memory_kills(&node.name), limit)
    }

    /// Sends a request to the fork server and waits for its reply.
    fn ask(&mut self, message: &ToForkServer, fds: &[i32]) -> Result<FromForkServer, Error> {
        self.ask_for(message, fds).map(|(answer, _)| answer)
    }

    /// The same, with the descriptors attached to the reply.
    fn ask_for(
        &mut self,
        message: &ToForkServer,
        fds: &[i32],
    ) -> Result<(FromForkServer, Vec<OwnedFd>), Error> {
        let gone = || Error::Gone { who: "the fork server".to_owned() };
        let control = self.control.as_ref().ok_or_else(gone)?;
        send(control, message, fds).map_err(Error::io("send to the fork server"))?;
        let answer = receive(control, MsgFlags::empty());
        match answer.map_err(Error::io("receive from the fork server"))? {
            Some((FromForkServer::Failed(failure), _)) => Err(Error::Lab(failure)),
            Some(answer) => Ok(answer),
            None => Err(gone()),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // First the nodes, so that they end at the same time, then the fork server.
        self.nodes.iter().for_each(|node| node.kind.release());
        drop(self.control.take());
        // The fork server ends after the last of its nodes.
        let _ = self.fork_server.wait();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

fn start_fork_server(tool: &Path) -> Result<(Child, OwnedFd), Error> {
    let (ours, theirs) = pair().map_err(Error::io("create the fork server's socket"))?;
    let mut command = Command::new(tool);
    command.arg(FORK_SERVER).stdin(Stdio::null()).stdout(Stdio::null());
    // Outside the terminal's foreground group: Ctrl-C is for the tool only.
    command.process_group(0);
    // Nodes' programs can read the environment of the init.
    crate::boundary::clean_environment(&mut command);
    let fd = theirs.as_raw_fd();
    // SAFETY: only system calls between fork and exec. If the number is right already, only the
    // close-on-exec flag must be removed.
    unsafe {
        command.pre_exec(move || {
            let kept = match fd == CONTROL {
                true => libc::fcntl(fd, libc::F_SETFD, 0),
                false => libc::dup2(fd, CONTROL),
            };
            if kept < 0 {
                return Err(std::io::Error::last_os_error());
            }
            // All nodes would have what others have left open in this process.
            crate::boundary::close_from(CONTROL as u32 + 1)
        });
    }
    let child = command.spawn();
    let child = child.map_err(|source| Error::ForkServer { path: tool.to_owned(), source })?;
    Ok((child, ours))
}

/// The limits of all nodes. If some nodes reserve CPUs, the others share the rest: each node's
/// weight is its share.
fn shares(members: &[Member]) -> Result<Vec<Limits>, Error> {
    let mut limits: Vec<Limits> = members.iter().map(|member| member.limits).collect();
    let reserved: Vec<f64> = limits.iter().filter_map(|limits| limits.reserved_cpus).collect();
    let Some(first) = members.iter().find(|member| member.limits.reserved_cpus.is_some()) else {
        return Ok(limits);
    };
    let here = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    let (all, others) = (reserved.iter().sum::<f64>(), limits.len() - reserved.len());
    let left = here - all;
    if left < 0.0 || (left == 0.0 && others > 0) {
        let why = format!("the nodes reserve {all} CPUs in total, and this machine has {here}");
        let fix = "reserve fewer, and leave some for nodes without a reservation";
        return Err(Error::Limits { node: first.spec.name.clone(), why, fix });
    }
    for limits in limits.iter_mut().filter(|limits| limits.reserved_cpus.is_none()) {
        limits.reserved_cpus = Some(left / others as f64);
    }
    Ok(limits)
}

/// The number of processes that the nodes of a lab may have together, where not each is limited.
fn processes(nodes: usize) -> u64 {
    PROCESSES + PROCESSES_EACH * nodes as u64
}

/// The groups of a lab; creates only their parent folders.
fn make_groups() -> Result<(Groups, Page), String> {
    static LABS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    // A process may have several labs, one after the other or at once.
    let lab = LABS.fetch_add(1, Relaxed);
    let name = crate::ledger::name_of(lab);
    let mut groups = Groups::find(&name)?;
    let page = Page::write(&name, groups.roots());
    let page = page.map_err(|error| format!("write the ledger: {error}"))?;
    groups.begin()?;
    Ok((groups, page))
}

fn no_limits(node: &str, why: String) -> Error {
    let fix = match nix::unistd::geteuid().is_root() {
        true => {
            "mount cgroup v2 with the controllers cpu and memory, or remove `limits` and `reserve`"
        }
        false => {
            "run as root, or use a delegated cgroup (systemd-run --user --scope -p Delegate=yes), \
             or remove `limits` and `reserve` from the experiment"
        }
    };
    Error::Limits { node: node.to_owned(), why, fix }
}

/// Raises the soft limit on open files: two descriptors per node, the same number again during
/// start, and, if possible, more for a meter.
fn raise_files(nodes: usize) -> Result<(), Error> {
    let failed =
        |errno: nix::errno::Errno| Error::io("raise the limit on open files")(errno.into());
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    let needed = 4 * nodes as u64 + SPARE_FILES;
    if needed > hard {
        return Err(Error::Files { nodes, needed, limit: hard });
    }
    if needed + METERED * nodes as u64 > soft && soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(failed)?;
    }
    Ok(())
}
