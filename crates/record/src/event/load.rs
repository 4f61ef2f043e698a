//! Results of loads and devices: one JSON file of each program, after its last request.

use crate::pace::{Loop, Pace};
use crate::{Observed, OddCounts, Percentiles, Quarter, RequestCounts, Timeline};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::{HistogramSummary, Mode};

/// Results of a load. Times without a unit in their name are in us.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadResults {
    /// Whether it waits for answers before it sends more.
    pub r#loop: Loop,
    /// Users of a closed loop.
    pub users: Option<usize>,
    /// Whether the schedule was kept.
    pub pace: Pace,
    /// Number of sender threads.
    pub senders: usize,
    /// From the start to the last request, in s.
    pub seconds: f64,
    /// Requests sent per second.
    pub rate: f64,
    /// Requests by outcome.
    pub counts: RequestCounts,
    /// The quarters of the schedule.
    pub quarters: [Quarter; 4],
    /// Answers by code.
    pub codes: BTreeMap<String, u64>,
    /// What else was counted.
    #[serde(flatten)]
    pub odd: OddCounts,
    /// Observations.
    pub observed: Observed,
    /// Errors by reason.
    pub reasons: BTreeMap<String, u64>,
    /// The largest slip, in us.
    #[serde(alias = "behind_us")]
    pub max_lag_us: f64,
    /// Scheduled interval between requests.
    pub between_expected: HistogramSummary,
    /// Actual interval between requests.
    pub between_submitted: HistogramSummary,
    /// Distance of the two distributions (Kolmogorov-Smirnov), 0 to 1.
    pub between_distance: f64,
    /// All requests.
    pub all: SeriesResults,
    /// The requests by method.
    pub classes: Vec<SeriesResults>,
    /// The requests by method and device.
    pub nodes: Vec<SeriesResults>,
}

/// Requests of one class. Times are in us.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesResults {
    /// The method, or `all`.
    pub class: String,
    /// The device; `None` for all of them, or those beyond the first thousand series.
    pub device: Option<u32>,
    /// Requests by outcome.
    pub counts: RequestCounts,
    /// Time from the scheduled send to the answer, over all scheduled requests.
    pub response_of_all: Percentiles,
    /// The same over answered requests.
    pub response: HistogramSummary,
    /// Time from the actual send to the answer.
    pub service: HistogramSummary,
    /// Time from the scheduled to the actual send, without the wait for a connection.
    pub slip: HistogramSummary,
    /// Wait for a free connection; `None` if requests never wait.
    pub wait: Option<HistogramSummary>,
    /// Time between two notifications; `None` if nothing is observed.
    pub notification: Option<HistogramSummary>,
}

/// The file of a sender: its results, and its timeline, which can be added to that of other senders.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SenderResults {
    /// The results.
    #[serde(flatten)]
    pub load: LoadResults,
    /// Requests and answers over time.
    pub timeline: Timeline,
    /// From the start to the last request that was due, in ns.
    pub schedule_ns: u64,
}

/// The file of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceResults {
    /// Measured accuracy of service times.
    pub checked: Vec<Checked>,
    /// What it served.
    pub served: Served,
}

/// How well a service time was kept, in us.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// The resource's path.
    pub path: String,
    /// How the time was spent.
    pub mode: Mode,
    /// The configured service time.
    #[serde(alias = "asked")]
    pub configured: f64,
    /// Mean of the measured times.
    pub mean: f64,
    /// Their 90th percentile.
    pub p90: f64,
    /// Number of measurements.
    pub tries: u64,
    /// Whether the median and the 90th percentile are within 1 % or 20 us. The mean is not
    /// used: a single preemption would spoil it over a few measurements.
    pub kept: bool,
}

/// What a device has served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Served {
    /// By resource.
    pub resources: Vec<ServedResource>,
    /// Requests for resources that do not exist.
    pub unknown: u64,
    /// Requests refused because the queue was full.
    pub refused: u64,
    /// Received data that is no valid request.
    #[serde(alias = "garbage")]
    pub malformed: u64,
    /// Answers with intentional misbehaviour.
    #[serde(alias = "mischief")]
    pub misbehaved: u64,
    /// Duplicates of confirmable CoAP requests, which were not served again.
    pub duplicates: u64,
    /// CoAP requests with an unknown critical option.
    pub bad_options: u64,
    /// Blocks of CoAP requests, and blocks of answers after the first.
    pub blocks: u64,
    /// The bytes of completed request bodies.
    pub body_bytes: u64,
    /// Notifications to observers.
    pub notifications: u64,
}

/// The requests to one resource. Times are in us.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServedResource {
    /// Its path.
    pub path: String,
    /// Number of requests.
    pub requests: u64,
    /// The service times drawn from the distribution.
    #[serde(alias = "asked")]
    pub configured: HistogramSummary,
    /// The measured service times: wall clock time for `sleep`, CPU time for `busy`.
    pub took: HistogramSummary,
}
