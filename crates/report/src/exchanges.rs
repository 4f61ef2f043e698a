//! Metrics of exchanges by payload size and section, from the summary of a run.

use serde_json::Value;

/// The exchanges of one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchanges {
    /// Name of the workload.
    pub name: String,
    /// Protocol.
    pub protocol: String,
    /// Number of exchanges.
    pub count: u64,
    /// Number of failed exchanges.
    pub failed: u64,
    /// Reasons of failures, and their number.
    pub failures: Vec<(String, u64)>,
    /// Metrics by payload size, in ascending order.
    pub sizes: Vec<SizeResults>,
}

/// The exchanges of one payload size. A metric is missing if all of them failed.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeResults {
    /// Payload in bytes.
    pub payload: u64,
    /// Number of exchanges.
    pub count: u64,
    /// Number of failed exchanges.
    pub failed: u64,
    /// Time from start to end, ms: median and confidence interval.
    pub time_ms: Option<MedianInterval>,
    /// Bytes on the wire.
    pub bytes: Option<MedianInterval>,
    /// Sections: name, median time in ms, median bytes.
    pub sections: Vec<(String, Option<f64>, Option<f64>)>,
}

/// A median and its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianInterval {
    /// The median.
    pub median: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

/// Reads the key `exchanges` of a summary.
pub(crate) fn read(figures: &Value) -> Vec<Exchanges> {
    let workloads = figures.as_object().into_iter().flatten();
    workloads
        .map(|(name, value)| {
            let number = |key: &str| value[key].as_u64().unwrap_or(0);
            let failures = value["failures"].as_object().into_iter().flatten();
            let mut sizes: Vec<SizeResults> = value["sizes"]
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(size, value)| Some(of_size(size.parse().ok()?, value)))
                .collect();
            sizes.sort_by_key(|size| size.payload);
            Exchanges {
                name: name.clone(),
                protocol: value["protocol"].as_str().unwrap_or_default().to_owned(),
                count: number("exchanges"),
                failed: number("failed"),
                failures: failures
                    .filter_map(|(reason, count)| Some((reason.clone(), count.as_u64()?)))
                    .collect(),
                sizes,
            }
        })
        .collect()
}

fn of_size(payload: u64, value: &Value) -> SizeResults {
    let number = |key: &str| value[key].as_u64().unwrap_or(0);
    let sections = value["sections"].as_object().into_iter().flatten();
    let mut sections: Vec<_> = sections
        .map(|(name, value)| (name.clone(), value["time_ms"].as_f64(), value["bytes"].as_f64()))
        .collect();
    // JSON objects have no order; the sections of an exchange have.
    sections.sort_by_key(|(name, ..)| order(name));
    SizeResults {
        payload,
        count: number("exchanges"),
        failed: number("failed"),
        time_ms: middle(value, "time", "_ms"),
        bytes: middle(value, "bytes", ""),
        sections,
    }
}

fn middle(value: &Value, name: &str, unit: &str) -> Option<MedianInterval> {
    let part = |what: &str| value[&*format!("{name}{what}{unit}")].as_f64();
    Some(MedianInterval { median: part("")?, low: part("_low")?, high: part("_high")? })
}

/// Order of a section in an exchange.
fn order(section: &str) -> (u32, u32) {
    match section {
        "transport_connect" => (0, 0),
        "protocol_connect" => (1, 0),
        "protocol_close" => (3, 0),
        "transport_close" => (4, 0),
        other => {
            let block = other.strip_prefix("payload_").and_then(|block| block.parse().ok());
            (2, block.unwrap_or(0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sizes_and_sections_are_in_their_order() {
        let section = json!({"time_ms": 1.0, "bytes": 60.0});
        let size = |ms: f64| {
            json!({"exchanges": 3, "failed": 1, "time_ms": ms, "time_low_ms": ms - 1.0,
                "time_high_ms": ms + 1.0, "bytes": null, "sections": {"transport_close": section,
                "payload_10": section, "payload_2": section, "transport_connect": section}})
        };
        let figures = json!({"meter": {"protocol": "coap", "exchanges": 6, "failed": 2,
            "failures": {"timeout": 2}, "sizes": {"1000": size(9.0), "200": size(4.0)}}});
        let found = &read(&figures)[0];
        assert_eq!((found.failed, &found.failures[0].0[..]), (2, "timeout"));
        assert_eq!(found.sizes.iter().map(|s| s.payload).collect::<Vec<_>>(), [200, 1000]);
        let size = &found.sizes[0];
        assert_eq!(size.time_ms, Some(MedianInterval { median: 4.0, low: 3.0, high: 5.0 }));
        assert_eq!(size.bytes, None);
        let names: Vec<_> = size.sections.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["transport_connect", "payload_2", "payload_10", "transport_close"]);
        assert!(read(&Value::Null).is_empty());
    }
}
