//! Loads and devices, as typed.

use super::models::model;
use crate::load::Contention;
use crate::read::{At, Fields, Named, OneOrMore, Read, Sink};
use crate::scalar::word;
use crate::tree::{Content, Node};
use schemars::JsonSchema;
use trace::Scheme;
use units::{Bytes, Ratio, Span};

model! {
    /// Requests that nodes send at the moments that a schedule asks for; distributions,
    /// arrivals and mixes are written as for `thingbed load`.
    Load, "a load",
    /// Its name in the results; `load-1` and so on unless given.
    optional name as "name": String,
    /// The groups or nodes that send, each by a schedule of its own.
    #[schemars(required)]
    required on as "on": OneOrMore<At<String>>,
    /// The groups or nodes that are asked.
    optional to as "to": OneOrMore<At<String>>,
    /// A file of requests, in place of `to`, `arrivals` and so on.
    optional trace as "trace": String,
    /// `coap`, `http`, `mqtt`, `udp` or `tcp`; `coap` unless given.
    optional protocol as "protocol": Scheme,
    /// Where they listen; the protocol's usual port unless given.
    optional port as "port": u32,
    /// When requests come to each, such as `exponential:300us`.
    optional arrivals as "arrivals": String,
    /// Whether these are the arrivals of all together; false unless given.
    optional together as "together": bool,
    /// What is asked, such as `GET=9,POST=1`.
    optional method as "method": String,
    /// Of which resources, such as `temperature=3,humidity`.
    optional path as "path": String,
    /// How much requests carry, such as `20B=9,200B=1`.
    optional size as "size": String,
    /// How many requests each sender sends at most.
    optional count as "count": u64,
    /// How long requests come; as long as the experiment says unless given.
    optional duration as "duration": Span,
    /// A closed loop: so many users, each of whom waits for the answer before the next
    /// request. `count` says when it ends.
    optional users as "users": u32,
    /// How long users wait after an answer, such as `exponential:1s`.
    optional think as "think": String,
    /// How long an answer may take, and how long a request waits for a free connection; 2 s
    /// unless given.
    optional timeout as "timeout": Span,
    /// Whether CoAP requests are confirmable; false unless given.
    optional confirmable as "confirmable": bool,
    /// Bytes of a CoAP block, 16 B to 1024 B, a power of two: larger requests are sent in such
    /// blocks, and answers are asked for in them; 1024 B, and the device's choice, unless given.
    optional block as "block": Bytes,
    /// How often a confirmable CoAP message is sent again that is not acknowledged; 0 unless
    /// given.
    optional max_retransmit as "max_retransmit": u32,
    /// The least time until a CoAP message is sent again; 2 s unless given.
    optional ack_timeout as "ack_timeout": Span,
    /// The most time until then, as a multiple of the least; 1.5 unless given.
    optional ack_random_factor as "ack_random_factor": f64,
    /// CoAP interactions that are outstanding to one device at most; without limit unless given.
    optional nstart as "nstart": u32,
    /// For how long CoAP GETs observe their resource; they ask once unless given.
    optional observe as "observe": Span,
    /// Whether answers are waited for; true unless given. UDP and TCP can go without.
    optional answers as "answers": bool,
    /// The quality of service of MQTT messages, 0 or 1; 0 unless given.
    optional qos as "qos": u32,
    /// HTTP connections to one device at most; 16 unless given.
    optional connections as "connections": u32,
    /// Threads that send on each node; 1 unless given.
    optional senders as "senders": u32,
    /// Whether senders look at the clock all the time and never sleep; false unless given.
    optional spin as "spin": bool,
    /// How far behind the schedule the machine may be before it stops; 10 s unless given.
    optional patience as "patience": Span,
    /// Over which network, if the nodes share more than one.
    optional network as "network": String,
}

