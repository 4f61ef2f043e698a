//! The experiment resolved for one run: every node, address, link and schedule.

use crate::board::Board;
use crate::exchange::Exchange;
use crate::fan_out::FanOut;
use crate::fault::PlannedFault;
use crate::load::{Device, Load, Probe};
use crate::mac::Mac;
use crate::matrix::Cell;
use crate::mqtt::Mqtt;
use crate::pattern::{InteractionPattern, OutsideModel};
use crate::profile::LinkProfile;
use crate::program::Program;
use crate::subnet::Subnet;
use indexmap::IndexMap;
use medium::{CsmaSpec, Impairment, Overlay, StatesSpec, Way};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use units::{Bytes, Frequency, Rate, Ratio, Span};

/// What one run is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The experiment's name.
    pub experiment: String,
    /// The cell of the matrix.
    pub cell: Cell,
    /// The seed of all draws.
    pub seed: u64,
    /// Which repetition this is, from 0.
    pub repeat: u32,
    /// Every node, group by group.
    pub nodes: Vec<PlannedNode>,
    /// Every network.
    pub networks: Vec<PlannedNetwork>,
    /// What runs.
    pub workloads: Vec<Workload>,
    /// What befalls nodes' programs, in the order of its times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<PlannedFault>,
    /// Which frames are kept; none if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<PlannedCapture>,
    /// Whether roles have cores of their own, where the machine has enough.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub affinity: bool,
    /// How long messages are sent.
    pub duration: Span,
    /// How long to wait after that for what is still on its way.
    pub drain: Span,
    /// How long the programs may take until all are ready.
    pub setup_limit: Span,
}

impl Plan {
    /// The node called `name`.
    pub fn node(&self, name: &str) -> Option<&PlannedNode> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The network called `name`.
    pub fn network(&self, name: &str) -> Option<&PlannedNetwork> {
        self.networks.iter().find(|network| network.name == name)
    }

    /// The seed of the draws of this run: the experiment's, moved on by the
    /// repeat, so that repeats see different weather and cells the same.
    pub fn weather(&self) -> u64 {
        // An odd constant far from small numbers: seed 7 repeat 1 is not seed 8.
        self.seed.wrapping_add(u64::from(self.repeat).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Which frames of a run are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCapture {
    /// The nodes whose frames; all if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// The networks whose frames; all if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// Which frames, in libpcap's language; all if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// How much of each frame; all if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snap: Option<Bytes>,
}

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

/// A segment that nodes attach to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedNetwork {
    /// Its name.
    pub name: String,
    /// Who makes its impairments.
    #[serde(default, skip_serializing_if = "Backend::is_medium")]
    pub backend: Backend,
    /// How its links share it.
    pub channel: PlannedChannel,
    /// Where its addresses come from.
    pub subnet: Subnet,
    /// The subnet's prefix length.
    pub prefix: u8,
    /// The largest IP packet.
    pub mtu: Bytes,
    /// Whether its nodes leave the cutting of TCP into segments to their interfaces.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub offload: bool,
    /// What changes while it runs, in the order of its times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timetable: Vec<PlannedChange>,
}

/// Who makes a network's impairments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The medium.
    #[default]
    Medium,
    /// The kernel's netem; the medium passes frames on.
    Netem,
}

impl Backend {
    fn is_medium(&self) -> bool {
        *self == Self::Medium
    }
}

/// A change of a running network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedChange {
    /// When, from the start of the impairments.
    pub at: Span,
    /// What.
    #[serde(flatten)]
    pub what: PlannedWhat,
}

/// What changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedWhat {
    /// Something else is asked of links.
    Set {
        /// The nodes whose links they are.
        nodes: Vec<String>,
        /// Which ways.
        ways: Vec<Way>,
        /// What is new.
        set: Overlay,
        /// From the change until it is whole.
        over: Span,
    },
    /// These nodes' links carry nothing, or carry again.
    Down {
        /// The nodes.
        nodes: Vec<String>,
        /// Whether they are down.
        down: bool,
    },
    /// Multicast is passed on, or goes to nobody.
    Multicast {
        /// Whether it is passed on.
        passes: bool,
    },
    /// Frames pass only within a part: each lists its nodes. No part is the end of
    /// a partition.
    Partition {
        /// The parts.
        parts: Vec<Vec<String>>,
    },
}

