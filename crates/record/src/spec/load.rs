//! Specs of loads, devices and contention probes.

use super::Spec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use trace::CoapSettings;

/// Spec of one sender. Arrivals, mixes and distributions are texts in the syntax of `trace`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// Trace file of requests; none generates them.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// URI of each device, without a path.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Arrival process.
    #[serde(default)]
    pub arrivals: String,
    /// Whether the arrival process is that of all devices together.
    #[serde(default)]
    pub together: bool,
    /// Request methods; none is the protocol's default method.
    #[serde(default)]
    pub method: Option<String>,
    /// Resource paths.
    #[serde(default)]
    pub path: Option<String>,
    /// Request payload sizes.
    #[serde(default)]
    pub size: Option<String>,
    /// Maximum number of requests.
    #[serde(default)]
    pub count: Option<u64>,
    /// Duration of the arrivals, in ns.
    pub duration_ns: u64,
    /// Users of a closed loop; none is an open loop.
    #[serde(default)]
    pub users: Option<u32>,
    /// Think time of each user after a response.
    #[serde(default)]
    pub think: Option<String>,
    /// Response timeout, in ns.
    pub timeout_ns: u64,
    /// Whether CoAP requests are confirmable.
    pub confirmable: bool,
    /// CoAP settings: blocks, retransmission, NSTART and observe.
    #[serde(default)]
    pub coap: CoapSettings,
    /// Whether to wait for responses.
    pub answers: bool,
    /// QoS level of MQTT messages.
    pub qos: u8,
    /// Maximum HTTP connections per device.
    pub connections: u32,
    /// Number of sender threads.
    pub senders: u32,
    /// Whether sender threads busy-wait.
    pub spin: bool,
    /// Maximum lag behind the schedule, in ns.
    pub patience_ns: u64,
    /// Seed of this sender's draws.
    pub seed: u64,
    /// Output file of the results.
    pub events: PathBuf,
    /// Output file of the histogram log.
    pub log: PathBuf,
}

impl Spec for LoadSpec {
    const PROGRAM: &'static str = "load";

    fn check(&self) -> Result<(), String> {
        // A trace has its targets in it.
        match (&self.trace, self.targets.is_empty()) {
            (None, true) => Err("the spec has neither a trace nor a target".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Spec of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// Device number.
    pub number: u32,
    /// CoAP port.
    #[serde(default)]
    pub coap: Option<u16>,
    /// HTTP port.
    #[serde(default)]
    pub http: Option<u16>,
    /// UDP echo port.
    #[serde(default)]
    pub udp: Option<u16>,
    /// TCP echo port.
    #[serde(default)]
    pub tcp: Option<u16>,
    /// Resources of all devices, one line each.
    pub resources: Vec<String>,
    /// Number of server threads.
    pub threads: u32,
    /// Maximum number of queued requests.
    pub queue: u32,
    /// Response payload size in bytes.
    pub payload: u64,
    /// Distribution of the time between changes of an observed resource.
    #[serde(default)]
    pub notify: Option<String>,
    /// Share of requests answered with an invalid message, 0 to 1.
    pub corrupt: f64,
    /// Share answered twice.
    pub duplicate: f64,
    /// Share answered late.
    pub late: f64,
    /// Delay of late answers, in ns.
    pub late_by_ns: u64,
    /// Share not answered.
    pub silent: f64,
    /// Whether server threads busy-wait.
    pub spin: bool,
    /// Whether to measure the accuracy of service times at the start.
    pub check: bool,
    /// Seed of this device's draws.
    pub seed: u64,
    /// Output file of the statistics.
    pub events: PathBuf,
}

impl Spec for DeviceSpec {
    const PROGRAM: &'static str = "device";

    fn check(&self) -> Result<(), String> {
        let none = [self.coap, self.http, self.udp, self.tcp].iter().all(Option::is_none);
        if none { Err("the spec has no port".to_owned()) } else { Ok(()) }
    }
}

/// Spec of a node's contention probes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeSpec {
    /// CPU cores; an empty list is all.
    pub cores: Vec<u32>,
    /// `sleep`, `busy`, or both.
    pub modes: Vec<String>,
    /// Service time, in ns.
    pub service_ns: u64,
    /// Interval between two requests of a probe, in ns.
    pub every_ns: u64,
    /// Whether probes run at a higher priority, as devices do.
    #[serde(default)]
    pub before: bool,
    /// Maximum deviation from the service time, as a share of it; several consecutive probes above
    /// it are reported as contention. None only records.
    #[serde(default)]
    pub limit: Option<f64>,
    /// Output file of requests, one line each.
    pub events: PathBuf,
}

impl Spec for ProbeSpec {
    const PROGRAM: &'static str = "probe";

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
