//! A planned network and its changes.

use super::PlannedBroker;
use crate::subnet::Subnet;
use link::{Channel, Direction, Keys, PairLoss};
use serde::{Deserialize, Serialize};
use units::{Bytes, Span};

/// A network segment that nodes attach to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedNetwork {
    /// Name.
    pub name: String,
    /// Backend of its impairments.
    #[serde(default, skip_serializing_if = "Backend::is_medium")]
    pub backend: Backend,
    /// The switch and the number of the VLAN that it is. Its links are those of the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<PlannedVlan>,
    /// How its links share it.
    pub channel: Channel,
    /// Subnet of the addresses that workloads use.
    pub subnet: Subnet,
    /// Prefix length of the subnet.
    pub prefix: u8,
    /// Subnet of the other family, in a network with IPv4 and IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_subnet: Option<Subnet>,
    /// MTU: the largest IP packet.
    pub mtu: Bytes,
    /// Whether nodes leave TCP segmentation to their interfaces.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub offload: bool,
    /// Source Ethernet addresses that nodes may use.
    #[serde(default, skip_serializing_if = "SourceAddresses::is_any")]
    pub source_addresses: SourceAddresses,
    /// Interval of multicast group queries; 0 for none.
    #[serde(default = "default_interval", skip_serializing_if = "is_default_interval")]
    pub query_interval: Span,
    /// Whether all its routers send router advertisements.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub advertise: bool,
    /// MQTT broker, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mqtt: Option<PlannedBroker>,
    /// Losses from node to node on a channel with `pair_losses`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pair_losses: Vec<PairLoss<String>>,
    /// Changes during a run, ordered by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timetable: Vec<PlannedChange>,
}

impl PlannedNetwork {
    /// Whether it is `other`, or a bridge joins them: only then networks have the same subnet.
    pub fn is_joined_with(&self, other: &Self) -> bool {
        self.subnet == other.subnet
    }

    /// Name of the network that has its links: itself, or the switch of the VLAN that it is.
    pub fn switch(&self) -> &String {
        self.vlan.as_ref().map_or(&self.name, |vlan| &vlan.switch)
    }

    /// Its subnets: one, or one of each family.
    pub fn subnets(&self) -> impl Iterator<Item = Subnet> + '_ {
        [Some(self.subnet), self.second_subnet].into_iter().flatten()
    }

    /// Its subnet of a family.
    pub fn subnet_of(&self, is_ipv6: bool) -> Option<Subnet> {
        self.subnets().find(|subnet| subnet.is_ipv6() == is_ipv6)
    }

    /// Its IPv4 subnet.
    pub fn ipv4(&self) -> Option<Subnet> {
        self.subnets().find(|subnet| !subnet.is_ipv6())
    }
}

/// A VLAN of another network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedVlan {
    /// Name of the network whose switch has it.
    pub switch: String,
    /// Its number.
    pub number: u16,
}

/// Default time between membership queries (RFC 3376, 8.2).
pub(crate) const QUERY_INTERVAL: Span = Span::from_ns(125_000_000_000);

fn default_interval() -> Span {
    QUERY_INTERVAL
}

fn is_default_interval(interval: &Span) -> bool {
    *interval == QUERY_INTERVAL
}

/// Source Ethernet addresses that nodes may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceAddresses {
    /// Any addresses except those of other nodes, as on a switch.
    #[default]
    Any,
    /// Only the interface's address.
    Own,
}

impl SourceAddresses {
    fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

/// Backend of a network's impairments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The medium.
    #[default]
    Medium,
    /// The kernel's netem; the medium forwards frames.
    Netem,
}

impl Backend {
    fn is_medium(&self) -> bool {
        *self == Self::Medium
    }
}

/// A change of a network during a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedChange {
    /// Time, from the start of the impairments.
    pub at: Span,
    /// Kind of change.
    #[serde(flatten)]
    pub what: PlannedChangeKind,
}

/// Kinds of change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedChangeKind {
    /// New impairments of links.
    Set {
        /// Nodes of the links.
        nodes: Vec<String>,
        /// Directions.
        ways: Vec<Direction>,
        /// Changed keys.
        set: Keys,
        /// Duration of the linear transition.
        over: Span,
    },
    /// Links go down, or up again.
    Down {
        /// Nodes.
        nodes: Vec<String>,
        /// Whether the links are down.
        down: bool,
    },
    /// The network forwards multicast, or drops it.
    Multicast {
        /// Whether it forwards multicast.
        passes: bool,
    },
    /// Frames pass only within a part; each part lists its nodes. An empty list ends the partition.
    Partition {
        /// Parts.
        parts: Vec<Vec<String>>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rate;

    #[test]
    fn a_channel_is_written_as_in_the_file() {
        let rate = Rate::from_bit_s(250_000).unwrap();
        let text = |channel| serde_json::to_string::<Channel>(&channel).unwrap();
        assert_eq!(text(Channel::Switch), "\"switch\"");
        assert_eq!(text(Channel::Shared(rate)), "{\"shared\":\"250 kbit/s\"}");
    }
}
