//! File format: workloads.

use crate::file::{Device, Exchange, Load, Metric, Mqtt, Probe, ProgramExpect};
use crate::limits::ONE;
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
    /// Pattern of messages from the source to the sinks. Values: pattern.
    #[schemars(required)]
    pub down: Option<At<InteractionPattern>>,
    /// Pattern of answers from the sinks to the source. Values: pattern.
    #[schemars(required)]
    pub up: Option<At<InteractionPattern>>,
    /// Interval between messages of the source. Range: above 0.
    pub every: Option<At<Span>>,
    /// Number of messages. Range: 1 or more. Default: as many as fit into `duration`.
    #[schemars(extend("minimum" = ONE))]
    pub count: Option<At<u64>>,
    /// How long messages are sent. Range: above 0. Default: the experiment's.
    pub duration: Option<At<Span>>,
    /// Longest wait after that for outstanding messages. It can be short where lost messages are
    /// never retransmitted. Default: the experiment's.
    pub drain: Option<At<Span>>,
    /// Sending rate of PGM and of the director. Range: 8 kbit/s to 10 Gbit/s. Default: the rate of
    /// the network's shared channel, else of its slowest link, else 100 Mbit/s.
    pub multicast_rate: Option<At<Rate>>,
    /// Frame loss that the director assumes before its first measurement. Default: 0 %.
    pub assume_loss: Option<At<Ratio>>,
    /// Round-trip time that the director assumes before its first measurement. Default: 20 ms.
    pub assume_round_trip: Option<At<Span>>,
    /// Whether the director starts without knowledge of the network and of the workload, except the
    /// packet size. It then measures rate, loss and round-trip time. Default: false.
    pub assume_nothing: Option<At<bool>>,
    /// Time after which the director gives up a message and its answers. Range: above 0. Default:
    /// none: it retransmits until the end of the run.
    pub lifetime: Option<At<Span>>,
    /// Models of external protocol stacks that `director` may also choose.
    pub outside: Option<At<OneOrMore<At<OutsideModel>>>>,
    /// Node of the director's MQTT broker, at port 1883. Best started by the node's `run`, with
    /// `ready`. Values: a group of one, or a node.
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
            assume_nothing: fields.optional("assume_nothing"),
            lifetime: fields.optional("lifetime"),
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
    /// Messages from one source to sinks, each answered; both directions are measured.
    Interaction(Box<Interaction>),
    /// Messages that MQTT clients publish to subscribers through a broker.
    Mqtt(Box<Mqtt>),
    /// Payloads of given sizes from sources to sinks, each exchange measured separately.
    Exchange(Box<Exchange>),
    /// Requests at scheduled times.
    Load(Box<Load>),
    /// Emulated devices that answer requests after configured service times.
    Device(Box<Device>),
    /// Probes that detect CPU contention.
    Probe(Box<Probe>),
    /// An unmodified program.
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
    /// Name in the results. Letters, digits, `-`, `_`, `.`. Default: `interaction-1` and so on.
    pub name: Option<At<String>>,
    /// Node that sends. Values: a group of one, or a node such as `meter-1`.
    #[schemars(required)]
    pub source: Option<At<String>>,
    /// Nodes that receive and answer. Values: group or node, or a list of these.
    #[schemars(required)]
    pub sinks: Option<At<OneOrMore<At<String>>>>,
    /// Protocols and patterns: a name in `models`. Values: name of a model.
    #[schemars(required)]
    pub model: Option<At<String>>,
    /// File with the content of each message, relative to the experiment file. Values: path.
    #[schemars(required)]
    pub payload: Option<At<String>>,
    /// File with the content of each answer. Values: path. Default: `payload`.
    pub reply_payload: Option<At<String>>,
    /// Interval between messages. Range: above 0. Default: the model's.
    pub every: Option<At<Span>>,
    /// Number of messages. Range: 1 or more. Default: the model's.
    #[schemars(extend("minimum" = ONE))]
    pub count: Option<At<u64>>,
    /// How long messages are sent. Range: above 0. Default: the model's, else the experiment's.
    pub duration: Option<At<Span>>,
    /// Longest wait after that for outstanding messages; the run uses the longest of all
    /// interactions. Default: the model's, else the experiment's.
    pub drain: Option<At<Span>>,
    /// Changes of the number of sinks that receive messages. Only with `director`. Default: all
    /// sinks.
    pub fan_out: Option<At<Vec<FanOut>>>,
    /// Network to use. Required if source and sinks share more than one. Values: name of a network.
    /// Default: the one that they share.
    pub network: Option<At<String>>,
}

/// From a time on, messages go to the first N sinks.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct FanOut {
    /// Time of the change, from the first message.
    #[schemars(required)]
    pub at: Option<At<Span>>,
    /// Number of sinks: from then on, messages go to the first ones of the list only.
    #[schemars(required)]
    #[schemars(extend("minimum" = ONE))]
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
    /// Name in the results. Letters, digits, `-`, `_`, `.`. Default: `command-1` and so on.
    pub name: Option<At<String>>,
    /// Nodes that run the program, one instance each. Values: group or node, or a list of these.
    #[schemars(required)]
    pub on: Option<At<OneOrMore<At<String>>>>,
    /// The program and its arguments.
    #[schemars(required)]
    pub run: Option<Fixed<Vec<At<String>>>>,
    /// Environment variables to add to those of a node's `run`.
    pub env: Option<Named<At<String>>>,
    /// Whether the run ends without waiting for the program. Default: false.
    pub background: Option<At<bool>>,
    /// Values of the program that become figures, by name.
    pub metrics: Option<Named<Metric>>,
    /// What the program must do; otherwise the run is `failed`.
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
