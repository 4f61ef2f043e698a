//! Links that are looked at and changed while a run goes on.

use crate::topology::Topology;
use experiment::{Backend, Plan};
use medium::{Change, Impairment, Overlay, Place, Remote, Way, monotonic_now};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use units::Span;

/// What is wanted of a running lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// What is asked of links now; of all, or of one node's.
    Show {
        /// Whose; all if none.
        node: Option<String>,
    },
    /// Something else from now on.
    Set {
        /// Whose links.
        links: Links,
        /// The keys that change.
        set: Overlay,
        /// From now until the change is whole.
        over: Span,
    },
    /// Links that carry nothing, or carry again.
    Down {
        /// Whose links.
        links: Links,
        /// Whether they are down.
        down: bool,
    },
}

/// Links of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// The node.
    pub node: String,
    /// On this network alone.
    pub network: Option<String>,
    /// This way alone.
    pub way: Option<Way>,
}

/// What a lab answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Links, with what is asked of them now.
    Links(Vec<Shown>),
    /// Why not.
    Refused(String),
}

/// What is asked of a direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The node.
    pub node: String,
    /// The network.
    pub network: String,
    /// Which way.
    pub way: Way,
    /// What is asked.
    pub asked: Impairment,
}

/// A change that was made, for the run's record.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Made {
    #[serde(skip)]
    pub at_ns: u64,
    pub request: Request,
}

/// The door of a running lab: a socket without a file, which goes with the tool.
pub(crate) struct Door {
    stop: Arc<AtomicBool>,
    made: Arc<Mutex<Vec<Made>>>,
    thread: Option<JoinHandle<()>>,
}

/// The end of the socket's name is the tool's process.
const NAME: &str = "thingbed/";
const TURN_MS: u16 = 100;
const PATIENCE: Duration = Duration::from_secs(2);

