//! Networks and what they do to frames, as typed.

use crate::file::foreign::Foreign;
use crate::file::impairment::Impairment;
use crate::file::timetable::Entry;
use crate::plan::{Backend, SourceAddresses};
use crate::problem::Problem;
use crate::read::{At, Fields, Named, OneOrMore, Read, Sink};
use crate::scalar::{Word, word};
use crate::subnet::Subnet;
use crate::tree::{Content, Node};
use medium::{CsmaSpec, StatesSpec};
use schemars::JsonSchema;
use units::{Bytes, Rate, Span};

/// A segment that nodes attach to.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Network {
    /// The groups on it; they get addresses in this order.
    #[schemars(required)]
    pub attach: Option<At<OneOrMore<At<String>>>>,
    /// Where its addresses come from, such as `10.0.0.0/16`.
    #[schemars(required)]
    pub subnet: Option<At<Subnet>>,
    /// The largest IP packet; 1500 B unless given.
    pub mtu: Option<At<Bytes>>,
    /// Whether nodes leave the cutting of TCP into segments to their interfaces, as
    /// fast machines do: TCP is carried faster, and everything else slower. Not with
    /// an MTU below 1280 B, nor on a `csma` channel.
    pub offload: Option<At<bool>>,
    /// What it does to frames: a name from `profiles`, or a profile of links, by its
    /// name (`thingbed profiles`) or the path of its file; then `channel`, `links` and
    /// `mtu` say what is otherwise. Without one, and without `channel` and `links` of
    /// its own, nothing.
    pub profile: Option<At<String>>,
    /// Who makes the impairments: the `medium` (unless given), or the kernel's
    /// `netem`.
    pub backend: Option<At<Backend>>,
    /// How its links share it; `switch` unless given.
    pub channel: Option<At<Channel>>,
    /// Impairments by group.
    pub links: Option<Named<Link>>,
    /// Whether a gateway on it leads to the outside, by NAT; false unless given.
    pub nat: Option<At<bool>>,
    /// Whether a server on it gives addresses to those who ask; false unless given.
    pub dhcp: Option<At<bool>>,
    /// Whether a server on it knows the names of all nodes; false unless given.
    pub dns: Option<At<bool>>,
    /// From which Ethernet addresses nodes may send: `any` (unless given), as a switch
    /// lets them, so that bridges and virtual machines in nodes work, or `own`.
    pub source_addresses: Option<At<SourceAddresses>>,
    /// Time between queries for multicast groups (IGMP, MLD), which begin when a node
    /// joins or sends to one; 125 s unless given, `0 s` for none.
    pub query_interval: Option<At<Span>>,
    /// What changes while it runs: see `at`, from the start of the impairments.
    pub timetable: Option<Vec<Entry>>,
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

/// What a network does to frames.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Profile {
    /// How the links share it; `switch` unless given.
    pub channel: Option<At<Channel>>,
    /// Impairments by group; a group that is not named has none.
    pub links: Option<Named<Link>>,
    /// What changes while it runs, beside what a network's own timetable says.
    pub timetable: Option<Vec<Entry>>,
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
    /// Each link by itself, full duplex.
    Switch,
    /// One half-duplex channel of this rate for all: one frame at a time.
    Shared(#[schemars(with = "At<Rate>")] Rate),
    /// A capacity that all share on the way up, and one on the way down.
    Cell(#[schemars(with = "Cell")] Cell),
    /// One half-duplex channel that all contend for (IEEE 802.15.4).
    Csma(#[schemars(with = "At<Foreign<CsmaSpec>>")] CsmaSpec),
}

/// The capacities of a cell.
#[derive(Debug, Clone, Copy, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "CellChannel")]
pub(crate) struct Cell {
    /// Of all nodes together, into the network.
    #[schemars(required, with = "At<Rate>")]
    pub up: Rate,
    /// To all nodes together.
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

/// What is asked of a link each way.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Link {
    /// From the node into the network.
    pub up: Option<Impairment>,
    /// From the network to the node.
    pub down: Option<Impairment>,
    /// The states of the node's radio, which both ways go through.
    pub states: Option<At<Foreign<StatesSpec>>>,
    /// A profile of links, by its name (`thingbed profiles`) or the path of its file;
    /// `up`, `down` and `states` say what is otherwise. `none` where the network has
    /// one and this group has not.
    pub profile: Option<At<String>>,
}

impl Read for Link {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a link", sink)?;
        let link = Self {
            up: fields.optional("up"),
            down: fields.optional("down"),
            states: fields.optional("states"),
            // Its values stand beside it already.
            profile: fields.optional("profile"),
        };
        fields.finish();
        Some(link)
    }
}
