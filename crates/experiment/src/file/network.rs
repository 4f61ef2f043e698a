//! File format: networks and their impairments.

use crate::file::Broker;
use crate::file::Vlans;
use crate::file::foreign::Foreign;
use crate::file::impairment::Impairment;
use crate::file::timetable::Change;
use crate::limits::NETWORK_VLANS;
use crate::plan::{Backend, SourceAddresses};
use crate::problem::Problem;
use crate::read::{At, Fields, Named, OneOrMore, Read, Sink};
use crate::scalar::{Word, word};
use crate::subnet::Subnet;
use crate::tree::{Content, Node};
use link::{AlohaSpec, CsmaSpec, StatesSpec, WifiSpec};
use schemars::JsonSchema;
use units::{Bytes, Rate, Span};

/// A network segment that nodes attach to.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Network {
    /// Nodes on the network: whole groups (`meter`), or single nodes of them (`meter-3`). They get
    /// addresses in this order, from `.1`. A network with `switch` has the nodes of its VLAN. Values:
    /// group or node, or a list of these. Default: required without `switch`.
    pub attach: Option<At<OneOrMore<At<String>>>>,
    /// Address range, such as `10.0.0.0/16` or `fd00::/64`; networks must not overlap. Workloads
    /// use the first one. Values: IPv4 subnet with a prefix of 8 to 30, IPv6 subnet with a prefix
    /// of 16 to 126, or a list of one of each.
    #[schemars(required)]
    pub subnet: Option<At<OneOrMore<At<Subnet>>>>,
    /// MTU: the largest IP packet, without the Ethernet header. Range: 68 B to 65521 B. Default:
    /// 1500 B; 1280 B on a channel with `carries: lowpan`.
    pub mtu: Option<At<Bytes>>,
    /// Segmentation offload: the nodes' kernels pass on unsegmented TCP, as with fast network
    /// cards. Only with `backend: netem`. Default: false.
    pub offload: Option<At<bool>>,
    /// Link impairments: one of the experiment's `profiles`, a technology profile such as
    /// `edge-lab` (`thingbed profiles`), or the path of a profile file. Without `profile`,
    /// `channel` and `links`, the network has no impairments. Values: name of a profile, or path.
    pub profile: Option<At<String>>,
    /// Implementation of the impairments: Thingbed's `medium`, or the kernel's `netem`. Default:
    /// `medium`.
    pub backend: Option<At<Backend>>,
    /// How the links share the network. With a technology profile, it overrides the profile's; with
    /// one of the experiment's own profiles, it is not allowed. Default: `switch`.
    pub channel: Option<At<Channel>>,
    /// Impairments by group, or by node where a node differs from its group. With a technology
    /// profile, they override its values; with one of the experiment's own profiles, they are not
    /// allowed.
    pub links: Option<Named<Link>>,
    /// Whether a gateway connects the network to the outside by NAT. Default: false.
    pub nat: Option<At<bool>>,
    /// Whether a DHCP server assigns addresses. Default: false.
    pub dhcp: Option<At<bool>>,
    /// Whether a DNS server resolves the names of all nodes. Default: false.
    pub dns: Option<At<bool>>,
    /// Whether all routers of the network (`forward: true`, or the gateway) send router advertisements,
    /// from which hosts make addresses (SLAAC) and default routes. Needs an IPv6 subnet with the prefix
    /// length 64. With `dhcp` and without this key, one node sends them. Default: false.
    pub advertise: Option<At<bool>>,
    /// MQTT broker that Thingbed starts, for programs that connect to `mqtt-broker`. Default: none.
    pub mqtt: Option<Broker>,
    /// Source Ethernet addresses that nodes may use. `any`: as on an ordinary switch, which learns
    /// up to 1,024 addresses per node, so that bridges, macvlan and virtual machines inside a node
    /// work; a node cannot use another node's address. `own`: only the interface's own address.
    /// Rejected frames are counted. Default: `any`.
    pub source_addresses: Option<At<SourceAddresses>>,
    /// VLANs (IEEE 802.1Q) of nodes and groups. A number: an access port, whose frames have no tag on
    /// the link. A list: a trunk, whose frames have tags, except those of VLAN 1. Nodes that are not
    /// in the map are in VLAN 1. Values: map of groups or nodes to a number, 1 to 4094, or a list of
    /// these. Default: none, frames pass with and without tags.
    pub vlans: Option<At<Named<At<Vlans>>>>,
    /// Makes the network a VLAN with a separate subnet: name of the network whose switch has the VLAN,
    /// and all links. With `vlan`. Default: none.
    pub switch: Option<At<String>>,
    /// Number of the VLAN on the `switch`. Range: 2 to 4094. Default: none.
    #[schemars(extend("minimum" = NETWORK_VLANS.start(), "maximum" = NETWORK_VLANS.end()))]
    pub vlan: Option<At<u32>>,
    /// Interval of multicast group queries (IGMPv3 and MLDv2 querier, as in a switch without a
    /// router), from the first multicast activity on; `0 s`: no queries. A node whose report was
    /// lost gets multicast after the next query. If a router on the network sends queries, the
    /// network does not, and forwards reports to it. Range: 1 s or more, or `0 s`. Default: 125 s.
    pub query_interval: Option<At<Span>>,
    /// Link changes during a run, each at a time from the start of the impairments.
    pub timetable: Option<Vec<Change>>,
}

