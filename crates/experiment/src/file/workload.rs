//! File format: workloads.

use crate::file::{Device, Exchange, Load, Metric, Mqtt, Probe, ProgramExpect};
use crate::pattern::OutsideModel;
use crate::problem::Problem;
use crate::read::{At, Fields, Fixed, Named, OneOrMore, Read, Sink};
use crate::source::Place;
use crate::tree::{Content, Node};
use record::InteractionPattern;
use schemars::JsonSchema;
use units::{Rate, Ratio, Span};

/// Interaction model: protocols and patterns of messages and answers.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Model {
    /// Pattern of messages from the source to the sinks.
    #[schemars(required)]
    pub down: Option<At<InteractionPattern>>,
    /// Pattern of answers from the sinks to the source.
    #[schemars(required)]
    pub up: Option<At<InteractionPattern>>,
    /// Time between two messages of the source.
    pub every: Option<At<Span>>,
    /// Number of messages. Default: as many as fit into the duration.
    pub count: Option<At<u64>>,
    /// Duration of the messages. Default: the experiment's.
    pub duration: Option<At<Span>>,
    /// Maximum wait for messages in flight. Default: the experiment's. It can be short where lost
    /// messages are never retransmitted.
    pub drain: Option<At<Span>>,
    /// Multicast send rate. Default: the network's shared rate, else the rate of its slowest link,
    /// else 100 Mbit/s.
    pub multicast_rate: Option<At<Rate>>,
    /// The director's assumption of frame loss before its first measurement.
    pub assume_loss: Option<At<Ratio>>,
    /// The director's assumption of the round-trip time before its first measurement.
    pub assume_round_trip: Option<At<Span>>,
    /// Models of other protocol stacks that the director may also choose.
    pub outside: Option<At<OneOrMore<At<OutsideModel>>>>,
    /// Node of the MQTT broker, on port 1883: a group of one, or a node.
    pub broker: Option<At<String>>,
}

impl Read for Model {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "an interaction model", sink)?;
        let model = Self {
            down: fields.required("down"),
            up: fields.required("up"),
            every: fields.optional("every"),
            count: fields.optional("count"),
            duration: fields.optional("duration"),
            drain: fields.optional("drain"),
            multicast_rate: fields.optional("multicast_rate"),
            assume_loss: fields.optional("assume_loss"),
            assume_round_trip: fields.optional("assume_round_trip"),
            outside: fields.optional("outside"),
            broker: fields.optional("broker"),
        };
        fields.finish();
        Some(model)
    }
}

/// A workload of nodes.
#[derive(Debug, JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(crate) enum Workload {
    /// Messages from a source to sinks, each answered; both directions are measured.
    Interaction(Box<Interaction>),
    /// Messages that clients publish through a broker to subscribers.
    Mqtt(Box<Mqtt>),
    /// Payloads that sources send to sinks, each exchange measured separately.
    Exchange(Box<Exchange>),
    /// Requests on a schedule.
    Load(Box<Load>),
    /// Devices that answer requests after configured service times.
    Device(Box<Device>),
    /// Probes for contention.
    Probe(Box<Probe>),
    /// An unmodified program, from the start of the run.
    Command(Box<Command>),
}

impl Read for Workload {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        const WHAT: &str = "`interaction:`, `mqtt:`, `exchange:`, `load:`, `device:`, `probe:` or \
             `command:`";
        match &node.content {
            Content::Map(entries) if entries.len() == 1 => {
                let mut fields = Fields::of(node, "a workload", sink)?;
                let interaction =
                    fields.optional("interaction").map(|typed| Self::Interaction(Box::new(typed)));
                let workload = interaction
                    .or(fields.optional("mqtt").map(|typed| Self::Mqtt(Box::new(typed))))
                    .or(fields.optional("exchange").map(|typed| Self::Exchange(Box::new(typed))))
                    .or(fields.optional("load").map(|typed| Self::Load(Box::new(typed))))
                    .or(fields.optional("device").map(|typed| Self::Device(Box::new(typed))))
                    .or(fields.optional("probe").map(|typed| Self::Probe(Box::new(typed))))
                    .or(fields.optional("command").map(|typed| Self::Command(Box::new(typed))));
                fields.finish();
                workload
            }
            Content::Map(entries) if !entries.is_empty() => {
                let known =
                    ["interaction", "mqtt", "exchange", "load", "device", "probe", "command"];
                let unknown = entries.iter().find(|(key, _)| !known.contains(&&*key.text));
                let (key, _) = unknown.unwrap_or(&entries[1]);
                let text =
                    format!("a workload has only one of {WHAT}, found `{}` as well", key.text);
                let problem = Problem::new(text).at(key.place);
                sink.add(problem.label("start a new entry with `-`, or indent this further"));
                None
            }
            _ => {
                sink.expected(WHAT, node);
                None
            }
        }
    }
}

