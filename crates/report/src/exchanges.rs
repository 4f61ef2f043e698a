//! Figures of exchanges, by size and section, from a run's summary.

use serde_json::Value;

/// The exchanges of one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchanges {
    /// The name of the workload.
    pub name: String,
    /// Over what.
    pub protocol: String,
    /// How many there were, and how many failed.
    pub count: u64,
    /// See `count`.
    pub failed: u64,
    /// Why they failed, and how often.
    pub failures: Vec<(String, u64)>,
    /// The figures of each size, from the least.
    pub sizes: Vec<OfSize>,
}

/// The exchanges of one size. A figure is missing where none went well.
#[derive(Debug, Clone, PartialEq)]
pub struct OfSize {
    /// Bytes of payload.
    pub payload: u64,
    /// How many there were, and how many failed.
    pub count: u64,
    /// See `count`.
    pub failed: u64,
    /// Time from beginning to end in ms: the median and its interval.
    pub time_ms: Option<Middle>,
    /// Bytes on the wire.
    pub bytes: Option<Middle>,
    /// Each section's name, median time in ms and median bytes.
    pub sections: Vec<(String, Option<f64>, Option<f64>)>,
}

/// A median, and between which values it lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Middle {
    /// The median.
    pub median: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

/// What stands in a summary under `exchanges`.
pub(crate) fn read(figures: &Value) -> Vec<Exchanges> {
    let workloads = figures.as_object().into_iter().flatten();
    workloads
        .map(|(name, value)| {
            let number = |key: &str| value[key].as_u64().unwrap_or(0);
            let failures = value["failures"].as_object().into_iter().flatten();
            let mut sizes: Vec<OfSize> = value["sizes"]
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

fn of_size(payload: u64, value: &Value) -> OfSize {
    let number = |key: &str| value[key].as_u64().unwrap_or(0);
    let sections = value["sections"].as_object().into_iter().flatten();
    let mut sections: Vec<_> = sections
        .map(|(name, value)| (name.clone(), value["time_ms"].as_f64(), value["bytes"].as_f64()))
        .collect();
    // JSON's objects may come in any order; an exchange has one.
    sections.sort_by_key(|(name, ..)| order(name));
    OfSize {
        payload,
        count: number("exchanges"),
        failed: number("failed"),
        time_ms: middle(value, "time", "_ms"),
        bytes: middle(value, "bytes", ""),
        sections,
    }
}

fn middle(value: &Value, name: &str, unit: &str) -> Option<Middle> {
    let part = |what: &str| value[&*format!("{name}{what}{unit}")].as_f64();
    Some(Middle { median: part("")?, low: part("_low")?, high: part("_high")? })
}

/// A section's place in an exchange.
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
        assert_eq!(size.time_ms, Some(Middle { median: 4.0, low: 3.0, high: 5.0 }));
        assert_eq!(size.bytes, None);
        let names: Vec<_> = size.sections.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["transport_connect", "payload_2", "payload_10", "transport_close"]);
        assert!(read(&Value::Null).is_empty());
    }
}