impl Door {
    /// Opens it; nothing comes of a machine without such sockets.
    pub fn open(plan: &Plan, topology: &Topology, remote: Remote) -> io::Result<Self> {
        let name = format!("{NAME}{}", std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        let links: Vec<(String, String, usize, usize)> = topology
            .owners
            .iter()
            .enumerate()
            .flat_map(|(segment, owners)| {
                owners.iter().enumerate().map(move |(endpoint, node)| {
                    let network = plan.networks[segment].name.clone();
                    (plan.nodes[*node].name.clone(), network, segment, endpoint)
                })
            })
            .collect();
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let fixed = plan.networks.iter().map(|network| network.backend == Backend::Netem);
        let keeper = Keeper {
            links,
            fixed: fixed.collect(),
            planned: planned(plan, topology),
            remote,
            made: made.clone(),
        };
        let end = stop.clone();
        let work = move || {
            while !end.load(Relaxed) {
                let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
                let _ = poll(&mut fds, PollTimeout::from(TURN_MS));
                while let Ok((visitor, _)) = listener.accept() {
                    // Who goes away in the middle has not been served.
                    let _ = keeper.serve(&visitor);
                }
            }
        };
        let thread = std::thread::Builder::new().name("door".into()).spawn(work)?;
        Ok(Self { stop, made, thread: Some(thread) })
    }

    /// Closes it; what was changed through it.
    pub fn close(mut self) -> Vec<Made> {
        self.shut();
        std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn shut(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.shut();
    }
}

/// What is asked of links whose impairments are netem's.
fn planned(plan: &Plan, topology: &Topology) -> HashMap<(usize, usize), [Impairment; 2]> {
    let links = plan.nodes.iter().flat_map(|node| &node.links).zip(&topology.places);
    let by_netem = |place: &Place| plan.networks[place.segment].backend == Backend::Netem;
    links
        .filter(|(_, place)| by_netem(place))
        .map(|(link, place)| {
            ((place.segment, place.endpoint), [link.up.clone(), link.down.clone()])
        })
        .collect()
}

/// Directions by endpoint.
type Ways = Vec<(usize, Way)>;

/// Who answers at the door.
struct Keeper {
    /// Node, network, segment, endpoint.
    links: Vec<(String, String, usize, usize)>,
    /// By segment, whether its impairments are netem's and cannot change.
    fixed: Vec<bool>,
    /// What is asked of their links.
    planned: HashMap<(usize, usize), [Impairment; 2]>,
    remote: Remote,
    made: Arc<Mutex<Vec<Made>>>,
}

impl Keeper {
    fn serve(&self, visitor: &UnixStream) -> io::Result<()> {
        visitor.set_nonblocking(false)?;
        visitor.set_read_timeout(Some(PATIENCE))?;
        visitor.set_write_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        // No request is longer.
        let mut limited = io::Read::take(BufReader::new(visitor), 1 << 16);
        limited.read_line(&mut line)?;
        let reply = match self.may(visitor) {
            false => Reply::Refused("the lab is another user's".to_owned()),
            true => match serde_json::from_str(&line) {
                Ok(request) => self.answer(request).unwrap_or_else(Reply::Refused),
                Err(error) => Reply::Refused(format!("not understood: {error}")),
            },
        };
        let mut visitor = visitor;
        writeln!(visitor, "{}", serde_json::to_string(&reply).unwrap_or_default())
    }

    /// Such sockets have no owner: whoever is not the lab's may not come in.
    fn may(&self, visitor: &UnixStream) -> bool {
        let own = nix::unistd::geteuid().as_raw();
        getsockopt(visitor, sockopt::PeerCredentials).is_ok_and(|who| [0, own].contains(&who.uid()))
    }

    fn answer(&self, request: Request) -> Result<Reply, String> {
        let asked = || self.remote.asked().ok_or("the medium does not answer".to_owned());
        match &request {
            Request::Show { node } => {
                let all = asked()?;
                let own =
                    self.links.iter().filter(|link| node.as_ref().is_none_or(|n| link.0 == *n));
                let own: Vec<_> = own.collect();
                if let (true, Some(node)) = (own.is_empty(), node) {
                    return Err(self.unknown(node));
                }
                let both = |(name, network, segment, end): &(String, String, usize, usize)| {
                    [Way::Up, Way::Down].map(|way| Shown {
                        node: name.clone(),
                        network: network.clone(),
                        way,
                        asked: match self.planned.get(&(*segment, *end)) {
                            Some(ways) => ways[way as usize].clone(),
                            None => all[*segment][*end][way as usize].clone(),
                        },
                    })
                };
                return Ok(Reply::Links(own.into_iter().flat_map(both).collect()));
            }
            Request::Set { links, set, over } => {
                let before = asked()?;
                let found = self.find(links)?;
                if found.iter().any(|(segment, _)| self.fixed[*segment]) {
                    return Err(format!(
                        "`{}` is on a network with `backend: netem`, which cannot change while it \
                         runs; name another network, or take the links down and up",
                        links.node
                    ));
                }
                for (segment, ends) in found {
                    for (end, way) in &ends {
                        set.on(&before[segment][*end][*way as usize])?;
                    }
                    let (set, over) = (set.clone(), *over);
                    self.remote.change(segment, Change::Set { links: ends, set, over });
                }
            }
            Request::Down { links, down } => {
                for (segment, ends) in self.find(links)? {
                    self.remote.change(segment, Change::Down { links: ends, down: *down });
                }
            }
        }
        let node = match &request {
            Request::Set { links, .. } | Request::Down { links, .. } => links.node.clone(),
            Request::Show { .. } => String::new(),
        };
        let made = Made { at_ns: monotonic_now(), request };
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(made);
        self.answer(Request::Show { node: Some(node) })
    }

    /// The directions that are meant, by segment.
    fn find(&self, wanted: &Links) -> Result<Vec<(usize, Ways)>, String> {
        let mut found: Vec<(usize, Ways)> = Vec::new();
        let on = |network: &String| wanted.network.as_ref().is_none_or(|want| want == network);
        for (_, _, segment, end) in
            self.links.iter().filter(|link| link.0 == wanted.node && on(&link.1))
        {
            let ways = [Way::Up, Way::Down].into_iter();
            let ways = ways.filter(|way| wanted.way.is_none_or(|want| want == *way));
            found.push((*segment, ways.map(|way| (*end, way)).collect()));
        }
        match (found.is_empty(), &wanted.network) {
            (false, _) => Ok(found),
            (true, Some(network)) if self.links.iter().any(|link| link.0 == wanted.node) => {
                let own = self.links.iter().filter(|link| link.0 == wanted.node);
                let own: Vec<_> = own.map(|link| link.1.as_str()).collect();
                Err(format!(
                    "`{}` is not on a network `{network}`; it is on {}",
                    wanted.node,
                    own.join(", ")
                ))
            }
            _ => Err(self.unknown(&wanted.node)),
        }
    }

    fn unknown(&self, node: &str) -> String {
        let mut names: Vec<&str> = self.links.iter().map(|link| link.0.as_str()).collect();
        names.dedup();
        let some: Vec<_> = names.iter().take(8).copied().collect();
        let more = if names.len() > some.len() { ", ..." } else { "" };
        format!("there is no node `{node}`; there are {}{more}", some.join(", "))
    }
}

/// The processes of labs that run on this machine.
///
/// # Errors
/// When the kernel's list of sockets cannot be read.
pub fn labs() -> io::Result<Vec<u32>> {
    let sockets = std::fs::read_to_string("/proc/net/unix")?;
    let names =
        sockets.lines().filter_map(|line| line.split_whitespace().last()?.strip_prefix('@'));
    let mut labs: Vec<u32> =
        names.filter_map(|name| name.strip_prefix(NAME)?.parse().ok()).collect();
    labs.sort_unstable();
    labs.dedup();
    Ok(labs)
}

/// Asks the lab of the tool's process `pid`.
///
/// # Errors
/// When it cannot be reached or does not answer.
pub fn ask(pid: u32, request: &Request) -> io::Result<Reply> {
    let mut door =
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(format!("{NAME}{pid}"))?)?;
    door.set_read_timeout(Some(2 * PATIENCE))?;
    writeln!(door, "{}", serde_json::to_string(request)?)?;
    let mut line = String::new();
    BufReader::new(door).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}
