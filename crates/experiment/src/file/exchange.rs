//! Exchanges, as typed.

use super::mqtt::Tls;
use super::stacks::{HttpKeys, OpcuaKeys, QuicKeys};
use crate::exchange::{CoapTransport, Connection, Method};
use crate::mqtt::MqttVersion;
use crate::nearest::list;
use crate::problem::Problem;
use crate::read::{At, Fields, OneOrMore, Read, Sink};
use crate::scalar::word;
use crate::source::Place;
use crate::tree::{Content, Node};
use schemars::JsonSchema;
use units::{Bytes, Span};

/// Payloads that go from sources to sinks by a protocol, each exchange by itself and
/// taken apart into its sections.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Exchange {
    /// Where it stands, for errors about what it lacks.
    #[schemars(skip)]
    pub place: Place,
    /// Its name in the results; `exchange-1` and so on unless given.
    pub name: Option<At<String>>,
    /// The groups or nodes that payloads come from.
    #[schemars(required)]
    pub sources: Option<At<OneOrMore<At<String>>>>,
    /// The groups or nodes that they go to: as many as sources, or one for all.
    #[schemars(required)]
    pub sinks: Option<At<OneOrMore<At<String>>>>,
    /// The groups or nodes with brokers: as many as sources, or one for all.
    pub broker: Option<At<OneOrMore<At<String>>>>,
    /// Over what: a word, or a map of the word to what can be chosen of it.
    #[schemars(required)]
    pub protocol: Option<At<Protocol>>,
    /// Whether each exchange has a connection of its own, or one is kept.
    pub connection: Option<At<Connection>>,
    /// Bytes of payload: a size, a list of them, or `{from, to, step}`.
    #[schemars(required)]
    pub payload: Option<At<Payload>>,
    /// How often each size comes, in all pairs together; 1 unless given.
    pub repetitions: Option<At<u64>>,
    /// Exchanges that each pair has first and that no figure counts; 0 unless given.
    pub warmup: Option<At<u64>>,
    /// From the beginning of one exchange of a pair to that of the next.
    #[schemars(required)]
    pub every: Option<At<Span>>,
    /// The least from the end of one to the beginning of the next; 0 s unless given.
    pub pause: Option<At<Span>>,
    /// How long one may take before it counts as failed; 60 s unless given.
    pub timeout: Option<At<Span>>,
    /// Where the server or the broker listens; the protocol's usual port unless given.
    pub port: Option<At<u32>>,
    /// `generated` for certificates made for the run, or files.
    pub tls: Option<At<Tls>>,
    /// Whether TCP has timestamps, 12 B a segment; as the kernel has it unless given.
    pub tcp_timestamps: Option<At<bool>>,
    /// Over which network, if the nodes share more than one.
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

/// A protocol, with what is chosen of it.
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
    /// The words for them.
    pub const WORDS: [&str; 7] = ["udp", "tcp", "coap", "mqtt", "opcua", "http", "quic"];

    /// The protocol of this name, with what `node` says of it.
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
    /// What can be chosen of CoAP.
    CoapKeys, "options of CoAP",
    /// `get`: the sink asks; `put`, `post`: the source sends; `delete`: it has the
    /// resource removed, without payload. `get` unless given.
    optional method as "method": Method,
    /// Whether messages are confirmed; true unless given.
    optional confirmable as "confirmable": bool,
    /// Bytes of a block, 16 B to 1024 B, a power of two; 1024 B unless given.
    optional block as "block": Bytes,
    /// `udp`, `dtls`, `tcp` or `tls`; `udp` unless given.
    optional transport as "transport": CoapTransport,
    /// Whether the sink observes the resource and the source notifies it; false
    /// unless given.
    optional observe as "observe": bool,
    /// Whether one request goes to all at the other end by multicast; false unless
    /// given.
    optional group as "group": bool,
    /// Whether blocks go several at a time (RFC 9177); false unless given.
    optional q_block as "q_block": bool,
    /// The time within which members of a group answer; 5 s unless given.
    optional leisure as "leisure": Span,
    /// How long a confirmable message waits for its acknowledgement at first; 2 s
    /// unless given.
    optional ack_timeout as "ack_timeout": Span,
    /// How often it is sent again; 4 unless given.
    optional max_retransmit as "max_retransmit": u32,
}

super::models::model! {
    /// What can be chosen of MQTT.
    MqttKeys, "options of MQTT",
    /// Quality of service, 0 to 2; 0 unless given.
    optional qos as "qos": u32,
    /// The protocol's version; 3.1.1 unless given.
    optional version as "version": MqttVersion,
}

/// Bytes of payload.
#[derive(Debug)]
pub(crate) enum Payload {
    /// One size, or several.
    Sizes(Vec<At<Bytes>>),
    /// From one to another.
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
    /// Sizes one after the other.
    Sweep, "sizes one after the other",
    /// The first.
    #[schemars(required)]
    required from as "from": Bytes,
    /// The last, if a step meets it.
    #[schemars(required)]
    required to as "to": Bytes,
    /// From one to the next.
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
