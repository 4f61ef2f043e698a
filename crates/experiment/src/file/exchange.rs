//! File format: exchanges.

use super::mqtt::Tls;
use super::stacks::{HttpKeys, OpcuaKeys, QuicKeys};
use crate::nearest::list;
use crate::problem::Problem;
use crate::read::{At, Fields, OneOrMore, Read, Sink};
use crate::scalar::word;
use crate::source::Place;
use crate::tree::{Content, Node};
use record::{CoapTransport, Connection, Method, MqttVersion};
use schemars::JsonSchema;
use units::{Bytes, Span};

/// Payloads that sources send to sinks by a protocol. Each exchange is measured separately and
/// split into its sections.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Exchange {
    /// Position in the file, for errors about missing keys.
    #[schemars(skip)]
    pub place: Place,
    /// Name in the results. Default: `exchange-1` and so on.
    pub name: Option<At<String>>,
    /// Groups or nodes that send payloads.
    #[schemars(required)]
    pub sources: Option<At<OneOrMore<At<String>>>>,
    /// Groups or nodes that receive payloads: as many as sources, or one for all.
    #[schemars(required)]
    pub sinks: Option<At<OneOrMore<At<String>>>>,
    /// Groups or nodes with brokers: as many as sources, or one for all.
    pub broker: Option<At<OneOrMore<At<String>>>>,
    /// Protocol: a word, or a map from the word to its options.
    #[schemars(required)]
    pub protocol: Option<At<Protocol>>,
    /// Whether each exchange opens a new connection, or all share one.
    pub connection: Option<At<Connection>>,
    /// Payload size, B: a size, a list of sizes, or `{from, to, step}`.
    #[schemars(required)]
    pub payload: Option<At<Payload>>,
    /// Repetitions of each size, over all pairs together. Default: 1.
    pub repetitions: Option<At<u64>>,
    /// Warm-up exchanges of each pair, excluded from all results. Default: 0.
    pub warmup: Option<At<u64>>,
    /// Time from the start of one exchange of a pair to the start of the next.
    #[schemars(required)]
    pub every: Option<At<Span>>,
    /// Minimum time from the end of one exchange to the start of the next. Default: 0 s.
    pub pause: Option<At<Span>>,
    /// Time after which an exchange fails. Default: 60 s.
    pub timeout: Option<At<Span>>,
    /// Port of the server or broker. Default: the protocol's standard port.
    pub port: Option<At<u32>>,
    /// `generated` for certificates made for the run, or files.
    pub tls: Option<At<Tls>>,
    /// Whether TCP uses timestamps, 12 B per segment. Default: the kernel's setting.
    pub tcp_timestamps: Option<At<bool>>,
    /// Network to use, if the nodes share more than one.
    pub network: Option<At<String>>,
}

impl Read for Exchange {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "an exchange", sink)?;
        let start = node.place.start;
        let exchange = Self {
            place: Place { start, end: start },
            name: fields.optional("name"),
            sources: fields.required("sources"),
            sinks: fields.required("sinks"),
            broker: fields.optional("broker"),
            protocol: fields.required("protocol"),
            connection: fields.optional("connection"),
            payload: fields.required("payload"),
            repetitions: fields.optional("repetitions"),
            warmup: fields.optional("warmup"),
            every: fields.required("every"),
            pause: fields.optional("pause"),
            timeout: fields.optional("timeout"),
            port: fields.optional("port"),
            tls: fields.optional("tls"),
            tcp_timestamps: fields.optional("tcp_timestamps"),
            network: fields.optional("network"),
        };
        fields.finish();
        Some(exchange)
    }
}

/// A protocol and its options.
#[derive(Debug)]
pub(crate) enum Protocol {
    /// Plain UDP.
    Udp,
    /// Plain TCP.
    Tcp,
    /// CoAP.
    Coap(Box<CoapKeys>),
    /// MQTT.
    Mqtt(MqttKeys),
    /// OPC UA.
    Opcua(OpcuaKeys),
    /// HTTP/1.1.
    Http(HttpKeys),
    /// QUIC.
    Quic(QuicKeys),
}

impl Protocol {
    /// The protocols' words in the file.
    pub const WORDS: [&str; 7] = ["udp", "tcp", "coap", "mqtt", "opcua", "http", "quic"];

