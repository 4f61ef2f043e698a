//! Request workloads: loads that send requests, devices that answer, and contention probes.
//!
//! A plan holds distributions, arrivals and mixes as texts in the syntax of the `trace` crate. They
//! are checked when the plan is resolved.

use crate::scalar::Word;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use trace::{CoapSettings, Scheme};
use units::{Bytes, Ratio, Span};

impl Word for Scheme {
    const WHAT: &'static str = "a protocol of requests";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("coap", Self::Coap),
        ("http", Self::Http),
        ("mqtt", Self::Mqtt),
        ("udp", Self::Udp),
        ("tcp", Self::Tcp),
    ];
}

/// Default port; plain UDP and TCP use that of exchanges.
pub(crate) fn default_port(scheme: Scheme) -> u16 {
    scheme.port().unwrap_or(7000)
}

/// Source of the requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requests {
    /// A trace file; absolute path.
    Trace(PathBuf),
    /// Requests generated before the run.
    Made(Made),
}

/// Parameters of generated requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Nodes that receive requests. The position is the device's number, from 0.
    pub to: Vec<String>,
    /// Protocol.
    pub protocol: Scheme,
    /// Port of the devices.
    pub port: u16,
    /// Arrival process.
    pub arrivals: String,
    /// Whether `arrivals` is the total of all devices.
    pub together: bool,
    /// Mix of methods. `None`: the protocol's usual method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Mix of resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Mix of request payload sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Maximum number of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Duration of the requests.
    pub duration: Span,
}

/// Requests that nodes send on a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Name in the results.
    pub name: String,
    /// Nodes that send, each on a separate schedule.
    pub on: Vec<String>,
    /// Requests to send.
    pub requests: Requests,
    /// Number of users of a closed loop. `None`: an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<u32>,
    /// Think time of each user after an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<String>,
    /// Timeout of an answer.
    pub timeout: Span,
    /// Whether CoAP requests are confirmable.
    pub confirmable: bool,
    /// CoAP options: blocks, retransmission, NSTART and observation.
    #[serde(default, skip_serializing_if = "CoapSettings::is_default")]
    pub coap: CoapSettings,
    /// Whether senders wait for answers.
    pub answers: bool,
    /// Quality of service of MQTT messages.
    pub qos: u8,
    /// Maximum HTTP connections per device.
    pub connections: u32,
    /// Sender threads per node.
    pub senders: u32,
    /// Whether senders busy-wait instead of sleeping.
    pub spin: bool,
    /// Maximum lag behind the schedule.
    pub patience: Span,
    /// Network of the requests. `None` for a trace, whose lines have destinations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Duration of the load.
    pub duration: Span,
}

impl Load {
    /// Nodes that receive requests; empty for a trace, whose lines name them.
    pub fn targets(&self) -> &[String] {
        match &self.requests {
            Requests::Trace(_) => &[],
            Requests::Made(made) => &made.to,
        }
    }

    /// Maximum time from the last scheduled request to the end: the machine may lag, the request
    /// waits for a connection and an answer, and observations continue and end.
    pub fn max_overrun(&self) -> Span {
        let datagrams = match &self.requests {
            Requests::Made(made) => matches!(made.protocol, Scheme::Coap | Scheme::Udp),
            Requests::Trace(_) => false,
        };
        // Each of these may take the timeout: the wait for a connection or for NSTART (decision
        // 39), the answer, and the end of an observation.
        let waits = !datagrams || self.coap.nstart.is_some();
        let times = 1 + u64::from(waits) + u64::from(self.coap.observe.is_some());
        self.patience + self.timeout * times + self.coap.observe.unwrap_or_default()
    }
}

impl Device {
    /// Mean service time of each resource, ns.
    pub fn mean_service_ns(&self) -> Vec<f64> {
        let lines = self.resources.iter();
        let read = lines.filter_map(|line| line.parse::<trace::Resource>().ok());
        read.map(|resource| resource.time.mean_ns()).collect()
    }

    /// How its resources spend their service time.
    pub fn modes(&self) -> Vec<trace::Mode> {
        let lines = self.resources.iter();
        lines.filter_map(|line| Some(line.parse::<trace::Resource>().ok()?.mode)).collect()
    }
}

impl Probe {
    /// Service time.
    pub fn service(&self) -> Span {
        self.service.unwrap_or(Span::from_ns(5_000_000))
    }
}

/// Action on contention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contention {
    /// The run continues, and the verdict reports it.
    Report,
    /// The run is aborted.
    Abort,
}

impl Word for Contention {
    const WHAT: &'static str = "an action on contention";
    const WORDS: &'static [(&'static str, Self)] =
        &[("report", Self::Report), ("abort", Self::Abort)];
}

/// Contention probes: on each core, a dedicated sender sends requests of known service time to a
/// dedicated device, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Name in the results.
    pub name: String,
    /// Nodes that probe.
    pub on: Vec<String>,
    /// Service time. `None`: 5 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Span>,
    /// How the service time is spent: `sleep`, `busy`, or both.
    pub modes: Vec<String>,
    /// Time from one request of a probe to the next.
    pub every: Span,
    /// Cores to probe; empty for all.
    pub cores: Vec<u32>,
    /// Action on contention.
    pub contention: Contention,
    /// Contention threshold: deviation from the service time, as a share of it.
    pub limit: Ratio,
}

/// Devices that answer requests after configured service times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Name in the results.
    pub name: String,
    /// Nodes that are devices. The position is the device's number, from 0.
    pub on: Vec<String>,
    /// CoAP port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coap: Option<u16>,
    /// HTTP port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<u16>,
    /// UDP echo port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<u16>,
    /// TCP echo port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<u16>,
    /// Resources, one line each in the syntax of the `trace` crate.
    pub resources: Vec<String>,
    /// Worker threads.
    pub threads: u32,
    /// Queue limit, in requests.
    pub queue: u32,
    /// Payload of an answer.
    pub payload: Bytes,
    /// Time between changes of observed values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<String>,
    /// Share of requests answered with a corrupt message.
    #[serde(alias = "garbage")]
    pub corrupt: Ratio,
    /// Share of requests answered twice.
    #[serde(alias = "twice")]
    pub duplicate: Ratio,
    /// Share of requests answered late.
    pub late: Ratio,
    /// Delay of late answers.
    pub late_by: Span,
    /// Share of requests not answered.
    pub silent: Ratio,
    /// Whether the device busy-waits instead of sleeping.
    pub spin: bool,
    /// Whether the device checks the accuracy of its service times at the start.
    pub check: bool,
}
