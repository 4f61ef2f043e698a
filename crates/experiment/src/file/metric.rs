//! File format: metrics of programs.

use crate::program_metric::Stream;
use crate::read::{At, Fields, Read, Sink};
use crate::scalar::{Word, word};
use crate::tree::Node;
use schemars::JsonSchema;
use units::Span;

/// Values that a program prints, sends or serves. Needs `json`, `match`, `statsd`, `prometheus` or
/// `opentelemetry`.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Metric {
    /// Path of keys in the JSON that the program prints, such as `end.sum.bits_per_second`. `*`
    /// stands for all keys or items, a number for an item.
    pub json: Option<At<String>>,
    /// Regular expression for each line of the output. Its group `value`, or else its first group,
    /// is the value; without a group, each match counts as 1.
    #[schemars(rename = "match")]
    pub pattern: Option<At<String>>,
    /// Name of a metric that the program sends in StatsD's line format to UDP port 8125 of its node,
    /// `THINGBED_METRICS`.
    pub statsd: Option<At<String>>,
    /// Series of a page in Prometheus's text format, which Thingbed reads repeatedly: a name with
    /// optional labels, such as `requests_total{code="200"}`. Needs `port`. Several matching series
    /// are added.
    pub prometheus: Option<At<String>>,
    /// Metric that the program sends with an SDK of OpenTelemetry, with optional attributes, such as
    /// `http.requests{code="200"}`. Several matching series are added. A histogram needs a statistic:
    /// `http.duration.p99`, or `count`, `sum`, `mean`, `min`, `max`.
    pub opentelemetry: Option<At<String>>,
    /// TCP port of the page on the node. Only with `prometheus`.
    pub port: Option<At<u32>>,
    /// Path of the page. Only with `prometheus`. Default: `/metrics`.
    pub path: Option<At<String>>,
    /// Interval between two reads of the page, 1 ms or more. Only with `prometheus`. Default: 1 s.
    pub every: Option<At<Span>>,
    /// Unit of the values. Values with a group `unit` are converted to it.
    pub unit: Option<At<String>>,
    /// Output to search: `stdout` or `stderr`. Only with `json` or `match`. Default: `stdout`.
    pub from: Option<At<Stream>>,
    /// Whether a program may print no value. Default: false; then the run is `failed`.
    pub optional: Option<At<bool>>,
}

impl Read for Metric {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a metric", sink)?;
        let metric = Self {
            json: fields.optional("json"),
            pattern: fields.optional("match"),
            statsd: fields.optional("statsd"),
            prometheus: fields.optional("prometheus"),
            opentelemetry: fields.optional("opentelemetry"),
            port: fields.optional("port"),
            path: fields.optional("path"),
            every: fields.optional("every"),
            unit: fields.optional("unit"),
            from: fields.optional("from"),
            optional: fields.optional("optional"),
        };
        fields.finish();
        Some(metric)
    }
}

impl Word for Stream {
    const WHAT: &'static str = "an output of a program";
    const WORDS: &'static [(&'static str, Self)] =
        &[("stdout", Self::Stdout), ("stderr", Self::Stderr)];
}

impl Read for Stream {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}
