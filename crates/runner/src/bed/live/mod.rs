//! The control interface of a running lab: shows and changes it during a run.
//!
//! A control socket (`control_socket`), its clients (`client`), their requests to the lab's thread
//! (`requests`) and their effects (`effects`), the inventory (`inventory`), the link API (`links`) and node API (`nodes`), live
//! captures (`capture`) and scale-up (`scale_up`).

mod capture;
mod client;
mod control_socket;
mod effects;
mod inventory;
mod links;
mod names;
mod nodes;
mod requests;
mod scale_up;
mod timeline;

pub use client::{ask, ask_all, forget, labs, labs_elsewhere, open};
pub(crate) use control_socket::ControlSocket;
pub(crate) use effects::{Awaited, Effect};
pub(crate) use inventory::{Inventory, Shared};
pub(crate) use links::ManualChange;
pub(crate) use names::publish_names;
pub(crate) use requests::{Pending, Requests};

use experiment::PlannedFaultKind;
use link::{Direction, Impairment, Totals};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;
use units::{Bytes, Span};

/// A request to a running lab. Each entry of `nodes` is a node, a group, or a pattern such as
/// `meter-1*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Describes the lab.
    Lab {},
    /// Shows the current settings of links; of all, or of some nodes.
    Show {
        /// Their nodes; all if empty.
        nodes: Vec<String>,
    },
    /// Changes link settings.
    Set {
        /// The links.
        links: Links,
        /// The keys to change, each with its value as in an experiment file; without a value, the
        /// key is removed.
        set: Vec<(String, String)>,
        /// Duration of the transition, from now.
        over: Span,
    },
    /// Takes links down or up.
    Down {
        /// The links.
        links: Links,
        /// True for down.
        down: bool,
    },
    /// Shows the state of nodes; of all if none is named.
    Nodes {
        /// The nodes.
        nodes: Vec<String>,
    },
    /// Injects a fault into nodes' programs.
    InjectFault {
        /// The fault.
        what: PlannedFaultKind,
        /// The nodes.
        nodes: Vec<String>,
    },
    /// Changes limits and settings of nodes; keys that are not named keep their values.
    Change {
        /// The nodes.
        nodes: Vec<String>,
        /// Keys with their values as text: those of `limits` in an experiment file, `hostname`,
        /// `mtu`.
        set: Vec<(String, String)>,
    },
    /// Removes nodes and all their processes.
    Destroy {
        /// The nodes.
        nodes: Vec<String>,
    },
    /// Adds clones of a node.
    Clone {
        /// The node.
        node: String,
        /// Number of clones.
        count: usize,
    },
    /// Captures frames of nodes from now on, as pcapng after the reply, until the client
    /// disconnects.
    Capture {
        /// The nodes; all if empty.
        nodes: Vec<String>,
        /// Only on this network.
        network: Option<String>,
        /// Filter, in libpcap's syntax.
        filter: Option<String>,
        /// Bytes to keep of each frame.
        snap: Option<Bytes>,
    },
    /// Lists faults and changes of links, done and planned.
    Timeline {},
    /// Stops the lab.
    End {},
}

/// Links of nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// The nodes.
    pub nodes: Vec<String>,
    /// Only on this network.
    pub network: Option<String>,
    /// Only in this direction.
    pub way: Option<Direction>,
}

/// A reply of the lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The lab.
    Lab(LabShown),
    /// Links with their current settings.
    Links(Vec<Shown>),
    /// Nodes with their current state.
    Nodes(Vec<NodeShown>),
    /// Faults and changes, in the order of their times.
    Timeline(Vec<Occurrence>),
    /// Done or in progress.
    Done {},
    /// The frames of some links follow.
    Frames {
        /// Number of links.
        links: usize,
    },
    /// The run or the lab is ending; the request did not run.
    Ending {},
    /// The lab refused the request; the reason.
    Refused(String),
    /// The request is invalid; the reason.
    Wrong(String),
}

