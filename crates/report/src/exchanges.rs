//! Metrics of exchanges by payload size and section, from the summary of a run.

use record::SizeFigures;
use record::event::Section;
use serde::Deserialize;
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

/// Reads the figures of one workload; `None` if they are damaged.
pub(crate) fn read(name: &str, figures: &Value) -> Option<Exchanges> {
    let found = record::Exchanges::deserialize(figures).ok()?;
    Some(Exchanges {
        name: name.to_owned(),
        protocol: found.protocol,
        count: found.exchanges,
        failed: found.failed,
        failures: found.failures.into_iter().collect(),
        sizes: found.sizes.into_iter().map(|(payload, size)| of_size(payload, size)).collect(),
    })
}

fn of_size(payload: u64, size: SizeFigures) -> SizeResults {
    let sections = size.sections.into_iter();
    let mut sections: Vec<_> =
        sections.map(|(name, section)| (name, section.time_ms, section.bytes)).collect();
    // JSON objects have no order; the sections of an exchange have.
    sections.sort_by_key(|(name, ..)| order(name));
    let interval = |median: Option<f64>, low: Option<f64>, high: Option<f64>| {
        Some(MedianInterval { median: median?, low: low?, high: high? })
    };
    SizeResults {
        payload,
        count: size.exchanges,
        failed: size.failed,
        time_ms: interval(size.time_ms, size.time_low_ms, size.time_high_ms),
        bytes: interval(size.bytes, size.bytes_low, size.bytes_high),
        sections,
    }
}

/// Order of a section in an exchange.
fn order(section: &str) -> (u32, u32) {
    match Section::try_from(section.to_owned()) {
        Ok(Section::All | Section::TransportConnect) => (0, 0),
        Ok(Section::ProtocolConnect) => (1, 0),
        Ok(Section::Block(number)) => (2, number),
        // Also a section of another version.
        Ok(Section::Payload) | Err(_) => (2, 0),
        Ok(Section::ProtocolClose) => (3, 0),
        Ok(Section::TransportClose) => (4, 0),
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
        let found = read("meter", &figures["meter"]).unwrap();
        assert_eq!((found.failed, &found.failures[0].0[..]), (2, "timeout"));
        assert_eq!(found.sizes.iter().map(|s| s.payload).collect::<Vec<_>>(), [200, 1000]);
        let size = &found.sizes[0];
        assert_eq!(size.time_ms, Some(MedianInterval { median: 4.0, low: 3.0, high: 5.0 }));
        assert_eq!(size.bytes, None);
        let names: Vec<_> = size.sections.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["transport_connect", "payload_2", "payload_10", "transport_close"]);
        assert_eq!(read("meter", &Value::Null), None);
    }
}