/// How the links of a network share it; [`medium::Channel`] that can be written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedChannel {
    /// Each link by itself, full duplex.
    Switch,
    /// One half-duplex channel of this rate for all.
    Shared(Rate),
    /// A capacity for all on the way up, and one on the way down.
    Cell {
        /// Into the network.
        up: Rate,
        /// To the nodes.
        down: Rate,
    },
    /// One half-duplex channel that all contend for.
    Csma(CsmaSpec),
}

impl From<PlannedChannel> for medium::Channel {
    fn from(channel: PlannedChannel) -> Self {
        match channel {
            PlannedChannel::Switch => Self::Switch,
            PlannedChannel::Shared(rate) => Self::Shared(rate),
            PlannedChannel::Cell { up, down } => Self::Cell { up, down },
            PlannedChannel::Csma(csma) => Self::Csma(csma),
        }
    }
}

/// What runs on nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Messages from a source to sinks, each answered.
    Interaction(Interaction),
    /// Messages that clients publish by a broker to those who subscribe.
    Mqtt(Mqtt),
    /// Payloads that go from sources to sinks, each exchange by itself.
    Exchange(Exchange),
    /// Requests at the moments that a schedule asks for.
    Load(Load),
    /// Devices that answer requests after given service times.
    Device(Device),
    /// Probes that look for contention.
    Probe(Probe),
    /// A program, unmodified.
    Command(Command),
}

impl Workload {
    /// Its name in the results.
    pub fn name(&self) -> &str {
        match self {
            Self::Interaction(interaction) => &interaction.name,
            Self::Mqtt(mqtt) => &mqtt.name,
            Self::Exchange(exchange) => &exchange.name,
            Self::Load(load) => &load.name,
            Self::Device(device) => &device.name,
            Self::Probe(probe) => &probe.name,
            Self::Command(command) => &command.name,
        }
    }
}

/// Messages from a source to sinks, each answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interaction {
    /// Its name in the results.
    pub name: String,
    /// The node that sends.
    pub source: String,
    /// The nodes that receive and answer, in order.
    pub sinks: Vec<String>,
    /// The name of its model in the file.
    pub model: String,
    /// How messages go to the sinks.
    pub down: InteractionPattern,
    /// How answers come back.
    pub up: InteractionPattern,
    /// The file that each message carries; absolute.
    pub payload: PathBuf,
    /// The file that each answer carries; absolute.
    pub reply_payload: PathBuf,
    /// The length of each message: the payload file's, and ten more where that
    /// has no place for the message's number.
    pub payload_bytes: u64,
    /// The length of each answer.
    pub reply_payload_bytes: u64,
    /// Time between two messages of the source.
    pub every: Span,
    /// How many messages the source sends.
    pub messages: u64,
    /// The rate that multicast is sent with.
    pub multicast_rate: Rate,
    /// The share of frames lost that the director begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assume_loss: Option<Ratio>,
    /// The round trip that it begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assume_round_trip: Option<Span>,
    /// The models of other stacks that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<OutsideModel>,
    /// The node of its MQTT broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker: Option<String>,
    /// To how many sinks messages go from when on; to all unless said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fan_out: Vec<FanOut>,
    /// The network that it goes over.
    pub network: String,
}

/// A program, unmodified, that runs from the start of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// Its name in the results.
    pub name: String,
    /// The nodes that it runs on.
    pub on: Vec<String>,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Variables added to its environment.
    pub env: IndexMap<String, String>,
    /// Whether the run ends without waiting for it.
    pub background: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_written_as_in_the_file() {
        let rate = Rate::from_bit_s(250_000).unwrap();
        let text = |channel| serde_json::to_string::<PlannedChannel>(&channel).unwrap();
        assert_eq!(text(PlannedChannel::Switch), "\"switch\"");
        assert_eq!(text(PlannedChannel::Shared(rate)), "{\"shared\":\"250 kbit/s\"}");
    }
}
