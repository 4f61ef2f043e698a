//! MQTT clients, as typed.

use crate::mqtt::{MqttPattern, MqttVersion};
use crate::problem::Problem;
use crate::read::{At, Fields, OneOrMore, Read, Sink};
use crate::scalar::{Frequency, word};
use crate::source::Place;
use crate::tree::{Content, Node};
use schemars::JsonSchema;
use units::Span;

/// Messages that clients publish by a broker to those who subscribe.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Mqtt {
    /// Where it stands, for errors about what it lacks.
    #[schemars(skip)]
    pub place: Place,
    /// Its name in the results; `mqtt-1` and so on unless given.
    pub name: Option<At<String>>,
    /// The node that the broker runs on: a group of one, or a node.
    #[schemars(required)]
    pub broker: Option<At<String>>,
    /// The port that it listens on; 1883, and 8883 with `tls`, unless given.
    pub port: Option<At<u32>>,
    /// The groups or nodes that publish.
    #[schemars(required)]
    pub publishers: Option<At<OneOrMore<At<String>>>>,
    /// The groups or nodes that subscribe.
    #[schemars(required)]
    pub subscribers: Option<At<OneOrMore<At<String>>>>,
    /// Who publishes to whom.
    #[schemars(required)]
    pub pattern: Option<At<MqttPattern>>,
    /// Quality of service of messages and subscriptions, 0 to 2; 0 unless given.
    pub qos: Option<At<u32>>,
    /// The protocol's version; 3.1.1 unless given.
    pub version: Option<At<MqttVersion>>,
    /// `generated` for certificates made for the run, or files.
    pub tls: Option<At<Tls>>,
    /// The file that each message carries, relative to this file.
    #[schemars(required)]
    pub payload: Option<At<String>>,
    /// Messages of all publishers together, such as `100/s`.
    pub rate: Option<At<Frequency>>,
    /// Time between two messages of all publishers together, in place of `rate`.
    pub every: Option<At<Span>>,
    /// How many messages once all clients have joined, in place of `duration`.
    pub count: Option<At<u64>>,
    /// How long messages are sent once all clients have joined, if not as long as
    /// the experiment says.
    pub duration: Option<At<Span>>,
    /// How long to wait after that, if not as long as the experiment says.
    pub drain: Option<At<Span>>,
    /// Time between two clients' joining, from the start on. Without it all are
    /// there before the start.
    pub join: Option<At<Span>>,
    /// Time after which a client that has nothing to send sends a sign of life; 60 s
    /// unless given.
    pub keep_alive: Option<At<Span>>,
    /// Whether the broker forgets clients whose connection ends; true unless given.
    pub clean_session: Option<At<bool>>,
    /// How long clients wait before they connect again.
    pub reconnect: Option<Reconnect>,
    /// Over which network, if broker and clients share more than one.
    pub network: Option<At<String>>,
}

impl Read for Mqtt {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "an MQTT workload", sink)?;
        let start = node.place.start;
        let mqtt = Self {
            place: Place { start, end: start },
            name: fields.optional("name"),
            broker: fields.required("broker"),
            port: fields.optional("port"),
            publishers: fields.required("publishers"),
            subscribers: fields.required("subscribers"),
            pattern: fields.required("pattern"),
            qos: fields.optional("qos"),
            version: fields.optional("version"),
            tls: fields.optional("tls"),
            payload: fields.required("payload"),
            rate: fields.optional("rate"),
            every: fields.optional("every"),
            count: fields.optional("count"),
            duration: fields.optional("duration"),
            drain: fields.optional("drain"),
            join: fields.optional("join"),
            keep_alive: fields.optional("keep_alive"),
            clean_session: fields.optional("clean_session"),
            reconnect: fields.optional("reconnect"),
            network: fields.optional("network"),
        };
        fields.finish();
        Some(mqtt)
    }
}

/// How long clients wait before they connect again: at first, and at most; it
/// doubles with each failure.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Reconnect {
    /// At first; 0.1 s unless given.
    pub min: Option<At<Span>>,
    /// At most; 5 s unless given.
    pub max: Option<At<Span>>,
}

impl Read for Reconnect {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "reconnect times", sink)?;
        let reconnect = Self { min: fields.optional("min"), max: fields.optional("max") };
        fields.finish();
        Some(reconnect)
    }
}

/// Where certificates come from.
#[derive(Debug)]
pub(crate) enum Tls {
    /// Made for the run.
    Generated,
    /// Files of the user's.
    Files(TlsFiles),
}

impl Read for Tls {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        const WHAT: &str = "`generated`, or files such as `{ca: ca.pem}`";
        match &node.content {
            Content::Scalar(text) if text == "generated" => Some(Self::Generated),
            Content::Map(_) => TlsFiles::read(node, sink).map(Self::Files),
            _ => {
                sink.expected(WHAT, node);
                None
            }
        }
    }
}

/// Files in PEM, relative to the experiment file.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct TlsFiles {
    /// The certificate of whoever signed the broker's.
    #[schemars(required)]
    pub ca: Option<At<String>>,
    /// The clients' own certificate, where the broker asks for one.
    pub cert: Option<At<String>>,
    /// The key that belongs to it.
    pub key: Option<At<String>>,
}

impl Read for TlsFiles {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "files for TLS", sink)?;
        let files = Self {
            ca: fields.required("ca"),
            cert: fields.optional("cert"),
            key: fields.optional("key"),
        };
        if files.cert.is_some() != files.key.is_some() && fields.sink.is_clean() {
            let problem = Problem::new(
                "a client certificate needs its key, and a key its \
                                        certificate",
            )
            .at(node.place);
            fields.sink.add(problem.label("give both `cert` and `key`, or neither"));
        }
        fields.finish();
        Some(files)
    }
}

impl Read for MqttPattern {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

impl Read for MqttVersion {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}
