//! The plan: an experiment resolved for one run, with all nodes, addresses, links and schedules.

mod broker;
mod dhcp;
mod machine;
mod network;
mod node;
mod platform;
mod reception;
mod route;
mod way;

pub use self::broker::{BROKER_NAME, BrokerKind, MQTT_PORT, PlannedBroker};
pub use self::dhcp::POOL_LIMIT;
pub(crate) use self::dhcp::{learned_gateways, routers_of};
pub use self::machine::PlannedMachine;
pub(crate) use self::network::QUERY_INTERVAL;
pub use self::network::{
    Backend, PlannedChange, PlannedChangeKind, PlannedNetwork, PlannedVlan, SourceAddresses,
};
pub use self::node::{
    PlannedBridge, PlannedCpu, PlannedLimits, PlannedLink, PlannedNode, PlannedProfile,
    PlannedRoot, PlannedServices,
};
pub use self::platform::PlannedPlatform;
pub use self::route::PlannedRoute;
pub use self::way::Way;
pub(crate) use self::way::way;

use crate::exchange::Exchange;
use crate::fault::PlannedFault;
use crate::load::{Device, Load, Probe};
use crate::mqtt::Mqtt;
use crate::problem::{Errors, Problem};
use crate::program_check::ProgramCheck;
use crate::program_metric::ProgramMetric;
use indexmap::IndexMap;
use record::Cell;
use record::{DirectorModel, InteractionPattern};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use units::{Bytes, Rate, Ratio, Span};

/// The plan of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the experiment.
    pub experiment: String,
    /// Cell of the matrix.
    pub cell: Cell,
    /// Seed of all random draws.
    pub seed: u64,
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// All nodes, group by group.
    pub nodes: Vec<PlannedNode>,
    /// All networks.
    pub networks: Vec<PlannedNetwork>,
    /// All workloads.
    pub workloads: Vec<Workload>,
    /// Faults injected into nodes' programs, ordered by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<PlannedFault>,
    /// Frame capture. `None`: no capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<PlannedCapture>,
    /// Whether roles are pinned to separate CPU cores, if the machine has enough.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub affinity: bool,
    /// Duration of the messages.
    pub duration: Span,
    /// Maximum wait after the duration for messages in flight.
    pub drain: Span,
    /// Maximum time until all programs are ready.
    pub setup_limit: Span,
}

impl Plan {
    /// Node `name`.
    pub fn node(&self, name: &str) -> Option<&PlannedNode> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// Network `name`.
    pub fn network(&self, name: &str) -> Option<&PlannedNetwork> {
        self.networks.iter().find(|network| network.name == name)
    }

    /// The network with a broker, and its broker. The checks allow one.
    pub fn broker(&self) -> Option<(&PlannedNetwork, &PlannedBroker)> {
        self.networks.iter().find_map(|network| Some((network, network.mqtt.as_ref()?)))
    }

    /// Whether clients of the broker on node `broker` at `port` connect to the gateway of their node
    /// in place of the broker.
    pub fn has_local_gateway(&self, broker: &str, port: u16) -> bool {
        let own = self.broker().map(|(_, own)| own);
        own.is_some_and(|own| own.broker == BrokerKind::Gateway && own.on == broker)
            && port == MQTT_PORT
    }

