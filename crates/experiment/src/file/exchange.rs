//! File format: exchanges.

use super::mqtt::Tls;
use super::stacks::{HttpKeys, OpcuaKeys, QuicKeys};
use crate::limits::{MQTT_QOS, ONE, PORT};
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
    /// Name in the results. Letters, digits, `-`, `_`, `.`. No `.` if `expect` uses it. Default:
    /// `exchange-1` and so on.
    pub name: Option<At<String>>,
    /// Nodes that send payloads. Values: group or node, or a list of these.
    #[schemars(required)]
    pub sources: Option<At<OneOrMore<At<String>>>>,
    /// Nodes that receive payloads: one per source, or one for all. Values: group or node, or a
    /// list of these.
    #[schemars(required)]
    pub sinks: Option<At<OneOrMore<At<String>>>>,
    /// Nodes with brokers: one for all, or one per source. Required with `mqtt`; other protocols
    /// ignore it, so that the protocol can be an axis. Values: group or node, or a list of these.
    pub broker: Option<At<OneOrMore<At<String>>>>,
    /// Protocol. Values: `udp`, `tcp`, `coap`, `mqtt`, `opcua`, `http`, `quic`, or a map from one
    /// of these to its keys.
    #[schemars(required)]
    pub protocol: Option<At<Protocol>>,
    /// `new`: each exchange uses a new connection, session or port; `kept`: a pair reuses one.
    /// Default: `new`; `kept` with `observe` and `opcua`.
    pub connection: Option<At<Connection>>,
    /// Payload size, 0 B to 1 MB; at most 65503 B over `udp`. Values: size, list of sizes, or
    /// `{from, to, step}`.
    #[schemars(required)]
    pub payload: Option<At<Payload>>,
    /// Exchanges of each size, over all pairs together. Range: 1 or more. Default: 1.
    #[schemars(extend("minimum" = ONE))]
    pub repetitions: Option<At<u64>>,
    /// First exchanges of each pair, which the figures of exchanges and messages exclude. Default:
    /// 0.
    pub warmup: Option<At<u64>>,
    /// Interval between the starts of a pair's exchanges. Range: above 0.
    #[schemars(required)]
    pub every: Option<At<Span>>,
    /// Shortest time from the end of one exchange to the start of the next. Default: 0 s.
    pub pause: Option<At<Span>>,
    /// Time after which an exchange fails. Range: above 0. Default: 60 s.
    pub timeout: Option<At<Span>>,
    /// Port of the server or the broker. Range: 1 to 65535. Default: 7000; `coap` 5683, with DTLS
    /// and TLS 5684; `mqtt` 1883, with `tls` 8883; `opcua` 4840; `http` 80; `quic` 4433.
    #[schemars(extend("minimum" = PORT.start(), "maximum" = PORT.end()))]
    pub port: Option<At<u32>>,
    /// Certificates: `generated` for the run, or PEM files. MQTT: enables TLS. CoAP: replaces the
    /// pre-shared key. QUIC: always used, default `generated`. OPC UA and HTTP are not encrypted.
    pub tls: Option<At<Tls>>,
    /// TCP timestamps on these nodes, 12 B per segment. Default: the kernel's setting.
    pub tcp_timestamps: Option<At<bool>>,
    /// Network to use, without `offload`. Required if the nodes share more than one. Values: name
    /// of a network. Default: the one that all share.
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
    /// `get`: the sink requests the payload, and needs a separate source; `put`, `post`: the source
    /// sends it; `delete`: the source deletes the resource, without payload. Default: `get`.
    optional method as "method": Method,
    /// Whether messages are confirmable: acknowledged and retransmitted. Default: true; false with
    /// `group`.
    optional confirmable as "confirmable": bool,
    /// Block size. Range: 16 B to 1024 B, a power of two. Default: 1024 B.
    optional block as "block": Bytes,
    /// Transport protocol. Default: `udp`.
    optional transport as "transport": CoapTransport,
    /// Whether the sink observes a resource of the source, which sends notifications. Default:
    /// false.
    optional observe as "observe": bool,
    /// Whether one node requests from all others at once by multicast; the payload must fit into
    /// one block. Default: false.
    optional group as "group": bool,
    /// Whether several blocks are sent at a time: Q-Block (RFC 9177). Refused if libcoap does not
    /// support it. Default: false.
    optional q_block as "q_block": bool,
    /// Time within which group members answer. Range: 1 s or more. Default: 5 s.
    optional leisure as "leisure": Span,
    /// Initial retransmission timeout of a confirmable message. Range: 1 s or more. Default: 2 s.
    optional ack_timeout as "ack_timeout": Span,
    /// Largest number of retransmissions. Default: 4.
    optional max_retransmit as "max_retransmit": u32,
}

super::models::model! {
    /// Options of MQTT.
    MqttKeys, "options of MQTT",
    /// Quality of service. Range: 0, 1 or 2. Default: 0.
    #[schemars(extend("minimum" = MQTT_QOS.start(), "maximum" = MQTT_QOS.end()))]
    optional qos as "qos": u32,
    /// Protocol version. Default: `3.1.1`.
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
