//! A network as it is planned, and what changes in it.

use crate::subnet::Subnet;
use medium::{CsmaSpec, Overlay, Way};
use serde::{Deserialize, Serialize};
use units::{Bytes, Rate, Span};

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
    /// From which Ethernet addresses nodes may send.
    #[serde(default, skip_serializing_if = "SourceAddresses::is_any")]
    pub source_addresses: SourceAddresses,
    /// Time between queries for multicast groups; 0 for none.
    #[serde(default = "usual_interval", skip_serializing_if = "is_usual_interval")]
    pub query_interval: Span,
    /// What changes while it runs, in the order of its times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timetable: Vec<PlannedChange>,
}

fn usual_interval() -> Span {
    medium::QUERY_INTERVAL
}

fn is_usual_interval(interval: &Span) -> bool {
    *interval == medium::QUERY_INTERVAL
}

/// From which Ethernet addresses nodes may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceAddresses {
    /// Any but those of other nodes, as a switch lets them.
    #[default]
    Any,
    /// The interface's own alone.
    Own,
}

impl SourceAddresses {
    fn is_any(&self) -> bool {
        *self == Self::Any
    }
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