impl Read for Network {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a network", sink)?;
        let network = Self {
            attach: fields.optional("attach"),
            subnet: fields.required("subnet"),
            mtu: fields.optional("mtu"),
            offload: fields.optional("offload"),
            profile: fields.optional("profile"),
            backend: fields.optional("backend"),
            channel: fields.optional("channel"),
            links: fields.optional("links"),
            nat: fields.optional("nat"),
            dhcp: fields.optional("dhcp"),
            dns: fields.optional("dns"),
            advertise: fields.optional("advertise"),
            mqtt: fields.optional("mqtt"),
            source_addresses: fields.optional("source_addresses"),
            vlans: fields.optional("vlans"),
            switch: fields.optional("switch"),
            vlan: fields.optional("vlan"),
            query_interval: fields.optional("query_interval"),
            timetable: fields.optional("timetable"),
        };
        for (key, other, advice) in [
            ("switch", "vlan", "add the number of its VLAN, such as `vlan: 10`"),
            ("vlan", "switch", "add the network whose switch has the VLAN, such as `switch: lan`"),
        ] {
            if fields.has(key) && !fields.has(other) {
                let problem = Problem::new(format!("a network with `{key}` and no `{other}`"));
                fields.sink.add(problem.at(node.place).label(advice));
            }
        }
        if let Some(profile) = &network.profile {
            for key in ["channel", "links"] {
                if !fields.has(key) {
                    continue;
                }
                let text = format!("a network with a profile cannot have `{key}`");
                let label = format!("remove this or `{key}`, or put both into the profile");
                fields.sink.add(Problem::new(text).at(profile.place).label(label));
            }
        }
        fields.finish();
        Some(network)
    }
}

impl Word for SourceAddresses {
    const WHAT: &'static str = "a policy for source addresses";
    const WORDS: &'static [(&'static str, Self)] = &[("any", Self::Any), ("own", Self::Own)];
}

impl Read for SourceAddresses {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

impl Word for Backend {
    const WHAT: &'static str = "a backend";
    const WORDS: &'static [(&'static str, Self)] =
        &[("medium", Self::Medium), ("netem", Self::Netem)];
}

impl Read for Backend {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

/// Impairments of a network.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Profile {
    /// How the links share the network's capacity. Default: `switch`.
    pub channel: Option<At<Channel>>,
    /// Impairments by group; a group that is not listed has none. The entry of a single node
    /// (`meter-3`) replaces that of its group.
    pub links: Option<Named<Link>>,
    /// Link changes during a run, in addition to the network's timetable.
    pub timetable: Option<Vec<Change>>,
}

impl Read for Profile {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a profile", sink)?;
        let profile = Self {
            channel: fields.optional("channel"),
            links: fields.optional("links"),
            timetable: fields.optional("timetable"),
        };
        fields.finish();
        Some(profile)
    }
}