/// A lab, as shown to clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabShown {
    /// The experiment's name.
    pub experiment: String,
    /// Process id of the tool.
    pub pid: u32,
    /// Folder of logs and results.
    pub folder: PathBuf,
    /// Whether it belongs to a measured run, which ends by itself.
    pub run: bool,
    /// Number of nodes.
    pub nodes: usize,
    /// Time since the lab came up.
    pub up_for: Span,
}

/// A fault or a change of links.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Occurrence {
    /// Seconds since the lab came up; `None` if its start is still ahead.
    pub at_s: Option<f64>,
    /// What happens, in words.
    pub what: String,
    /// Whether it is still ahead.
    pub planned: bool,
}

/// The current state of a link direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The node.
    pub node: String,
    /// The network.
    pub network: String,
    /// The direction.
    pub way: Direction,
    /// Its current settings.
    pub now: Impairment,
    /// Its settings after the changes in progress; `None` without any.
    pub target: Option<Impairment>,
    /// Keys whose gradual change this request ended before it was complete, with the values that it
    /// would have had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
    /// Whether it was taken down.
    pub down: bool,
    /// Rejected frames: too long, or with another node's source address.
    pub rejected: u64,
    /// What it carried since the lab came up.
    #[serde(default)]
    pub traffic: LinkTraffic,
}

/// Frames of a link direction since the lab came up, as the medium counted them: impairments by netem
/// are not in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkTraffic {
    /// Frames that entered the link.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that left it.
    pub passed: u64,
    /// Frames lost by chance.
    pub lost: u64,
    /// Frames dropped: full queue, link down, no access to a shared channel, longer than the path's MTU.
    pub dropped: u64,
    /// Sum of the delays of the frames that left it, without transmission and queueing, in ms.
    pub delay_ms: f64,
}

impl LinkTraffic {
    fn of(totals: &Totals) -> Self {
        Self {
            frames: totals.frames,
            bytes: totals.bytes,
            passed: totals.passed,
            lost: totals.lost,
            // `lost` are the random losses; a test of the loss rate must not include these.
            dropped: totals.overflow
                + totals.outage
                + totals.denied
                + totals.weak_signal
                + totals.too_long,
            delay_ms: totals.delay_sum.as_ms(),
        }
    }
}

/// The current state of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeShown {
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Process id of its init in the host's numbering; the process to enter the node.
    pub pid: i32,
    /// Its addresses: interface, network, address; one of each family of the network.
    pub interfaces: Vec<(String, String, IpAddr)>,
    /// Whether it forwards packets between its networks.
    #[serde(default)]
    pub forwards: bool,
    /// Its own program and its state: `running`, `waiting` for others before its start, `paused`, `ended
    /// with status 1`. `None` without a program.
    pub program: Option<(String, String)>,
    /// Whether it is a machine with its own network stack, for which other programs of the node cannot
    /// send.
    #[serde(default)]
    pub has_own_stack: bool,
    /// Whether it was killed and not started since: its radio is off.
    #[serde(default)]
    pub is_killed: bool,
    /// The folder with its programs' logs, which are named after it.
    pub logs: PathBuf,
    /// The limits of programs in it.
    pub boundary: lab::Boundary,
    /// Variables of programs in it, from its image and its `env`.
    pub env: Vec<(String, String)>,
    /// Frames and bytes that the medium received from it.
    pub sent: [u64; 2],
    /// Frames and bytes that the medium delivered to it.
    pub received: [u64; 2],
}

impl NodeShown {
    /// The state of its program, or whether a node without one was killed; empty otherwise.
    pub fn state(&self) -> &str {
        match &self.program {
            Some((_, state)) => state,
            None if self.is_killed => "killed",
            None => "",
        }
    }
}

/// State of a paused program.
const PAUSED: &str = "paused";

impl NodeShown {
    /// Whether its own program is paused.
    pub fn is_paused(&self) -> bool {
        self.program.as_ref().is_some_and(|(_, state)| state == PAUSED)
    }
}
