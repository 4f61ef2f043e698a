//! Workloads of requests: loads that send them, and devices that answer.
//!
//! Distributions, arrivals and mixes stand in a plan as the texts that `trace` reads;
//! they have been read once by the time a plan is there.

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

/// The port unless the file says; plain UDP and TCP have that of exchanges.
pub(crate) fn usual_port(scheme: Scheme) -> u16 {
    scheme.port().unwrap_or(7000)
}

/// What requests there are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requests {
    /// Those of a trace's lines; an absolute path.
    Trace(PathBuf),
    /// Made before the run, as this says.
    Made(Made),
}

/// How requests are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// The nodes that are asked, each a device by its place here, from 0.
    pub to: Vec<String>,
    /// What they go by.
    pub protocol: Scheme,
    /// Where devices listen.
    pub port: u16,
    /// When requests come.
    pub arrivals: String,
    /// Whether these are the arrivals of all devices together.
    pub together: bool,
    /// What is asked; the protocol's usual method if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Of which resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How much requests carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// How many there are at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// How long they come.
    pub duration: Span,
}

/// Requests that nodes send at the moments that a schedule asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Its name in the results.
    pub name: String,
    /// The nodes that send; each has a schedule of its own.
    pub on: Vec<String>,
    /// What they send.
    pub requests: Requests,
    /// Users who wait for their answers; none is an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<u32>,
    /// How long each waits after an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<String>,
    /// How long an answer may take.
    pub timeout: Span,
    /// Whether CoAP requests are confirmable.
    pub confirmable: bool,
    /// Blocks, retransmission, NSTART and observation of CoAP.
    #[serde(default, skip_serializing_if = "CoapSettings::is_default")]
    pub coap: CoapSettings,
    /// Whether answers are waited for.
    pub answers: bool,
    /// The quality of service of MQTT messages.
    pub qos: u8,
    /// HTTP connections to one device at most.
    pub connections: u32,
    /// Threads that send on each node.
    pub senders: u32,
    /// Whether they look at the clock all the time.
    pub spin: bool,
    /// How far behind the schedule it goes on.
    pub patience: Span,
    /// The network that it goes over; none for a trace, whose lines say where to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// How long requests come.
    pub duration: Span,
}

impl Load {
    /// The nodes that are asked; none of a trace, whose lines name them.
    pub fn asked(&self) -> &[String] {
        match &self.requests {
            Requests::Trace(_) => &[],
            Requests::Made(made) => &made.to,
        }
    }

    /// How long it may go on at most after its last request is due: this machine may be late,
    /// the request waits for a connection and for its answer, and observations go on and end.
    pub fn may_be_late(&self) -> Span {
        let datagrams = match &self.requests {
            Requests::Made(made) => matches!(made.protocol, Scheme::Coap | Scheme::Udp),
            Requests::Trace(_) => false,
        };
        let waits = !datagrams || self.coap.nstart.is_some();
        let times = 1 + u64::from(waits) + u64::from(self.coap.observe.is_some());
        let observed = self.coap.observe.map_or(0, Span::as_ns);
        let answers = self.timeout.as_ns().saturating_mul(times);
        Span::from_ns(self.patience.as_ns().saturating_add(answers).saturating_add(observed))
    }
}

impl Device {
    /// The mean service time of each resource, in ns.
    pub fn mean_service_ns(&self) -> Vec<f64> {
        let lines = self.resources.iter();
        let read = lines.filter_map(|line| line.parse::<trace::Resource>().ok());
        read.map(|resource| resource.time.mean_ns()).collect()
    }

    /// How its resources spend their time.
    pub fn modes(&self) -> Vec<trace::Mode> {
        let lines = self.resources.iter();
        lines.filter_map(|line| Some(line.parse::<trace::Resource>().ok()?.mode)).collect()
    }
}

impl Probe {
    /// The service time.
    pub fn service(&self) -> Span {
        self.service.unwrap_or(Span::from_ns(5_000_000))
    }
}

/// What a run does when its probes see contention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contention {
    /// It goes on, and the verdict says so.
    Report,
    /// It ends.
    Abort,
}

impl Word for Contention {
    const WHAT: &'static str = "an action on contention";
    const WORDS: &'static [(&'static str, Self)] =
        &[("report", Self::Report), ("abort", Self::Abort)];
}

/// Probes for contention: senders of their own that ask devices of known service time, one
/// request after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Its name in the results.
    pub name: String,
    /// The nodes that probe.
    pub on: Vec<String>,
    /// The service time; 5 ms if neither the file nor a device says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Span>,
    /// How it is spent: `sleep`, `busy`, or both.
    pub modes: Vec<String>,
    /// From one request of a probe to its next.
    pub every: Span,
    /// The cores that are looked at; none are all.
    pub cores: Vec<u32>,
    /// What is done about contention.
    pub contention: Contention,
    /// The deviation from the service time, as a share of it, above which it is.
    pub limit: Ratio,
}

/// Devices whose resources take as long as they are told to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its name in the results.
    pub name: String,
    /// The nodes that are devices, each with a number by its place here, from 0.
    pub on: Vec<String>,
    /// The port for CoAP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coap: Option<u16>,
    /// The port for HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<u16>,
    /// The port where datagrams are returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<u16>,
    /// The port where bytes of connections are returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<u16>,
    /// Its resources, a line each in the form that `trace` reads.
    pub resources: Vec<String>,
    /// Threads that serve.
    pub threads: u32,
    /// So many requests may wait.
    pub queue: u32,
    /// How much an answer carries.
    pub payload: Bytes,
    /// After which times values change that are observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<String>,
    /// The share of requests that are answered by what is no message.
    pub garbage: Ratio,
    /// The share that is answered twice.
    pub twice: Ratio,
    /// The share that is answered late.
    pub late: Ratio,
    /// How late that is.
    pub late_by: Span,
    /// The share that is not answered.
    pub silent: Ratio,
    /// Whether it looks for requests all the time.
    pub spin: bool,
    /// Whether it tries at the start how well service times are kept.
    pub check: bool,
}
