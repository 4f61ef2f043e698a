//! What nodes do, as typed.

use crate::file::{Device, Exchange, Load, Mqtt, Probe};
use crate::pattern::{InteractionPattern, OutsideModel};
use crate::problem::Problem;
use crate::read::{At, Fields, Fixed, Named, OneOrMore, Read, Sink};
use crate::source::Place;
use crate::tree::{Content, Node};
use schemars::JsonSchema;
use units::{Rate, Ratio, Span};

/// Which protocols and patterns messages and their answers use.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Model {
    /// How messages go from the source to the sinks.
    #[schemars(required)]
    pub down: Option<At<InteractionPattern>>,
    /// How answers go from the sinks to the source.
    #[schemars(required)]
    pub up: Option<At<InteractionPattern>>,
    /// Time between two messages of the source.
    pub every: Option<At<Span>>,
    /// How many messages; by default as many as the duration holds.
    pub count: Option<At<u64>>,
    /// How long messages are sent, if not as long as the experiment says.
    pub duration: Option<At<Span>>,
    /// How long to wait for what is still on its way, if not as long as the
    /// experiment says: what is never sent again need not be waited for.
    pub drain: Option<At<Span>>,
    /// The rate that multicast is sent with. By default the network's own: its
    /// shared rate, else its slowest link's, else 100 Mbit/s.
    pub multicast_rate: Option<At<Rate>>,
    /// The share of frames lost that the director takes for granted before it has
    /// seen any.
    pub assume_loss: Option<At<Ratio>>,
    /// The round trip that it takes for granted before it has seen one.
    pub assume_round_trip: Option<At<Span>>,
    /// Models of other stacks that the director may choose as well.
    pub outside: Option<At<OneOrMore<At<OutsideModel>>>>,
    /// The node that its MQTT broker runs on, at port 1883: a group of one, or a node.
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

/// Something that runs on nodes.
#[derive(Debug, JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(crate) enum Workload {
    /// Messages from a source to sinks, each answered, both ways measured.
    Interaction(Box<Interaction>),
    /// Messages that clients publish by a broker to those who subscribe.
    Mqtt(Box<Mqtt>),
    /// Payloads that go from sources to sinks, each exchange by itself.
    Exchange(Box<Exchange>),
    /// Requests at the moments that a schedule asks for.
    Load(Box<Load>),
    /// Devices that answer requests after given service times.
    Device(Box<Device>),
    /// Probes that look for contention.
    Probe(Box<Probe>),
    /// A program, unmodified, from the start of the run.
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
                let stranger = entries.iter().find(|(key, _)| !known.contains(&&*key.text));
                let (key, _) = stranger.unwrap_or(&entries[1]);
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
    /// Where it stands, for errors about what it lacks.
    #[schemars(skip)]
    pub place: Place,
    /// Its name in the results; `interaction-1` and so on unless given.
    pub name: Option<At<String>>,
    /// The node that sends: a group of one, or a node such as `meter-1`.
    #[schemars(required)]
    pub source: Option<At<String>>,
    /// The groups or nodes that receive and answer.
    #[schemars(required)]
    pub sinks: Option<At<OneOrMore<At<String>>>>,
    /// A name from `models`.
    #[schemars(required)]
    pub model: Option<At<String>>,
    /// The file that each message carries, relative to this file.
    #[schemars(required)]
    pub payload: Option<At<String>>,
    /// The file that each answer carries; the payload's unless given.
    pub reply_payload: Option<At<String>>,
    /// Time between two messages; overrides the model's.
    pub every: Option<At<Span>>,
    /// How many messages; overrides the model's.
    pub count: Option<At<u64>>,
    /// How long messages are sent; overrides the model's and the experiment's.
    pub duration: Option<At<Span>>,
    /// How long to wait after that; overrides the model's and the experiment's.
    pub drain: Option<At<Span>>,
    /// To how many of the sinks messages go from when on: the director's alone.
    pub fan_out: Option<At<Vec<FanOut>>>,
    /// Over which network, if source and sinks share more than one.
    pub network: Option<At<String>>,
}

/// From a time on messages go to so many sinks, the first ones.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct FanOut {
    /// When, from the first message.
    #[schemars(required)]
    pub at: Option<At<Span>>,
    /// To how many.
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

/// A program that runs on nodes as it is.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Command {
    /// Its name in the results; `command-1` and so on unless given.
    pub name: Option<At<String>>,
    /// The groups or nodes that it runs on.
    #[schemars(required)]
    pub on: Option<At<OneOrMore<At<String>>>>,
    /// The program and its arguments.
    #[schemars(required)]
    pub run: Option<Fixed<Vec<At<String>>>>,
    /// Variables added to its environment.
    pub env: Option<Named<At<String>>>,
    /// Whether the run ends without waiting for it; false unless given.
    pub background: Option<At<bool>>,
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
        };
        fields.finish();
        Some(command)
    }
}
