//! File format: MQTT workloads.

use crate::limits::{MQTT_QOS, ONE, PORT};
use crate::mqtt::MqttPattern;
use crate::problem::Problem;
use crate::read::{At, Fields, OneOrMore, Read, Sink};
use crate::scalar::{Frequency, word};
use crate::source::Place;
use crate::tree::{Content, Node};
use record::MqttVersion;
use schemars::JsonSchema;
use units::Span;

/// Messages that clients publish through a broker to subscribers.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Mqtt {
    /// Position in the file, for errors about missing keys.
    #[schemars(skip)]
    pub place: Place,
    /// Name in the results. Letters, digits, `-`, `_`, `.`. Default: `mqtt-1` and so on.
    pub name: Option<At<String>>,
    /// The broker's node. Values: a group of one, or a node.
    #[schemars(required)]
    pub broker: Option<At<String>>,
    /// Port of the broker. Range: 1 to 65535. Default: 1883; 8883 with `tls`.
    #[schemars(extend("minimum" = PORT.start(), "maximum" = PORT.end()))]
    pub port: Option<At<u32>>,
    /// Publishing nodes. Values: group or node, or a list of these.
    #[schemars(required)]
    pub publishers: Option<At<OneOrMore<At<String>>>>,
    /// Subscribing nodes. Values: group or node, or a list of these.
    #[schemars(required)]
    pub subscribers: Option<At<OneOrMore<At<String>>>>,
    /// Topology of publishers and subscribers.
    #[schemars(required)]
    pub pattern: Option<At<MqttPattern>>,
    /// Quality of service of messages and subscriptions. Range: 0, 1 or 2. Default: 0.
    #[schemars(extend("minimum" = MQTT_QOS.start(), "maximum" = MQTT_QOS.end()))]
    pub qos: Option<At<u32>>,
    /// Protocol version. Default: `3.1.1`.
    pub version: Option<At<MqttVersion>>,
    /// TLS: with certificates `generated` for the run, or with PEM files.
    pub tls: Option<At<Tls>>,
    /// File with the content of each message, relative to the experiment file, numbered as for interactions.
    /// Values: path.
    #[schemars(required)]
    pub payload: Option<At<String>>,
    /// Message rate of all publishers together, such as `100/s` or `6/min`. This or `every` is
    /// required. Values: number of messages per time.
    pub rate: Option<At<Frequency>>,
    /// Interval between messages of all publishers together, in place of `rate`. Range: above 0.
    pub every: Option<At<Span>>,
    /// Number of messages after all clients have joined. Range: 1 or more. Default: as many as fit
    /// into `duration`.
    #[schemars(extend("minimum" = ONE))]
    pub count: Option<At<u64>>,
    /// How long messages are sent after all clients have joined. Range: above 0. Default: the
    /// experiment's.
    pub duration: Option<At<Span>>,
    /// Longest wait after that for outstanding messages. Default: the experiment's.
    pub drain: Option<At<Span>>,
    /// Interval at which clients join, from the start of the run. Range: above 0. Default: all join
    /// before the start.
    pub join: Option<At<Span>>,
    /// MQTT keep-alive interval: an idle client sends a ping after this time. Range: 5 s to 65535
    /// s, whole seconds. Default: 60 s.
    pub keep_alive: Option<At<Span>>,
    /// Whether the broker discards the session of a client whose connection ends. Default: true.
    pub clean_session: Option<At<bool>>,
    /// Delay before clients connect again. Default: 0.1 s, doubled after each failure up to 5 s.
    pub reconnect: Option<Reconnect>,
    /// Network to use. Required if broker and clients share more than one. Values: name of a
    /// network. Default: the one that all share.
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

/// Wait before clients reconnect. It starts at `min` and doubles with each failure up to `max`.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Reconnect {
    /// First delay; it doubles after each failure. Default: 0.1 s.
    pub min: Option<At<Span>>,
    /// Largest delay. Default: 5 s.
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

/// Source of TLS certificates.
#[derive(Debug)]
pub(crate) enum Tls {
    /// Generated for the run.
    Generated,
    /// The user's files.
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

/// PEM files, relative to the experiment file.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct TlsFiles {
    /// Certificate of the authority (CA) that signed the server's certificate. Values: path.
    #[schemars(required)]
    pub ca: Option<At<String>>,
    /// Client certificate, if the server requires one. Values: path.
    pub cert: Option<At<String>>,
    /// Private key of the client certificate. Values: path.
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
