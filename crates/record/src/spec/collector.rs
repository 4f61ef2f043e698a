//! The spec of a collector: the program that receives and reads the metrics of a node's programs.

use super::Spec;
use crate::SeriesSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Spec of the collector of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectorSpec {
    /// Where it listens for StatsD datagrams, if at all.
    #[serde(default)]
    pub statsd: Option<StatsdSpec>,
    /// Where it listens for OpenTelemetry metrics, if at all.
    #[serde(default)]
    pub otlp: Option<OtlpSpec>,
    /// The pages that it reads repeatedly.
    #[serde(default)]
    pub pages: Vec<PageSpec>,
    /// Output file of events; a collector that restarts continues it.
    pub events: PathBuf,
}

/// StatsD metrics to receive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatsdSpec {
    /// The UDP address to listen on.
    pub address: SocketAddr,
    /// The names whose values are kept.
    pub names: Vec<String>,
}

/// OpenTelemetry metrics to receive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtlpSpec {
    /// The TCP address to listen on.
    pub address: SocketAddr,
    /// The metrics whose values are kept, as names with optional attributes: `requests{code="200"}`.
    pub series: Vec<String>,
}

/// A page in Prometheus's text format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageSpec {
    /// Its TCP port on the node's loopback interface.
    pub port: u16,
    /// Its path.
    pub path: String,
    /// Interval between two requests, in ns.
    pub every_ns: u64,
    /// The series to keep, as names with optional labels: `requests_total{code="200"}`.
    pub series: Vec<String>,
}

impl Spec for CollectorSpec {
    const PROGRAM: &'static str = "collect";

    fn check(&self) -> Result<(), String> {
        let is_wrong = |text: &&String| SeriesSelector::parse(text).is_none();
        if let Some(wrong) = self.otlp.iter().flat_map(|otlp| &otlp.series).find(is_wrong) {
            return Err(format!("otlp has {wrong:?}; it must be like a or a{{b=\"c\"}}"));
        }
        for page in &self.pages {
            if page.port == 0 {
                return Err("port must be from 1 to 65535".into());
            }
            // A page more often than each millisecond would only measure the collector.
            if page.every_ns < 1_000_000 {
                return Err(format!("every_ns is {}; it must be 1000000 or more", page.every_ns));
            }
            if !page.path.starts_with('/')
                || page.path.contains(|c: char| c.is_control() || c == ' ')
            {
                return Err(format!("path is {:?}; it must be like /metrics", page.path));
            }
            if let Some(wrong) =
                page.series.iter().find(|text| SeriesSelector::parse(text).is_none())
            {
                return Err(format!("series has {wrong:?}; it must be like a or a{{b=\"c\"}}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::error_with;
    use super::*;
    use serde_json::json;

    #[test]
    fn says_what_is_wrong() {
        let spec = |page| json!({"pages": [page], "events": "/e.csv"});
        let page =
            json!({"port": 8000, "path": "/metrics", "every_ns": 1_000_000, "series": ["a"]});
        assert!(CollectorSpec::parse(&spec(page.clone()).to_string()).is_ok());
        for (key, value, word) in [
            ("port", json!(0), "65535"),
            ("every_ns", json!(10), "1000000"),
            ("path", json!("metrics"), "/metrics"),
            ("path", json!("/a b"), "/metrics"),
            ("series", json!(["a{"]), "a{b="),
        ] {
            let mut wrong = page.clone();
            wrong[key] = value;
            let error = error_with::<CollectorSpec>(spec(page.clone()), "pages", json!([wrong]));
            assert!(error.contains(word), "{key}: {error}");
        }
    }
}
