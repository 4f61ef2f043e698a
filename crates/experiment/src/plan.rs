//! The experiment resolved for one run: every node, address, link and schedule.

mod network;
mod node;

pub use self::network::{
    Backend, PlannedChange, PlannedChannel, PlannedNetwork, PlannedWhat, SourceAddresses,
};
pub use self::node::{
    PlannedCpu, PlannedLimits, PlannedLink, PlannedNode, PlannedProfile, PlannedRoot,
    PlannedServices,
};

use crate::exchange::Exchange;
use crate::fan_out::FanOut;
use crate::fault::PlannedFault;
use crate::load::{Device, Load, Probe};
use crate::matrix::Cell;
use crate::mqtt::Mqtt;
use crate::pattern::{InteractionPattern, OutsideModel};
use crate::problem::{Errors, Problem};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use units::{Bytes, Rate, Ratio, Span};

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

    /// Why it can be brought up, and not run: there is nothing to measure. None if there
    /// is.
    ///
    /// # Errors
    /// What it lacks.
    pub fn check_run(&self) -> Result<(), Errors> {
        let lacking = |text: &str, advice: &str| {
            Err(Errors::bare(Problem::new(text.to_owned()).label(advice.to_owned())))
        };
        // What an image runs is not known before it is unpacked.
        let programs = self.nodes.iter().any(|n| n.program.is_some() || n.root.is_some());
        if self.workloads.is_empty() && !programs {
            return lacking(
                "the experiment runs nothing, so that there is nothing to measure",
                "add `workloads`, or `run: [PROGRAM, ...]` to its nodes; to work in it by hand, \
                 start it with `thingbed up`",
            );
        }
        if self.workloads.is_empty() && self.duration == Span::ZERO {
            return lacking(
                "the experiment has neither `workloads` nor a `duration`, so that its run would \
                 end at once",
                "write for example `duration: 60 s`; to work in it by hand, start it with \
                 `thingbed up`",
            );
        }
        Ok(())
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
