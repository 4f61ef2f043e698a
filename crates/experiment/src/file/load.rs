//! File format: loads, devices and probes.

use super::models::model;
use crate::limits::{
    CONNECTIONS, DEVICE_QUEUE, DEVICE_THREADS, LOAD_QOS, ONE, PORT, SENDERS, USERS,
};
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
    /// Nodes that send; each has a separate schedule. Values: group or node, or a list of these.
    #[schemars(required)]
    required on as "on": OneOrMore<At<String>>,
    /// Targets; a node's index in the list is its device number. Required without `trace`. Values:
    /// group or node, or a list of these.
    optional to as "to": OneOrMore<At<String>>,
    /// Trace file with requests, in place of `to`, `protocol`, `arrivals` and so on. URIs may
    /// contain node names. Values: path.
    optional trace as "trace": String,
    /// Protocol of the requests. Default: `coap`.
    optional protocol as "protocol": Scheme,
    /// Port of the devices. Range: 1 to 65535. Default: the protocol's; 7000 for `udp` and `tcp`.
    #[schemars(extend("minimum" = PORT.start(), "maximum" = PORT.end()))]
    optional port as "port": u32,
    /// Arrival process of the requests to each device, such as `exponential:300us`. Required in an
    /// open loop.
    optional arrivals as "arrivals": String,
    /// Whether `arrivals` is for all devices together. Default: false.
    optional together as "together": bool,
    /// Weighted mix of methods, such as `GET=9,POST=1`. Default: the protocol's.
    optional method as "method": String,
    /// Weighted mix of resource paths, such as `temperature=3,humidity`.
    optional path as "path": String,
    /// Weighted mix of request payload sizes, such as `20B=9,200B=1`. Default: empty requests.
    optional size as "size": String,
    /// Largest number of requests per sender. Range: 1 or more. Default: no limit.
    #[schemars(extend("minimum" = ONE))]
    optional count as "count": u64,
    /// How long requests are sent. Default: the experiment's.
    optional duration as "duration": Span,
    /// Number of users of a closed loop: each waits for the answer before it sends the next
    /// request. Needs `count`. Reports label the figures as closed loop. Range: 1 to 100000.
    /// Default: none, an open loop.
    #[schemars(extend("minimum" = USERS.start(), "maximum" = USERS.end()))]
    optional users as "users": u32,
    /// Think time: wait of a user after an answer, such as `exponential:1s`. Values: distribution.
    optional think as "think": String,
    /// Longest wait for an answer, and for a free connection. Range: above 0. Default: 2 s.
    optional timeout as "timeout": Span,
    /// Confirmable CoAP requests; without `max_retransmit`, there are no retransmissions. Default:
    /// false.
    optional confirmable as "confirmable": bool,
    /// Block size of larger CoAP requests, and requested block size of answers. Range: 16 B to 1024
    /// B, a power of two. Default: 1024 B; the device chooses for answers.
    optional block as "block": Bytes,
    /// Largest number of retransmissions of an unacknowledged confirmable CoAP message. Needs
    /// `confirmable`, and a `timeout` longer than `ack_timeout`. Range: 0 to 16. Default: 0.
    #[schemars(extend("maximum" = trace::MAX_RETRANSMISSIONS))]
    optional max_retransmit as "max_retransmit": u32,
    /// Shortest time before the first retransmission of a CoAP message; it doubles each time.
    /// Default: 2 s.
    optional ack_timeout as "ack_timeout": Span,
    /// Longest time before the first retransmission, as a multiple of the shortest. Range: 1 to 10.
    /// Default: 1.5.
    #[schemars(extend("minimum" = trace::ACK_RANDOM_FACTOR.start(), "maximum" = trace::ACK_RANDOM_FACTOR.end()))]
    optional ack_random_factor as "ack_random_factor": f64,
    /// Largest number of outstanding CoAP interactions per device; further requests wait. Range: 1
    /// or more. Default: no limit.
    #[schemars(extend("minimum" = ONE))]
    optional nstart as "nstart": u32,
    /// How long each CoAP GET observes its resource; the device needs `notify`. Default: none, no
    /// observation.
    optional observe as "observe": Span,
    /// Whether senders wait for answers; can be false for `udp` and `tcp`. Default: true.
    optional answers as "answers": bool,
    /// Quality of service of MQTT messages. Range: 0 or 1. Default: 0.
    #[schemars(extend("minimum" = LOAD_QOS.start(), "maximum" = LOAD_QOS.end()))]
    optional qos as "qos": u32,
    /// Largest number of HTTP connections per device; requests wait for a free one. Range: 1 to
    /// 10000. Default: 16.
    #[schemars(extend("minimum" = CONNECTIONS.start(), "maximum" = CONNECTIONS.end()))]
    optional connections as "connections": u32,
    /// Sender threads per node. Range: 1 to 256. Default: 1.
    #[schemars(extend("minimum" = SENDERS.start(), "maximum" = SENDERS.end()))]
    optional senders as "senders": u32,
    /// Whether senders busy-wait instead of sleeping. Default: false.
    optional spin as "spin": bool,
    /// The load stops when this machine is this far behind the schedule. Range: above 0. Default: 10 s.
    optional patience as "patience": Span,
    /// Network to use. Required if the nodes share more than one. Values: name of a network.
    /// Default: the one that all share.
    optional network as "network": String,
}

