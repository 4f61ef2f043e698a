//! A planned node and its links.

use super::route::PlannedRoute;
use super::{PlannedMachine, PlannedPlatform};
use crate::board::Board;
use crate::mac::Mac;
use crate::profile::LinkProfile;
use crate::program::Program;
use link::{Impairment, NodePosition, PortVlans, StatesSpec};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use units::{Bytes, Frequency, Span};

/// One emulated device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedNode {
    /// Name, which is also its host name.
    pub name: String,
    /// Group.
    pub group: String,
    /// Links, `eth0` first.
    pub links: Vec<PlannedLink>,
    /// Resource limits and reservations.
    pub limits: PlannedLimits,
    /// Board that it emulates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<Board>,
    /// Interface of the host that connects the node, which is real hardware; nothing runs on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<String>,
    /// Character devices of the host that it sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<PathBuf>,
    /// Offset of its monotonic clock ahead of the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset: Option<Span>,
    /// CPU cores that its programs are pinned to; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<u32>,
    /// Where it is in the plane, if the file says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<NodePosition>,
    /// Services that it runs for a network, if it is a service node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<PlannedServices>,
    /// Default gateway of IPv4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// Default gateway of IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_ipv6: Option<IpAddr>,
    /// Default gateways that it learns by DHCP and router advertisements, one of each family at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned_gateways: Vec<IpAddr>,
    /// Whether it forwards packets between its interfaces.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forward: bool,
    /// The bridge that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<PlannedBridge>,
    /// Routes, in addition to those of its links and the gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<PlannedRoute>,
    /// Name server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<IpAddr>,
    /// Root file system. `None`: the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PlannedRoot>,
    /// Capabilities of its programs in addition to those of its kind, such as `SYS_TIME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Whether its programs have all capabilities and system calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub privileged: bool,
    /// Whether not even the program of its image starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_idle: bool,
    /// Whether the file sets its Ethernet address on the first network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sets_mac: bool,
    /// The machine that it is, in place of programs on this machine's kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<PlannedMachine>,
    /// Its `run` program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
}

impl PlannedNode {
    /// Whether its Ethernet addresses are those of its links. A firmware may have others, as real
    /// hardware has.
    pub fn has_planned_mac(&self) -> bool {
        let has_other = self.machine.as_ref().is_some_and(|m| !m.is_emulated && !m.taps.is_empty());
        self.sets_mac || (self.external.is_none() && !has_other)
    }

    /// Whether Thingbed can send router advertisements from it: with a kernel, or with files, that are
    /// not Thingbed's, a router sends its own.
    pub fn can_advertise(&self) -> bool {
        self.foreign_key().is_none()
    }

    /// The key of its group that gives it a kernel, or files, that are not Thingbed's.
    pub(crate) fn foreign_key(&self) -> Option<&'static str> {
        // In a node with a `root`, dnsmasq would see the host's files with all capabilities.
        let root = self.root.as_ref().map(|_| "root");
        let machine = || {
            self.machine.as_ref().map(|own| match own.is_emulated {
                true => "qemu",
                false => "firmware",
            })
        };
        root.or_else(machine).or_else(|| self.external.as_ref().map(|_| "external"))
    }

    /// Whether the link is a port of its bridge.
    pub fn is_port(&self, link: &PlannedLink) -> bool {
        self.bridge.as_ref().is_some_and(|bridge| bridge.interfaces.contains(&link.interface))
    }

    /// Its links without those whose addresses are the same, because they are ports of its bridge.
    pub fn links_with_addresses(&self) -> impl Iterator<Item = &PlannedLink> {
        let first = self.bridge.as_ref().and_then(|bridge| bridge.interfaces.first());
        self.links.iter().filter(move |link| !self.is_port(link) || first == Some(&link.interface))
    }

    /// The TAP of its machine at one of its interfaces.
    pub fn tap(&self, interface: usize) -> Option<&String> {
        self.machine.as_ref()?.taps.get(interface)
    }

    /// The tunnel of its firmware at one of its interfaces.
    pub fn tun(&self, interface: usize) -> Option<&String> {
        self.machine.as_ref()?.tun.as_ref().filter(|_| interface == 0)
    }

    /// Whether its machine has the addresses in place of the node's kernel.
    pub fn has_own_stack(&self) -> bool {
        self.tap(0).is_some() || self.tun(0).is_some()
    }

    /// Default gateways that the lab sets, one of each family at most.
    pub fn gateways(&self) -> impl Iterator<Item = IpAddr> + '_ {
        [self.gateway, self.gateway_ipv6].into_iter().flatten()
    }

    /// All its next hops: those of routes, and gateways.
    pub fn next_hops(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let learned = self.learned_gateways.iter().copied();
        self.routes.iter().map(|route| route.via).chain(self.gateways()).chain(learned)
    }
}