/// Messages from a source to sinks, each answered.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Interaction {
    /// Position in the file, for errors about missing keys.
    #[schemars(skip)]
    pub place: Place,
    /// Name in the results. Default: `interaction-1` and so on.
    pub name: Option<At<String>>,
    /// Node that sends: a group of one, or a node such as `meter-1`.
    #[schemars(required)]
    pub source: Option<At<String>>,
    /// Groups or nodes that receive and answer.
    #[schemars(required)]
    pub sinks: Option<At<OneOrMore<At<String>>>>,
    /// Name of a model in `models`.
    #[schemars(required)]
    pub model: Option<At<String>>,
    /// File with the payload of each message, relative to this file.
    #[schemars(required)]
    pub payload: Option<At<String>>,
    /// File with the payload of each answer. Default: `payload`.
    pub reply_payload: Option<At<String>>,
    /// Time between two messages; overrides the model's.
    pub every: Option<At<Span>>,
    /// Number of messages; overrides the model's.
    pub count: Option<At<u64>>,
    /// Duration of the messages; overrides the model's and the experiment's.
    pub duration: Option<At<Span>>,
    /// Maximum wait after the duration; overrides the model's and the experiment's.
    pub drain: Option<At<Span>>,
    /// Changes of the number of sinks that receive messages. Only with the director.
    pub fan_out: Option<At<Vec<FanOut>>>,
    /// Network to use, if source and sinks share more than one.
    pub network: Option<At<String>>,
}

/// From a time on, messages go to the first N sinks.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct FanOut {
    /// Time, from the first message.
    #[schemars(required)]
    pub at: Option<At<Span>>,
    /// Number of sinks.
    #[schemars(required)]
    pub to: Option<At<u64>>,
}

impl Read for FanOut {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a change of the fan-out", sink)?;
        let change = Self { at: fields.required("at"), to: fields.required("to") };
        fields.finish();
        Some(change)
    }
}

impl Read for Interaction {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "an interaction", sink)?;
        let start = node.place.start;
        let interaction = Self {
            place: Place { start, end: start },
            name: fields.optional("name"),
            source: fields.required("source"),
            sinks: fields.required("sinks"),
            model: fields.required("model"),
            payload: fields.required("payload"),
            reply_payload: fields.optional("reply_payload"),
            every: fields.optional("every"),
            count: fields.optional("count"),
            duration: fields.optional("duration"),
            drain: fields.optional("drain"),
            fan_out: fields.optional("fan_out"),
            network: fields.optional("network"),
        };
        fields.finish();
        Some(interaction)
    }
}

/// An unmodified program on nodes.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Command {
    /// Name in the results. Default: `command-1` and so on.
    pub name: Option<At<String>>,
    /// Groups or nodes that run it.
    #[schemars(required)]
    pub on: Option<At<OneOrMore<At<String>>>>,
    /// The program and its arguments.
    #[schemars(required)]
    pub run: Option<Fixed<Vec<At<String>>>>,
    /// Variables added to its environment.
    pub env: Option<Named<At<String>>>,
    /// Whether the run ends without waiting for the program. Default: false.
    pub background: Option<At<bool>>,
    /// Values that become figures, by name.
    pub metrics: Option<Named<Metric>>,
    /// What it must do; otherwise the run is `failed`.
    pub expect: Option<At<ProgramExpect>>,
}

impl Read for Command {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a command", sink)?;
        let command = Self {
            name: fields.optional("name"),
            on: fields.required("on"),
            run: fields.required("run"),
            env: fields.optional("env"),
            background: fields.optional("background"),
            metrics: fields.optional("metrics"),
            expect: fields.optional("expect"),
        };
        fields.finish();
        Some(command)
    }
}
