//! A node as it is planned, and its attachments.

use crate::board::Board;
use crate::mac::Mac;
use crate::profile::LinkProfile;
use crate::program::Program;
use medium::{Impairment, StatesSpec};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use units::{Bytes, Frequency, Span};

/// One emulated device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedNode {
    /// Its name, which is its host name too.
    pub name: String,
    /// The group that it belongs to.
    pub group: String,
    /// Its attachments, `eth0` first.
    pub links: Vec<PlannedLink>,
    /// What it may use of the machine.
    pub limits: PlannedLimits,
    /// The board that it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<Board>,
    /// The host's interface behind which it is, as real hardware; nothing runs on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<String>,
    /// Character devices of the host's that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<PathBuf>,
    /// How far its monotonic clock is ahead of the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset: Option<Span>,
    /// The cores that its programs stay on; none are all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<u32>,
    /// What it does for a network, if it is there for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<PlannedServices>,
    /// Where it sends what is for nobody near.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Ipv4Addr>,
    /// The name server that it asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<Ipv4Addr>,
    /// Its root file system; none is the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PlannedRoot>,
    /// The program that it is there for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
}

/// What a network's own node does for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlannedServices {
    /// It is a gateway to the outside.
    pub nat: bool,
    /// It gives addresses to those who ask.
    pub dhcp: bool,
    /// It knows the names of all nodes.
    pub dns: bool,
}

impl PlannedServices {
    /// Whether there is any.
    pub fn any(self) -> bool {
        self.nat || self.dhcp || self.dns
    }
}

/// A root file system of a node's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlannedRoot {
    /// A folder, or an image's archive; absolute.
    pub path: PathBuf,
    /// Which image of an archive with several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// What a node may use of the machine; none is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct PlannedLimits {
    /// CPUs' worth of time.
    pub cpus: Option<f64>,
    /// The same by what a CPU does: who brings the node up makes CPUs of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<PlannedCpu>,
    /// Memory of all its processes.
    pub memory: Option<Bytes>,
    /// CPUs' worth of time that other nodes leave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_cpus: Option<f64>,
    /// Memory that is taken from it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_memory: Option<Bytes>,
}

/// A share of CPU time, by what a CPU does in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedCpu {
    /// So many cycles a second of the host's clock.
    Clock(Frequency),
    /// So many iterations a second of CoreMark.
    Coremark(f64),
}

impl fmt::Display for PlannedCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clock(clock) => write!(f, "{clock} of the host's clock"),
            Self::Coremark(score) => write!(f, "{score:.1} CoreMark"),
        }
    }
}

/// The attachment of a node to a network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedLink {
    /// The network's name.
    pub network: String,
    /// The interface's name inside the node.
    pub interface: String,
    /// The node's address there.
    pub address: Ipv4Addr,
    /// Whether the node asks for it, and the lab does not set it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_dhcp: bool,
    /// The interface's hardware address.
    pub mac: Mac,
    /// The profile that its values are from, where they are not the experiment's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<PlannedProfile>,
    /// From the node into the network.
    pub up: Impairment,
    /// From the network to the node.
    pub down: Impairment,
    /// The states of the node's radio, which both ways go through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<StatesSpec>,
}

/// The profile of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedProfile {
    /// Its name.
    pub name: String,
    /// How good its values are, such as `9 fitted, 6 standard`.
    pub quality: String,
}

impl PlannedProfile {
    /// What a plan says of `profile`.
    pub fn of(profile: &LinkProfile) -> Self {
        Self { name: profile.name.clone(), quality: profile.quality() }
    }
}