    /// How a node reaches a network: by its link to it, or by a route.
    pub fn way(&self, node: &str, network: &str) -> Option<Way<'_>> {
        way(self.node(node)?, self.network(network)?, |name| self.network(name))
    }

    /// Checks that a run has something to measure. A plan without can still be brought up.
    ///
    /// # Errors
    /// If nothing runs, or the run would end at once.
    pub fn check_run(&self) -> Result<(), Errors> {
        let fail = |text: &str, advice: &str| {
            Err(Errors::bare(Problem::new(text.to_owned()).label(advice.to_owned())))
        };
        // The program of an image is unknown until the image is unpacked.
        let programs = self.nodes.iter().any(|n| n.program.is_some() || n.root.is_some());
        if self.workloads.is_empty() && !programs {
            return fail(
                "the experiment runs nothing, so there is nothing to measure",
                "add `workloads`, or `run: [PROGRAM, ...]` to its nodes; to work in it by hand, \
                 start it with `thingbed up`",
            );
        }
        if self.workloads.is_empty() && self.duration == Span::ZERO {
            return fail(
                "the experiment has neither `workloads` nor a `duration`, so its run would \
                 end at once",
                "write for example `duration: 60 s`; to work in it by hand, start it with \
                 `thingbed up`",
            );
        }
        Ok(())
    }

    /// Seed of this run's impairment decisions, derived from the experiment's seed and the repeat:
    /// repeats differ, and all cells of a repeat see the same.
    pub fn impairment_seed(&self) -> u64 {
        // A large odd constant, so that seed 7 repeat 1 differs from seed 8 repeat 0.
        // It is 2^64 divided by the golden ratio, the increment of SplitMix64 (Steele et al.,
        // 2014).
        self.seed.wrapping_add(u64::from(self.repeat).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Frame capture of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCapture {
    /// Nodes to capture; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Networks to capture; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// Capture filter in libpcap's syntax. `None`: all frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Snapshot length. `None`: whole frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snap: Option<Bytes>,
}

/// A workload of nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Messages from a source to sinks, each answered.
    Interaction(Interaction),
    /// Messages that clients publish through a broker to subscribers.
    Mqtt(Mqtt),
    /// Payloads that sources send to sinks, each exchange measured separately.
    Exchange(Exchange),
    /// Requests on a schedule.
    Load(Load),
    /// Devices that answer requests after configured service times.
    Device(Device),
    /// Probes for contention.
    Probe(Probe),
    /// An unmodified program.
    Command(Command),
}

impl Workload {
    /// Network of its messages. `None`: a workload without one, such as a command.
    pub fn network(&self) -> Option<&str> {
        match self {
            Self::Interaction(interaction) => Some(&interaction.network),
            Self::Mqtt(mqtt) => Some(&mqtt.network),
            Self::Exchange(exchange) => Some(&exchange.network),
            Self::Load(load) => load.network.as_deref(),
            Self::Device(_) | Self::Probe(_) | Self::Command(_) => None,
        }
    }

    /// Nodes that exchange its messages.
    pub fn ends(&self) -> BTreeSet<&str> {
        let ends: Vec<&String> = match self {
            Self::Interaction(one) => std::iter::once(&one.source).chain(&one.sinks).collect(),
            Self::Mqtt(one) => {
                let clients = one.publishers.iter().chain(&one.subscribers);
                clients.chain(std::iter::once(&one.broker)).collect()
            }
            Self::Exchange(one) => {
                one.sources.iter().chain(&one.sinks).chain(&one.brokers).collect()
            }
            Self::Load(one) => one.on.iter().chain(one.targets()).collect(),
            Self::Device(_) | Self::Probe(_) | Self::Command(_) => Vec::new(),
        };
        ends.into_iter().map(String::as_str).collect()
    }

    /// Name in the results.
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
    /// Name in the results.
    pub name: String,
    /// Node that sends.
    pub source: String,
    /// Nodes that receive and answer, in order.
    pub sinks: Vec<String>,
    /// Name of its model in the file.
    pub model: String,
    /// Pattern of messages to the sinks.
    pub down: InteractionPattern,
    /// Pattern of answers to the source.
    pub up: InteractionPattern,
    /// File with the payload of each message; absolute path.
    pub payload: PathBuf,
    /// File with the payload of each answer; absolute path.
    pub reply_payload: PathBuf,
    /// Length of each message, B: the payload file's, plus ten if that has no room for the
    /// message's number.
    pub payload_bytes: u64,
    /// Length of each answer, B.
    pub reply_payload_bytes: u64,
    /// Time between two messages of the source.
    pub every: Span,
    /// Number of messages that the source sends.
    pub messages: u64,
    /// Multicast send rate.
    pub multicast_rate: Rate,
    /// The director's initial assumption of frame loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assume_loss: Option<Ratio>,
    /// The director's initial assumption of the round-trip time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assume_round_trip: Option<Span>,
    /// Whether the director starts without knowledge except the packet size.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assume_nothing: bool,
    /// Time after which the director gives up a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Span>,
    /// Models of other protocol stacks that the director may choose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<DirectorModel>,
    /// Node of its MQTT broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker: Option<String>,
    /// Changes of the number of sinks that receive messages; empty for all sinks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fan_out: Vec<FanOut>,
    /// Network of the messages.
    pub network: String,
}

/// From a time on, messages go to the first N sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FanOut {
    /// Time, from the first message.
    pub at: Span,
    /// Number of sinks, from 1 to all.
    pub to: u64,
}

/// An unmodified program, from the start of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// Name in the results.
    pub name: String,
    /// Nodes that run it.
    pub on: Vec<String>,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Variables added to its environment.
    pub env: IndexMap<String, String>,
    /// Whether the run ends without waiting for the program.
    pub background: bool,
    /// Values to find in its output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<ProgramMetric>,
    /// What it must do.
    #[serde(default, skip_serializing_if = "ProgramCheck::is_empty")]
    pub check: ProgramCheck,
}