model! {
    /// Devices whose resources take as long as they are told to.
    Device, "a device",
    /// Its name in the results; `device-1` and so on unless given.
    optional name as "name": String,
    /// The groups or nodes that are devices.
    #[schemars(required)]
    required on as "on": OneOrMore<At<String>>,
    /// The port for CoAP; 5683 if no port is given at all.
    optional coap as "coap": u32,
    /// The port for HTTP/1.1.
    optional http as "http": u32,
    /// The port where datagrams are returned.
    optional udp as "udp": u32,
    /// The port where the bytes of connections are returned.
    optional tcp as "tcp": u32,
    /// Paths and their service times, or a file of resources.
    optional resources as "resources": Resources,
    /// Threads that serve; 1 unless given.
    optional threads as "threads": u32,
    /// So many requests may wait, further ones are refused; 1000 unless given.
    optional queue as "queue": u32,
    /// How much an answer carries; 4 B unless given.
    optional payload as "payload": Bytes,
    /// After which times values change of CoAP resources that are observed, such as
    /// `exponential:1s`; without it nothing can be observed.
    optional notify as "notify": String,
    /// The share of requests that it answers by what is no message.
    optional garbage as "garbage": Ratio,
    /// The share that it answers twice.
    optional twice as "twice": Ratio,
    /// The share that it answers late.
    optional late as "late": Ratio,
    /// How late that is; 3 s unless given.
    optional late_by as "late_by": Span,
    /// The share that it does not answer.
    optional silent as "silent": Ratio,
    /// Whether it looks for requests all the time and never sleeps; false unless given.
    optional spin as "spin": bool,
    /// Whether it tries at the start how well service times are kept; true unless given.
    optional check as "check": bool,
}

model! {
    /// Probes for contention: a sender of its own asks a device of known service time, one
    /// request after the other, on each core.
    Probe, "a probe",
    /// Its name in the results; `probe-1` and so on unless given.
    optional name as "name": String,
    /// The nodes that probe; one looks at all cores.
    #[schemars(required)]
    required on as "on": OneOrMore<At<String>>,
    /// The service time; the mean of the devices' unless given, or 5 ms.
    optional service as "service": Span,
    /// `sleep`, `busy`, or both; both unless given.
    optional mode as "mode": OneOrMore<At<String>>,
    /// From one request of a probe to its next; 1 s unless given.
    optional every as "every": Span,
    /// The cores that are looked at; all unless given.
    optional cores as "cores": OneOrMore<At<u32>>,
    /// `report` or `abort`: whether a run ends that is contended; `report` unless given.
    optional contention as "contention": Contention,
    /// By how much more than the service time answers may take; 10 % unless given.
    optional limit as "limit": Ratio,
}

/// What a device serves.
#[derive(Debug, Clone)]
pub(crate) enum Resources {
    /// Lines of a file.
    File(At<String>),
    /// By path.
    Named(Named<Resource>),
}

impl PartialEq for Resources {
    /// Files that say the same are the same; those by path are never compared.
    fn eq(&self, other: &Self) -> bool {
        matches!((self, other), (Self::File(a), Self::File(b)) if a.value == b.value)
    }
}

impl Read for Resources {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        match &node.content {
            Content::Scalar(_) => At::read(node, sink).map(Self::File),
            _ => Named::read(node, sink).map(Self::Named),
        }
    }
}

/// A resource's service time.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    /// A distribution, such as `exponential:5ms`.
    pub time: At<String>,
    /// `sleep` or `busy`.
    pub mode: Option<At<String>>,
}

impl Read for Resource {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        if let Content::Scalar(_) = node.content {
            return At::read(node, sink).map(|time| Self { time, mode: None });
        }
        let mut fields = Fields::of(node, "a service time", sink)?;
        let (time, mode) = (fields.required("time"), fields.optional("mode"));
        fields.finish();
        Some(Self { time: time?, mode })
    }
}

impl Read for Contention {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

impl Read for Scheme {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}
