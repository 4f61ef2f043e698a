//! File format: networks and their impairments.

use crate::file::foreign::Foreign;
use crate::file::impairment::Impairment;
use crate::file::timetable::Change;
use crate::plan::{Backend, SourceAddresses};
use crate::problem::Problem;
use crate::read::{At, Fields, Named, OneOrMore, Read, Sink};
use crate::scalar::{Word, word};
use crate::subnet::Subnet;
use crate::tree::{Content, Node};
use link::{CsmaSpec, StatesSpec};
use schemars::JsonSchema;
use units::{Bytes, Rate, Span};

/// A network segment that nodes attach to.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Network {
    /// Groups, or single nodes of groups, on the network; they get addresses in this order.
    #[schemars(required)]
    pub attach: Option<At<OneOrMore<At<String>>>>,
    /// Subnet of its addresses, such as `10.0.0.0/16` or `fd00::/64`, or a list of one of IPv4 and
    /// one of IPv6. Workloads use the first.
    #[schemars(required)]
    pub subnet: Option<At<OneOrMore<At<Subnet>>>>,
    /// MTU: the largest IP packet. Default: 1500 B.
    pub mtu: Option<At<Bytes>>,
    /// Whether nodes leave TCP segmentation to their interfaces (offload), as fast machines do. Only
    /// with `backend: netem`, which treats all segments of a write as one packet.
    pub offload: Option<At<bool>>,
    /// Impairments: a name from `profiles`, or a link profile, by its name (`thingbed profiles`) or
    /// the path of its file. With a link profile, `channel`, `links` and `mtu` override its values.
    /// Default: the network's `channel` and `links`, else no impairments.
    pub profile: Option<At<String>>,
    /// Backend of the impairments: `medium`, or the kernel's `netem`. Default: `medium`.
    pub backend: Option<At<Backend>>,
    /// How the links share the network. Default: `switch`.
    pub channel: Option<At<Channel>>,
    /// Impairments by group, or by node where a node differs from its group.
    pub links: Option<Named<Link>>,
    /// Whether a gateway connects the network to the outside by NAT. Default: false.
    pub nat: Option<At<bool>>,
    /// Whether a DHCP server assigns addresses. Default: false.
    pub dhcp: Option<At<bool>>,
    /// Whether a DNS server resolves the names of all nodes. Default: false.
    pub dns: Option<At<bool>>,
    /// Source Ethernet addresses that nodes may use: `any`, as on a switch, so that bridges and
    /// virtual machines in nodes work, or `own`. Default: `any`.
    pub source_addresses: Option<At<SourceAddresses>>,
    /// Interval of multicast group queries (IGMP, MLD). They start when a node joins a group or
    /// sends to one. Default: 125 s; `0 s` disables them.
    pub query_interval: Option<At<Span>>,
    /// Timetable: changes during a run, each at a time from the start of the impairments.
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
            source_addresses: fields.optional("source_addresses"),
            query_interval: fields.optional("query_interval"),
            timetable: fields.optional("timetable"),
        };
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
    /// How the links share the network. Default: `switch`.
    pub channel: Option<At<Channel>>,
    /// Impairments by group; other groups have none.
    pub links: Option<Named<Link>>,
    /// Changes during a run, in addition to the network's timetable.
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
    /// Separate full-duplex links.
    Switch,
    /// One half-duplex channel of this rate for all: one frame at a time.
    Shared(#[schemars(with = "At<Rate>")] Rate),
    /// One capacity shared by all uplinks, and one by all downlinks.
    Cell(#[schemars(with = "Cell")] Cell),
    /// One half-duplex channel with contention (CSMA-CA, IEEE 802.15.4).
    Csma(#[schemars(with = "At<Foreign<CsmaSpec>>")] CsmaSpec),
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
                let other = fields.has("cell") || fields.has("csma");
                let shared = match other {
                    true => fields.optional("shared"),
                    false => fields.required("shared"),
                };
                fields.finish();
                let kinds = [cell, csma.map(|csma| Self::Csma(csma.0)), shared.map(Self::Shared)];
                let mut given = kinds.into_iter().flatten();
                let first = given.next();
                if given.next().is_some() {
                    let problem = Problem::new("a network has only one channel").at(node.place);
                    sink.add(problem.label("use one of `shared`, `cell` and `csma`"));
                }
                first
            }
            _ => {
                let what = "`switch`, `{shared: 250 kbit/s}`, `{cell: {up: 5 Mbit/s, down: 10 \
                            Mbit/s}}` or `{csma: {}}`";
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
    /// States of the node's radio, which apply to both directions.
    pub states: Option<At<Foreign<StatesSpec>>>,
    /// A link profile, by its name (`thingbed profiles`) or the path of its file. `up`, `down` and
    /// `states` override its values. `none` if the network has a profile and this group has none.
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