model! {
    /// Devices that answer requests after configured service times.
    Device, "a device",
    /// Name in the results. Default: `device-1` and so on.
    optional name as "name": String,
    /// Nodes that act as devices. Values: group or node, or a list of these.
    #[schemars(required)]
    required on as "on": OneOrMore<At<String>>,
    /// Port of the CoAP service. Range: 1 to 65535. Default: 5683 if no port is given.
    #[schemars(extend("minimum" = PORT.start(), "maximum" = PORT.end()))]
    optional coap as "coap": u32,
    /// Port of the HTTP/1.1 service. Range: 1 to 65535.
    #[schemars(extend("minimum" = PORT.start(), "maximum" = PORT.end()))]
    optional http as "http": u32,
    /// Port of the UDP echo service. Range: 1 to 65535.
    #[schemars(extend("minimum" = PORT.start(), "maximum" = PORT.end()))]
    optional udp as "udp": u32,
    /// Port of the TCP echo service. Range: 1 to 65535.
    #[schemars(extend("minimum" = PORT.start(), "maximum" = PORT.end()))]
    optional tcp as "tcp": u32,
    /// Service times of the resources. A service time is a distribution, or `{time: ..., mode:
    /// busy}`. In a file, a device's number is its index in `on`, from 0. Values: map of paths to
    /// service times, or path of a file. Default: all are answered at once.
    optional resources as "resources": Resources,
    /// Requests served concurrently. Range: 1 to 1024. Default: 1.
    #[schemars(extend("minimum" = DEVICE_THREADS.start(), "maximum" = DEVICE_THREADS.end()))]
    optional threads as "threads": u32,
    /// Queue limit in requests; further requests are refused. Range: 0 to
    /// 10000000. Default: 1000.
    #[schemars(extend("minimum" = DEVICE_QUEUE.start(), "maximum" = DEVICE_QUEUE.end()))]
    optional queue as "queue": u32,
    /// Payload of an answer, at most 1 MB; over CoAP, block-wise above 1024 B. Default: 4 B.
    optional payload as "payload": Bytes,
    /// Makes CoAP resources observable: time between changes of a value, such as `exponential:1s`.
    /// Values: distribution. Default: none, not observable.
    optional notify as "notify": String,
    /// Misbehaviour: share of requests with an answer that is no valid message. Default: 0 %.
    optional corrupt as "corrupt": Ratio,
    /// Misbehaviour: share of requests with two answers. Default: 0 %.
    optional duplicate as "duplicate": Ratio,
    /// Misbehaviour: share of requests with a late answer. Default: 0 %.
    optional late as "late": Ratio,
    /// Delay of late answers. Default: 3 s.
    optional late_by as "late_by": Span,
    /// Misbehaviour: share of requests without an answer. Default: 0 %.
    optional silent as "silent": Ratio,
    /// Whether the device busy-waits for requests. Default: false.
    optional spin as "spin": bool,
    /// Whether the device tests the accuracy of its service times at the start. Default: true.
    optional check as "check": bool,
}

model! {
    /// Contention probes: on each core, a dedicated sender sends requests of known service time to
    /// a dedicated device, one after the other.
    Probe, "a probe",
    /// Name in the results. Default: `probe-1` and so on.
    optional name as "name": String,
    /// Probing nodes; one node probes all cores, and needs no network. Values: group or node, or a
    /// list of these.
    #[schemars(required)]
    required on as "on": OneOrMore<At<String>>,
    /// Service time. Default: the mean of the resources of all `device` workloads, or 5 ms.
    optional service as "service": Span,
    /// How the device spends the service time. Values: `sleep`, `busy`, or a list of both. Default:
    /// both.
    optional mode as "mode": OneOrMore<At<String>>,
    /// Interval between requests of a probe. Default: 1 s.
    optional every as "every": Span,
    /// Cores to probe. Default: all.
    optional cores as "cores": OneOrMore<At<u32>>,
    /// What contention does: `report`, or `abort`, which ends the run when three consecutive
    /// probes, on one core and in one mode, exceed the limit. Default: `report`.
    optional contention as "contention": Contention,
    /// Largest excess over the service time. Default: 10 %.
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