/// How the links of a network share it.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(crate) enum Channel {
    /// Independent full-duplex links.
    Switch,
    /// One half-duplex channel of this rate for all links: one frame at a time, FIFO.
    Shared(#[schemars(with = "At<Rate>")] Rate),
    /// One capacity shared by all uplinks and one by all downlinks; round robin between links, so a
    /// flooding link does not delay the others.
    Cell(#[schemars(with = "Cell")] Cell),
    /// One half-duplex channel with contention: unslotted CSMA-CA of IEEE 802.15.4, with backoffs,
    /// collisions, acknowledgements and retransmissions. An `up` loss applies to each transmission.
    Csma(#[schemars(with = "At<Foreign<CsmaSpec>>")] CsmaSpec),
    /// One half-duplex channel with the contention of Wi-Fi (DCF): backoffs, collisions, aggregation,
    /// acknowledgements and retransmissions. An `up` loss applies to each transmission of a frame
    Wifi(#[schemars(with = "At<Foreign<WifiSpec>>")] WifiSpec),
    /// Radio channels on which LoRa devices send at random, without sensing them: packets that overlap
    /// on the same channel and spreading factor collide. For links with `lora`
    Aloha(#[schemars(with = "At<Foreign<AlohaSpec>>")] AlohaSpec),
}

/// Capacities of a cell.
#[derive(Debug, Clone, Copy, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "CellChannel")]
pub(crate) struct Cell {
    /// Uplink capacity, shared by all nodes.
    #[schemars(required, with = "At<Rate>")]
    pub up: Rate,
    /// Downlink capacity, shared by all nodes.
    #[schemars(required, with = "At<Rate>")]
    pub down: Rate,
}

impl Read for Cell {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a cell", sink)?;
        let (up, down) = (fields.required("up"), fields.required("down"));
        fields.finish();
        Some(Self { up: up?, down: down? })
    }
}

impl Read for Channel {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        match &node.content {
            Content::Scalar(text) if text == "switch" => Some(Self::Switch),
            Content::Map(_) => {
                let mut fields = Fields::of(node, "a channel", sink)?;
                let cell = fields.optional("cell").map(Self::Cell);
                let csma: Option<Foreign<CsmaSpec>> = fields.optional("csma");
                let wifi: Option<Foreign<WifiSpec>> = fields.optional("wifi");
                let aloha: Option<Foreign<AlohaSpec>> = fields.optional("aloha");
                // A channel of no kind is reported as one without `shared`, the simplest.
                let shared =
                    match ["cell", "csma", "wifi", "aloha"].iter().any(|kind| fields.has(kind)) {
                        true => fields.optional("shared"),
                        false => fields.required("shared"),
                    };
                fields.finish();
                let csma = csma.map(|csma| Self::Csma(csma.0));
                let aloha = aloha.map(|aloha| Self::Aloha(aloha.0));
                let wifi = wifi.map(|wifi| Self::Wifi(wifi.0));
                let kinds = [cell, csma, wifi, aloha, shared.map(Self::Shared)];
                let mut given = kinds.into_iter().flatten();
                let first = given.next();
                if given.next().is_some() {
                    let problem = Problem::new("a network has only one channel").at(node.place);
                    sink.add(
                        problem.label("use one of `shared`, `cell`, `csma`, `wifi` and `aloha`"),
                    );
                }
                first
            }
            _ => {
                let what = "`switch`, `{shared: 250 kbit/s}`, `{cell: {up: 5 Mbit/s, down: 10 \
                            Mbit/s}}`, `{csma: {}}`, `{wifi: {}}` or `{aloha: {}}`";
                sink.expected(what, node);
                None
            }
        }
    }
}

/// Impairments of a link in both directions.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Link {
    /// Uplink: from the node into the network.
    pub up: Option<Impairment>,
    /// Downlink: from the network to the node.
    pub down: Option<Impairment>,
    /// Radio states of each node, for both directions.
    pub states: Option<At<Foreign<StatesSpec>>>,
    /// Technology profile, by its name (`thingbed profiles`) or the path of its file, for all
    /// values that are not set here. `none` if the network has a profile and this group has none.
    /// Values: name, path or `none`. Default: the network's.
    pub profile: Option<At<String>>,
}

impl Read for Link {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a link", sink)?;
        let link = Self {
            up: fields.optional("up"),
            down: fields.optional("down"),
            states: fields.optional("states"),
            // `profile::expand` has filled in its values already.
            profile: fields.optional("profile"),
        };
        fields.finish();
        Some(link)
    }
}
