//! File format: metrics of programs.

use crate::limits::PORT;
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
    /// Path of keys in JSON output, with dots between: `end.sum.bits_per_second`. A number is an
    /// item of a list, `*` all keys or items. The output is one document, several, or one per line;
    /// other lines are skipped.
    pub json: Option<At<String>>,
    /// Regular expression for each line of the output. Its group `value`, or else its first group,
    /// is the value. A pattern without a group counts its matches.
    #[schemars(rename = "match")]
    pub pattern: Option<At<String>>,
    /// Name of a metric that the program sends in StatsD's line format to UDP port 8125 of its
    /// node, `THINGBED_METRICS`.
    pub statsd: Option<At<String>>,
    /// Series of a page in Prometheus's text format that the program serves, with optional labels:
    /// `requests_total{code="200"}`. Needs `port`. Several matching series are added.
    pub prometheus: Option<At<String>>,
    /// Metric that the program sends with an SDK of OpenTelemetry, with optional attributes:
    /// `http.requests{code="200"}`. Matching series are added. A histogram needs a statistic:
    /// `http.duration.p99`, or `count`, `sum`, `mean`, `min`, `max`.
    pub opentelemetry: Option<At<String>>,
    /// TCP port of the page. Required with `prometheus`, and only there.
    #[schemars(extend("minimum" = PORT.start(), "maximum" = PORT.end()))]
    pub port: Option<At<u32>>,
    /// Path of the page. Only with `prometheus`. Default: `/metrics`.
    pub path: Option<At<String>>,
    /// How often the page is read. Only with `prometheus`. Range: 1 ms or more. Default: 1 s.
    pub every: Option<At<Span>>,
    /// Unit of the values. If the pattern has a group `unit`, values are converted to this unit:
    /// times, rates and sizes in the units of the experiment file.
    pub unit: Option<At<String>>,
    /// Output to search. Only with `json` and `match`. Default: `stdout`.
    pub from: Option<At<Stream>>,
    /// Whether a program may have no value. Otherwise such a run is `failed`. Default: false.
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
