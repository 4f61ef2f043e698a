//! Values that programs sent to their node's collector, or that it read from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One value, or the name of a metric that is not in the spec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Collected {
    /// When it arrived, in ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Where it came from.
    pub source: CollectorSource,
    /// The name in the spec: of a StatsD metric, or of a series. Of a page without a value: why it was not
    /// read.
    pub name: String,
    /// The value; `None` for a metric that is not in the spec and for a page that was not read, which are
    /// recorded once.
    pub value: Option<f64>,
    /// The number of its page in the spec; `None` if it is not from a page.
    pub page: Option<u32>,
}

/// Where a value came from.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CollectorSource {
    /// A datagram in StatsD's line format.
    #[default]
    Statsd,
    /// A page in Prometheus's text format.
    Prometheus,
    /// An export of OpenTelemetry metrics.
    Opentelemetry,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{read, written};

    #[test]
    fn lines_are_as_documented() {
        let value =
            Collected { time_ns: 7, name: "a,b".into(), value: Some(0.5), ..Default::default() };
        let unknown = Collected {
            source: CollectorSource::Prometheus,
            page: Some(1),
            name: "c".into(),
            value: None,
            ..value.clone()
        };
        let text = written(&[value.clone(), unknown.clone()]);
        let head = "time_ns,source,name,value,page\n";
        assert_eq!(text, format!("{head}7,statsd,\"a,b\",0.5,\n7,prometheus,c,,1\n"));
        assert_eq!(read::<Collected>(text.as_bytes()).unwrap(), [value, unknown]);
    }
}