    /// Returns the protocol `name` with the options in `node`.
    fn of(name: &str, node: &Node, sink: &mut Sink) -> Option<Self> {
        let plain = |sink: &mut Sink, protocol| {
            Fields::of(node, "no keys", sink)?.finish();
            Some(protocol)
        };
        match name {
            "udp" => plain(sink, Self::Udp),
            "tcp" => plain(sink, Self::Tcp),
            "coap" => CoapKeys::read(node, sink).map(|keys| Self::Coap(Box::new(keys))),
            "mqtt" => MqttKeys::read(node, sink).map(Self::Mqtt),
            "opcua" => OpcuaKeys::read(node, sink).map(Self::Opcua),
            "http" => HttpKeys::read(node, sink).map(Self::Http),
            "quic" => QuicKeys::read(node, sink).map(Self::Quic),
            _ => None,
        }
    }
}

impl Read for Protocol {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let nothing = Node { content: Content::Nothing, place: node.place };
        let (name, place, chosen) = match &node.content {
            Content::Scalar(name) => (name, node.place, &nothing),
            Content::Map(entries) if entries.len() == 1 => {
                (&entries[0].0.text, entries[0].0.place, &entries[0].1)
            }
            _ => {
                sink.expected("a protocol such as `tcp` or `{coap: {block: 64 B}}`", node);
                return None;
            }
        };
        if !Self::WORDS.contains(&name.as_str()) {
            let problem = Problem::new(format!("unknown protocol `{name}`")).at(place);
            sink.add(problem.label(format!("known: {}", list(&Self::WORDS))));
            return None;
        }
        Self::of(name, chosen, sink)
    }
}

super::models::model! {
    /// Options of CoAP.
    CoapKeys, "options of CoAP",
    /// `get`: the sink requests; `put`, `post`: the source sends; `delete`: the source deletes the
    /// resource, without payload. Default: `get`.
    optional method as "method": Method,
    /// Whether messages are confirmable. Default: true.
    optional confirmable as "confirmable": bool,
    /// Block size, 16 B to 1024 B, a power of two. Default: 1024 B.
    optional block as "block": Bytes,
    /// `udp`, `dtls`, `tcp` or `tls`. Default: `udp`.
    optional transport as "transport": CoapTransport,
    /// Whether the sink observes the resource and the source notifies it. Default: false.
    optional observe as "observe": bool,
    /// Whether one multicast request goes to all nodes at the other end. Default: false.
    optional group as "group": bool,
    /// Whether several blocks are sent at a time (Q-Block, RFC 9177). Default: false.
    optional q_block as "q_block": bool,
    /// Time within which members of a group answer. Default: 5 s.
    optional leisure as "leisure": Span,
    /// Initial acknowledgement timeout of a confirmable message. Default: 2 s.
    optional ack_timeout as "ack_timeout": Span,
    /// Maximum retransmissions. Default: 4.
    optional max_retransmit as "max_retransmit": u32,
}

super::models::model! {
    /// Options of MQTT.
    MqttKeys, "options of MQTT",
    /// Quality of service, 0 to 2. Default: 0.
    optional qos as "qos": u32,
    /// Protocol version. Default: 3.1.1.
    optional version as "version": MqttVersion,
}

/// Payload sizes, B.
#[derive(Debug)]
pub(crate) enum Payload {
    /// One size, or a list.
    Sizes(Vec<At<Bytes>>),
    /// A range with a step.
    Sweep(Sweep),
}

impl Read for Payload {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        match &node.content {
            Content::Map(_) => Sweep::read(node, sink).map(Self::Sweep),
            _ => OneOrMore::read(node, sink).map(|sizes| Self::Sizes(sizes.0)),
        }
    }
}

super::models::model! {
    /// A range of sizes.
    Sweep, "sizes one after the other",
    /// First size.
    #[schemars(required)]
    required from as "from": Bytes,
    /// Last size, if a step hits it exactly.
    #[schemars(required)]
    required to as "to": Bytes,
    /// Step between sizes.
    #[schemars(required)]
    required step as "step": Bytes,
}

/// Words of the file.
macro_rules! words {
    ($($kind:ty),*) => {$(
        impl Read for $kind {
            fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
                word(node, sink)
            }
        }
    )*};
}
words!(Connection, Method, CoapTransport);
