//! The control interface of a running lab: shows and changes it during a run.
//!
//! A control socket (`control_socket`), the inventory (`inventory`), the link API (`links`) and
//! node API (`nodes`), live captures (`capture`) and scale-up (`scale_up`).

mod capture;
mod control_socket;
mod inventory;
mod links;
mod names;
mod nodes;
mod scale_up;

pub(crate) use control_socket::{ControlSocket, Pending, Requests};
pub use control_socket::{ask, forget, labs, open};
pub(crate) use inventory::{Inventory, Shared};
pub(crate) use links::ManualChange;
pub(crate) use names::publish_names;

use experiment::PlannedFaultKind;
use link::{Direction, Impairment};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
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
    /// Done or in progress.
    Done {},
    /// The frames of some links follow.
    Frames {
        /// Number of links.
        links: usize,
    },
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
    /// Whether it was taken down.
    pub down: bool,
    /// Rejected frames: too long, or with another node's source address.
    pub rejected: u64,
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
    /// Its interfaces: name, network, address.
    pub interfaces: Vec<(String, String, Ipv4Addr)>,
    /// Its own program and its state: `running`, `paused`, `ended with status 1`. `None` without a
    /// program.
    pub program: Option<(String, String)>,
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
