//! The specs of loads and devices: what the runner writes for each.

use crate::clock::Nanos;
use crate::error::Error;
use crate::spec::read;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use trace::CoapSettings;

/// What one sender is to do. Arrivals, mixes and distributions are texts that `trace`
/// reads.
#[derive(Debug, Clone, Deserialize)]
pub struct LoadSpec {
    /// The file of requests; without one they are made.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// Each device's URI, without a path.
    #[serde(default)]
    pub targets: Vec<String>,
    /// When requests come.
    #[serde(default)]
    pub arrivals: String,
    /// Whether these are the arrivals of all devices together.
    #[serde(default)]
    pub together: bool,
    /// What is asked; the protocol's usual method if none.
    #[serde(default)]
    pub method: Option<String>,
    /// Of which resources.
    #[serde(default)]
    pub path: Option<String>,
    /// How much requests carry.
    #[serde(default)]
    pub size: Option<String>,
    /// How many there are at most.
    #[serde(default)]
    pub count: Option<u64>,
    /// How long requests come, in ns.
    pub duration_ns: Nanos,
    /// Users of a closed loop; none is an open one.
    #[serde(default)]
    pub users: Option<usize>,
    /// How long each waits after an answer.
    #[serde(default)]
    pub think: Option<String>,
    /// How long an answer may take, in ns.
    pub timeout_ns: Nanos,
    /// Whether CoAP requests are confirmable.
    pub confirmable: bool,
    /// Blocks, retransmission, NSTART and observation of CoAP.
    #[serde(default)]
    pub coap: CoapSettings,
    /// Whether answers are waited for.
    pub answers: bool,
    /// The quality of service of MQTT messages.
    pub qos: u8,
    /// HTTP connections to one device at most.
    pub connections: usize,
    /// Threads that send.
    pub senders: usize,
    /// Whether they look at the clock all the time.
    pub spin: bool,
    /// How far behind the schedule it goes on, in ns.
    pub patience_ns: Nanos,
    /// The seed of this sender's draws.
    pub seed: u64,
    /// Where the figures go.
    pub events: PathBuf,
    /// Where the log of histograms goes.
    pub log: PathBuf,
}

/// What one device is to do.
#[derive(Debug, Clone, Deserialize)]
pub struct DeviceSpec {
    /// Its number.
    pub number: u32,
    /// The port for CoAP.
    #[serde(default)]
    pub coap: Option<u16>,
    /// The port for HTTP.
    #[serde(default)]
    pub http: Option<u16>,
    /// The port where datagrams are returned.
    #[serde(default)]
    pub udp: Option<u16>,
    /// The port where bytes of connections are returned.
    #[serde(default)]
    pub tcp: Option<u16>,
    /// All devices' resources, a line each.
    pub resources: Vec<String>,
    /// Threads that serve.
    pub threads: usize,
    /// So many requests may wait.
    pub queue: usize,
    /// Bytes of an answer.
    pub payload: usize,
    /// After which times values change that are observed.
    #[serde(default)]
    pub notify: Option<String>,
    /// The share of requests that is answered by what is no message, 0 to 1.
    pub garbage: f64,
    /// The share that is answered twice.
    pub twice: f64,
    /// The share that is answered late.
    pub late: f64,
    /// How late, in ns.
    pub late_by_ns: Nanos,
    /// The share that is not answered.
    pub silent: f64,
    /// Whether it looks for requests all the time.
    pub spin: bool,
    /// Whether it tries at the start how well service times are kept.
    pub check: bool,
    /// The seed of its draws.
    pub seed: u64,
    /// Where it says what it has served.
    pub events: PathBuf,
}

/// What the probes of a node are to do.
#[derive(Debug, Clone, Deserialize)]
pub struct ProbeSpec {
    /// The cores; none are all.
    pub cores: Vec<usize>,
    /// `sleep`, `busy`, or both.
    pub modes: Vec<String>,
    /// The service time.
    pub service_ns: Nanos,
    /// From one request of a probe to its next.
    pub every_ns: Nanos,
    /// Whether they run before others, as devices do.
    #[serde(default)]
    pub before: bool,
    /// Above this deviation from the service time, as a share of it and several times in a
    /// row, it says so; without one it only writes down.
    #[serde(default)]
    pub limit: Option<f64>,
    /// Where each request goes, a line each.
    pub events: PathBuf,
}

impl ProbeSpec {
    /// Reads a spec.
    ///
    /// # Errors
    /// When the file cannot be read or is no spec.
    pub fn read(path: &Path) -> Result<Self, Error> {
        read(path, |_| Ok(()))
    }
}

impl LoadSpec {
    /// Reads a spec.
    ///
    /// # Errors
    /// When the file cannot be read or is no spec.
    pub fn read(path: &Path) -> Result<Self, Error> {
        read(path, Self::check)
    }

    fn check(&self) -> Result<(), String> {
        match (&self.trace, self.targets.is_empty()) {
            (None, true) => Err("there is neither a trace nor a target".to_owned()),
            _ => Ok(()),
        }
    }
}

impl DeviceSpec {
    /// Reads a spec.
    ///
    /// # Errors
    /// When the file cannot be read or is no spec.
    pub fn read(path: &Path) -> Result<Self, Error> {
        read(path, Self::check)
    }

    fn check(&self) -> Result<(), String> {
        let none = [self.coap, self.http, self.udp, self.tcp].iter().all(Option::is_none);
        if none { Err("there is no port to serve at".to_owned()) } else { Ok(()) }
    }
}
