//! A node of a lab: what all kinds of nodes have in common, and the kind itself.

use crate::cgroup::OutOfMemory;
use crate::error::Error;
use crate::failure::Failure;
use crate::netem::{Netem, Passed};
use crate::wire::{Direction, Exit, FromInit, ToInit, Usage, pair, receive, send};
use nix::sys::socket::{MsgFlags, Shutdown, shutdown};
use std::fmt::Debug;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Neighbours in one message to an init, of 60 B or less each.
const NEIGHBOURS: usize = 500;

/// The configuration of a program.
#[derive(Debug)]
pub struct Program {
    /// Its name or path, and its arguments.
    pub argv: Vec<String>,
    /// Environment variables in addition to those that all programs have, see
    /// [`crate::clean_environment`].
    pub env: Vec<(String, String)>,
    /// Working directory. On a node with a separate root, a program without `control` starts in the
    /// root's directory.
    pub cwd: String,
    /// Where its standard output goes.
    pub stdout: OwnedFd,
    /// Where its standard error goes.
    pub stderr: OwnedFd,
    /// A socket that it gets as descriptor 3 and in `THINGBED_CONTROL_FD`. Programs with one belong
    /// to the tool and see the host's files on every node.
    pub control: Option<OwnedFd>,
}

/// An event in a node. `id` is the one passed to [`NodeKind::run`].
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
        /// The cause.
        failure: Failure,
    },
    /// A program has ended.
    Ended {
        /// The program.
        id: u64,
        /// Its exit status or signal.
        exit: Exit,
        /// Its resource usage.
        usage: Usage,
    },
    /// A node's init has ended, and with it all of the node.
    NodeGone {
        /// The node's index.
        node: usize,
    },
}

/// What each kind of node does in its own way. Its events arrive at the lab.
pub trait NodeKind: Debug + Send {
    /// The process that the node consists of, with its children, in the host's numbering: its
    /// namespaces and resource usage are the node's.
    fn pid(&self) -> i32;

    /// Starts a program; its events have this `id`, which the caller chooses and uses only once.
    ///
    /// # Errors
    /// When the node is gone.
    fn run(&self, id: u64, program: Program) -> Result<(), Error>;

    /// Sends `signal` to a program and its process group; ignored if it has ended.
    fn signal(&self, id: u64, signal: i32);

    /// Sends `signal` to every process of the node except its first.
    fn signal_all(&self, signal: i32);

    /// Replaces the node's own hosts file, if it does not see the lab's.
    fn set_hosts(&self, hosts: &str);

    /// Impairs one direction of a link with netem; `interface` is its index among the node's.
    ///
    /// # Errors
    /// When the kernel has no netem, or refuses the configuration.
    fn impair(&self, interface: usize, way: Direction, netem: &Netem) -> Result<(), Error>;

    /// Netem's counters of that link direction.
    ///
    /// # Errors
    /// When the kernel does not return them, or the link was not impaired.
    fn passed(&self, interface: usize, way: Direction) -> Result<Passed, Error>;

    /// Changes the host name of its programs.
    ///
    /// # Errors
    /// When the node is gone, or the name is too long.
    fn set_host_name(&self, name: &str) -> Result<(), Error>;

    /// Changes the MTU of an interface, in bytes.
    ///
    /// # Errors
    /// When the node is gone or has no such interface, or the interface does not support this MTU.
    fn set_mtu(&self, interface: &str, bytes: u32) -> Result<(), Error>;

    /// Adds permanent neighbours of an interface, or replaces those with the same addresses.
    ///
    /// # Errors
    /// When the node is gone or has no such interface, or the kernel's table is full.
    fn add_neighbours(
        &self,
        interface: &str,
        neighbours: &[(IpAddr, [u8; 6])],
    ) -> Result<(), Error>;

    /// Ends the node and all its processes.
    fn release(&self);
}

/// A node of a lab.
#[derive(Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What depends on its kind.
    pub kind: Box<dyn NodeKind>,
    /// Whether it was destroyed or has ended otherwise.
    pub is_gone: bool,
    /// Whether its CPU time was ever limited.
    pub(crate) limited: Arc<AtomicBool>,
    /// Number of reported kills for lack of memory.
    pub(crate) memory_kills: u64,
}

impl Node {
    /// A node without limits.
    pub fn new(name: String, kind: Box<dyn NodeKind>) -> Self {
        Self { name, kind, is_gone: false, limited: Arc::default(), memory_kills: 0 }
    }

    /// Ends the node and all its processes.
    pub fn destroy(&mut self) {
        self.is_gone = true;
        self.kind.release();
    }

