//! A lab that others may look at and change while it runs.
//!
//! A door in front (`door`), the roll of what there is (`roll`), answers about links
//! (`links`) and about nodes (`nodes`), frames for those who look on (`watch`), nodes
//! that come later (`growth`), and a lab that does nothing but wait for visitors (`up`).

mod door;
mod growth;
mod links;
mod names;
mod nodes;
mod roll;
mod up;
mod watch;

pub(crate) use door::{Door, Errand, Errands};
pub use door::{ask, forget, labs, open};
pub(crate) use links::Made;
pub(crate) use names::tell_names;
pub(crate) use nodes::Office;
pub(crate) use roll::{Roll, Shared};
pub use up::{Up, up};

use experiment::PlannedFaultKind;
use medium::{Impairment, Way};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use units::{Bytes, Span};

/// What is wanted of a running lab. Where `nodes` are named, each is a node, a
/// group, or a pattern such as `meter-1*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Which lab it is.
    Lab {},
    /// How links are now; of all, or of some nodes'.
    Show {
        /// Whose; all if none.
        nodes: Vec<String>,
    },
    /// Something else from now on.
    Set {
        /// Whose links.
        links: Links,
        /// The keys that change, each with its value as a file would have it; no value
        /// takes the key off.
        set: Vec<(String, String)>,
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
    /// How nodes are; all if none is named.
    Nodes {
        /// Which.
        nodes: Vec<String>,
    },
    /// Something befalls nodes' programs.
    Befall {
        /// What.
        what: PlannedFaultKind,
        /// Whose.
        nodes: Vec<String>,
    },
    /// Other limits and settings for nodes; what is not named stays as it is.
    Change {
        /// Which.
        nodes: Vec<String>,
        /// Keys with their values as text: those of a file's `limits`, `hostname`, `mtu`.
        set: Vec<(String, String)>,
    },
    /// Nodes go, with all that runs in them.
    Destroy {
        /// Which.
        nodes: Vec<String>,
    },
    /// More nodes like one that there is.
    Clone {
        /// Which.
        node: String,
        /// How many.
        count: usize,
    },
    /// Frames of nodes from now on, as pcapng behind the answer, until the visitor
    /// goes.
    Capture {
        /// Whose; all if none.
        nodes: Vec<String>,
        /// On this network alone.
        network: Option<String>,
        /// Which, in libpcap's language.
        filter: Option<String>,
        /// How much of each.
        snap: Option<Bytes>,
    },
    /// The lab goes.
    End {},
}

/// Links of nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// The nodes.
    pub nodes: Vec<String>,
    /// On this network alone.
    pub network: Option<String>,
    /// This way alone.
    pub way: Option<Way>,
}

/// What a lab answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The lab.
    Lab(LabShown),
    /// Links, with what is asked of them now.
    Links(Vec<Shown>),
    /// Nodes, as they are now.
    Nodes(Vec<NodeShown>),
    /// It is done, or being done.
    Done {},
    /// Frames of so many links follow.
    Frames {
        /// How many.
        links: usize,
    },
    /// Why not.
    Refused(String),
    /// What was asked for makes no sense; why.
    Wrong(String),
}

/// A lab, as a visitor sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabShown {
    /// The experiment's name.
    pub experiment: String,
    /// The tool's process.
    pub pid: u32,
    /// Where logs and results go.
    pub folder: PathBuf,
    /// Whether a run is measured in it, which ends by itself.
    pub run: bool,
    /// How many nodes it has.
    pub nodes: usize,
    /// How long it has been up.
    pub up_for: Span,
}

/// A direction of a link, as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The node.
    pub node: String,
    /// The network.
    pub network: String,
    /// Which way.
    pub way: Way,
    /// What it is configured to do now.
    pub now: Impairment,
    /// What it will do when changes that are on their way are over; none without any.
    pub target: Option<Impairment>,
    /// Whether it was taken down.
    pub down: bool,
    /// Frames that were none of this link: too long, or from another node's address.
    pub rejected: u64,
}

/// A node, as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeShown {
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Its init, as the host numbers it: what enters the node starts here.
    pub pid: i32,
    /// Its interfaces: name, network, address.
    pub interfaces: Vec<(String, String, Ipv4Addr)>,
    /// Its own program and what it does: `running`, `paused`, `ended with status
    /// 1`. None if it has no program.
    pub program: Option<(String, String)>,
    /// The folder in which its programs' logs lie, named after it.
    pub logs: PathBuf,
    /// Frames and bytes that the medium has had from it.
    pub sent: [u64; 2],
    /// Frames and bytes that it was given.
    pub received: [u64; 2],
}
