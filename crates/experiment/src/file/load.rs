//! File format: loads, devices and probes.

use super::models::model;
use crate::load::Contention;
use crate::read::{At, Fields, Named, OneOrMore, Read, Sink};
use crate::scalar::word;
use crate::tree::{Content, Node};
use schemars::JsonSchema;
use trace::Scheme;
use units::{Bytes, Ratio, Span};

model! {
    /// Requests that nodes send on a schedule. Distributions, arrivals and mixes use the syntax of
    /// `thingbed load`.
    Load, "a load",
    /// Name in the results. Default: `load-1` and so on.
    optional name as "name": String,
    /// Groups or nodes that send, each on a separate schedule.
    #[schemars(required)]
    required on as "on": OneOrMore<At<String>>,
    /// Groups or nodes that receive the requests.
    optional to as "to": OneOrMore<At<String>>,
    /// A file of requests, in place of `to`, `arrivals` and so on.
    optional trace as "trace": String,
    /// `coap`, `http`, `mqtt`, `udp` or `tcp`. Default: `coap`.
    optional protocol as "protocol": Scheme,
    /// Port of the receivers. Default: the protocol's standard port.
    optional port as "port": u32,
    /// Arrivals of requests at each receiver, such as `exponential:300us`.
    optional arrivals as "arrivals": String,
    /// Whether `arrivals` is the total of all receivers. Default: false.
    optional together as "together": bool,
    /// Mix of methods, such as `GET=9,POST=1`.
    optional method as "method": String,
    /// Mix of resources, such as `temperature=3,humidity`.
    optional path as "path": String,
    /// Mix of request payload sizes, such as `20B=9,200B=1`.
    optional size as "size": String,
    /// Maximum number of requests of each sender.
    optional count as "count": u64,
    /// Duration of the load. Default: the experiment's.
    optional duration as "duration": Span,
    /// Number of users of a closed loop: each waits for the answer before it sends the next
    /// request. `count` ends it.
    optional users as "users": u32,
    /// Think time after an answer, such as `exponential:1s`.
    optional think as "think": String,
    /// Timeout of an answer, and of the wait for a free connection. Default: 2 s.
    optional timeout as "timeout": Span,
    /// Whether CoAP requests are confirmable. Default: false.
    optional confirmable as "confirmable": bool,
    /// CoAP block size, 16 B to 1024 B, a power of two: larger requests are sent in such blocks,
    /// and answers are requested in them. Default: 1024 B for requests, the device's choice for
    /// answers.
    optional block as "block": Bytes,
    /// Maximum retransmissions of an unacknowledged confirmable CoAP message. Default: 0.
    optional max_retransmit as "max_retransmit": u32,
    /// Minimum time until a CoAP message is retransmitted. Default: 2 s.
    optional ack_timeout as "ack_timeout": Span,
    /// Maximum time until retransmission, as a multiple of the minimum. Default: 1.5.
    optional ack_random_factor as "ack_random_factor": f64,
    /// Maximum outstanding CoAP interactions per device. Default: unlimited.
    optional nstart as "nstart": u32,
    /// How long CoAP GETs observe their resource. Default: one request, no observation.
    optional observe as "observe": Span,
    /// Whether senders wait for answers. Default: true. UDP and TCP can do without.
    optional answers as "answers": bool,
    /// Quality of service of MQTT messages, 0 or 1. Default: 0.
    optional qos as "qos": u32,
    /// Maximum HTTP connections per device. Default: 16.
    optional connections as "connections": u32,
    /// Sender threads per node. Default: 1.
    optional senders as "senders": u32,
    /// Whether senders busy-wait instead of sleeping. Default: false.
    optional spin as "spin": bool,
    /// Maximum lag behind the schedule before the load is aborted. Default: 10 s.
    optional patience as "patience": Span,
    /// Network to use, if the nodes share more than one.
    optional network as "network": String,
}

model! {
    /// Devices that answer requests after configured service times.
    Device, "a device",
    /// Name in the results. Default: `device-1` and so on.
    optional name as "name": String,
    /// Groups or nodes that are devices.
    #[schemars(required)]
    required on as "on": OneOrMore<At<String>>,
    /// CoAP port. Default: 5683, if no port is given at all.
    optional coap as "coap": u32,
    /// HTTP/1.1 port.
    optional http as "http": u32,
    /// UDP echo port.
    optional udp as "udp": u32,
    /// TCP echo port.
    optional tcp as "tcp": u32,
    /// Paths and their service times, or a file of resources.
    optional resources as "resources": Resources,
    /// Worker threads. Default: 1.
    optional threads as "threads": u32,
    /// Queue limit in requests; the device refuses further ones. Default: 1000.
    optional queue as "queue": u32,
    /// Payload of an answer. Default: 4 B.
    optional payload as "payload": Bytes,
    /// Time between changes of observed CoAP resources, such as `exponential:1s`. Without it, no
    /// resource is observable.
    optional notify as "notify": String,
    /// Share of requests answered with a corrupt message.
    optional corrupt as "corrupt": Ratio,
    /// Share of requests answered twice.
    optional duplicate as "duplicate": Ratio,
    /// Share of requests answered late.
    optional late as "late": Ratio,
    /// Delay of late answers. Default: 3 s.
    optional late_by as "late_by": Span,
    /// Share of requests not answered.
    optional silent as "silent": Ratio,
    /// Whether the device busy-waits instead of sleeping. Default: false.
    optional spin as "spin": bool,
    /// Whether the device checks the accuracy of its service times at the start. Default: true.
    optional check as "check": bool,
}

model! {
    /// Contention probes: on each core, a dedicated sender sends requests of known service time to
    /// a dedicated device, one after the other.
    Probe, "a probe",
    /// Name in the results. Default: `probe-1` and so on.
    optional name as "name": String,
    /// Nodes that probe; one node covers all cores.
    #[schemars(required)]
    required on as "on": OneOrMore<At<String>>,
    /// Service time. Default: the mean of the devices', or 5 ms.
    optional service as "service": Span,
    /// `sleep`, `busy`, or both. Default: both.
    optional mode as "mode": OneOrMore<At<String>>,
    /// Time from one request of a probe to the next. Default: 1 s.
    optional every as "every": Span,
    /// Cores to probe. Default: all.
    optional cores as "cores": OneOrMore<At<u32>>,
    /// `report` or `abort`: whether contention aborts the run. Default: `report`.
    optional contention as "contention": Contention,
    /// Tolerance of the answer time above the service time. Default: 10 %.
    optional limit as "limit": Ratio,
}

/// Resources of a device.
#[derive(Debug, Clone)]
pub(crate) enum Resources {
    /// A file, one resource per line.
    File(At<String>),
    /// Resources by path.
    Named(Named<Resource>),
}

impl PartialEq for Resources {
    /// Compares file names only; resources by path are never compared.
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

/// Service time of a resource.
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