/// The bridge of a node, to which the addresses of its links belong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedBridge {
    /// Its ports: names of the node's interfaces.
    pub interfaces: Vec<String>,
    /// Whether it takes part in the spanning tree protocol.
    pub stp: bool,
}

/// Services of a network's service node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlannedServices {
    /// Gateway to the outside by NAT.
    pub nat: bool,
    /// DHCP server.
    pub dhcp: bool,
    /// DNS server with the names of all nodes.
    pub dns: bool,
}

impl PlannedServices {
    /// Whether the node runs any service.
    pub fn any(self) -> bool {
        self.nat || self.dhcp || self.dns
    }
}

/// Root file system of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlannedRoot {
    /// A folder or an image archive; absolute path.
    pub path: PathBuf,
    /// Name of the image, in an archive with several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Platform of its programs; `None` is this machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<PlannedPlatform>,
    /// Maximum size of the unpacked image; `None` is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
}

/// Resource limits and reservations of a node; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct PlannedLimits {
    /// CPU time, in CPUs.
    pub cpus: Option<f64>,
    /// CPU time by clock frequency or CoreMark, converted to CPUs when the node is brought up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<PlannedCpu>,
    /// Memory of all its processes.
    pub memory: Option<Bytes>,
    /// Reserved CPU time, in CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_cpus: Option<f64>,
    /// Reserved memory, which the kernel reclaims last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_memory: Option<Bytes>,
    /// Number of processes and threads; `None` for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// Size of what it writes to its root, and of its shared memory; `None` for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Bytes>,
    /// Size of each log of its programs' output; `None` for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Bytes>,
}

/// A share of CPU time, by the work that a CPU does in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedCpu {
    /// Cycles per second of the host's clock.
    Clock(Frequency),
    /// CoreMark iterations per second.
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

/// A node's link to a network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedLink {
    /// Name of the network.
    pub network: String,
    /// Name of the interface inside the node.
    pub interface: String,
    /// Address of the node, which workloads use.
    pub address: IpAddr,
    /// Address of the other family, in a network with IPv4 and IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_address: Option<IpAddr>,
    /// Whether the node gets its addresses by DHCP instead of from the lab.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_dhcp: bool,
    /// Whether the node makes its IPv6 address of router advertisements instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_slaac: bool,
    /// Ethernet address.
    pub mac: Mac,
    /// Link profile of its values, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<PlannedProfile>,
    /// Uplink: from the node into the network.
    pub up: Impairment,
    /// Downlink: from the network to the node.
    pub down: Impairment,
    /// States of the node's radio, which apply to both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<StatesSpec>,
    /// VLANs on the network, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlans: Option<PortVlans>,
    /// Interface of the trunk that carries its frames with a tag, if it is no separate link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk: Option<String>,
}

impl PlannedLink {
    /// Its addresses: one, or one of each family.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        [Some(self.address), self.second_address].into_iter().flatten()
    }

    /// Its address of a family.
    pub fn address_of(&self, is_ipv6: bool) -> Option<IpAddr> {
        self.addresses().find(|address| address.is_ipv6() == is_ipv6)
    }

    /// Whether the node, not the lab, sets the address of a family.
    pub fn is_own(&self, is_ipv6: bool) -> bool {
        self.by_dhcp || (self.by_slaac && is_ipv6)
    }

    /// The address that the node makes of router advertisements.
    pub fn slaac_address(&self) -> Option<Ipv6Addr> {
        match self.address_of(true).filter(|_| self.by_slaac)? {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        }
    }

    /// Its IPv4 address.
    pub fn ipv4(&self) -> Option<IpAddr> {
        self.address_of(false)
    }
}

/// The link profile of a planned link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedProfile {
    /// Name.
    pub name: String,
    /// Quality of its values, such as `9 fitted, 6 standard`.
    pub quality: String,
}

impl PlannedProfile {
    /// The entry for `profile` in a plan.
    pub fn of(profile: &LinkProfile) -> Self {
        Self { name: profile.name.clone(), quality: profile.quality() }
    }
}