    /// Why one of its processes was killed, if the kernel reports more `kills` for lack of memory
    /// than before.
    pub(crate) fn out_of_memory(&mut self, kills: u64, limit: Option<u64>) -> Option<OutOfMemory> {
        let before = std::mem::replace(&mut self.memory_kills, kills);
        (kills > before).then_some(OutOfMemory { limit })
    }
}

/// A node in separate namespaces of this kernel, with an init as its first process.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub name: String,
    pub pid: i32,
    /// The init's control socket, which the lab's thread reads.
    pub socket: Arc<OwnedFd>,
    /// If it has a separate root, the mount namespace with the host's files. The init holds no
    /// descriptor of it, which programs in the node could look for.
    pub host: Option<Arc<OwnedFd>>,
}

impl Namespace {
    /// Sends a request to the init and waits for its reply on a separate socket; other events of
    /// the node are not affected.
    fn ask(&self, message: &ToInit) -> Result<FromInit, Error> {
        let gone = || Error::Gone { who: format!("the init of {}", self.name) };
        let (ours, theirs) = pair().map_err(Error::io("create a socket for an answer"))?;
        send(&self.socket, message, &[theirs.as_raw_fd()])
            .map_err(Error::io("send to the init of a node"))?;
        // The init has a copy. Without this the end of the init would not be an end of file here.
        drop(theirs);
        let answer = receive(&ours, MsgFlags::empty());
        match answer.map_err(Error::io("receive from the init of a node"))?.ok_or_else(gone)? {
            (FromInit::Failed(failure), _) => Err(Error::Change(failure)),
            (answer, _) => Ok(answer),
        }
    }
}

impl NodeKind for Namespace {
    fn pid(&self) -> i32 {
        self.pid
    }

    fn run(&self, id: u64, program: Program) -> Result<(), Error> {
        let Program { argv, env, cwd, stdout, stderr, control } = program;
        let run = ToInit::Run { id, argv, env, cwd, control: control.is_some() };
        let mut fds = vec![stdout.as_raw_fd(), stderr.as_raw_fd()];
        if let Some(control) = &control {
            fds.push(control.as_raw_fd());
            fds.extend(self.host.as_ref().map(|host| host.as_raw_fd()));
        }
        send(&self.socket, &run, &fds).map_err(Error::io("start a program in a node"))
    }

    fn signal(&self, id: u64, signal: i32) {
        let _ = send(&self.socket, &ToInit::Signal { id, signal }, &[]);
    }

    fn signal_all(&self, signal: i32) {
        let _ = send(&self.socket, &ToInit::SignalAll { signal }, &[]);
    }

    fn set_hosts(&self, hosts: &str) {
        if self.host.is_some() {
            // A node that has just ended needs none.
            let _ = send(&self.socket, &ToInit::Hosts { hosts: hosts.to_owned() }, &[]);
        }
    }

    /// The lab's links must be [`crate::Link::Veth`], because frames to a node have no queue at a
    /// TAP. Packet sockets bypass netem while their PACKET_QDISC_BYPASS is on.
    fn impair(&self, interface: usize, way: Direction, netem: &Netem) -> Result<(), Error> {
        let netem = Box::new(netem.clone());
        self.ask(&ToInit::Impair { interface, way, netem }).map(drop)
    }

    fn passed(&self, interface: usize, way: Direction) -> Result<Passed, Error> {
        match self.ask(&ToInit::Passed { interface, way })? {
            FromInit::Passed(passed) => Ok(passed),
            _ => Err(Error::Gone { who: "the init that reads netem's counters".to_owned() }),
        }
    }

    fn set_host_name(&self, name: &str) -> Result<(), Error> {
        self.ask(&ToInit::HostName { name: name.to_owned() }).map(drop)
    }

    fn set_mtu(&self, interface: &str, bytes: u32) -> Result<(), Error> {
        self.ask(&ToInit::Mtu { interface: interface.to_owned(), bytes }).map(drop)
    }

    fn add_neighbours(
        &self,
        interface: &str,
        neighbours: &[(IpAddr, [u8; 6])],
    ) -> Result<(), Error> {
        // A message has a maximum size.
        neighbours.chunks(NEIGHBOURS).try_for_each(|some| {
            let (interface, neighbours) = (interface.to_owned(), some.to_vec());
            self.ask(&ToInit::Neighbours { interface, neighbours }).map(drop)
        })
    }

    fn release(&self) {
        // Shut down and not only closed: the lab's reader has the same socket, and its poll must
        // return.
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
    }
}
