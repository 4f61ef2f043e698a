//! Reads logs of histograms, to merge the results of several senders.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use trace::Method;
use units::Histogram;

/// A latency of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Latency {
    /// From the intended time to the answer.
    Response,
    /// From the send time to the answer.
    Service,
    /// From the intended time to the send time, without the wait for a connection.
    Slip,
    /// The wait for a free connection, or for NSTART.
    Wait,
    /// Time between two notifications of an observation.
    Notification,
}

/// A latency histogram of a class of operations at a device.
#[derive(Debug, Clone)]
pub struct History {
    /// The class.
    pub method: Method,
    /// The device; None for all devices that have no separate series.
    pub device: Option<u32>,
    /// Which latency.
    pub latency: Latency,
    /// The histogram.
    pub times: Histogram,
}

/// Reads a log that [`write_log`](crate::write_log) wrote.
///
/// # Errors
/// The first entry that is not valid, and why.
pub fn read_log(log: &[u8]) -> Result<Vec<History>, String> {
    let mut histories = Vec::new();
    let mut deserializer = Deserializer::new();
    for (number, entry) in IntervalLogIterator::new(log).enumerate() {
        let wrong = |why: String| format!("entry {}: {why}", number + 1);
        let entry = entry.map_err(|error| wrong(format!("{error:?}")))?;
        let LogEntry::Interval(interval) = entry else { continue };
        let tag = interval.tag().map(|tag| tag.as_str().to_owned()).unwrap_or_default();
        let bytes = STANDARD
            .decode(interval.encoded_histogram())
            .map_err(|error| wrong(format!("the histogram of `{tag}`: {error}")))?;
        let histogram = deserializer
            .deserialize(&mut &bytes[..])
            .map_err(|error| wrong(format!("the histogram of `{tag}`: {error}")))?;
        let parts: Vec<&str> = tag.split(';').collect();
        let [method, device, latency] = parts[..] else {
            return Err(wrong(format!("`{tag}` is not class;device;latency")));
        };
        histories.push(History {
            method: method.parse().map_err(wrong)?,
            device: device.parse().ok(),
            latency: match latency {
                "response" => Latency::Response,
                "service" => Latency::Service,
                "slip" => Latency::Slip,
                "wait" => Latency::Wait,
                "notification" => Latency::Notification,
                _ => return Err(wrong(format!("`{latency}` is not a latency"))),
            },
            times: Histogram::of(histogram),
        });
    }
    Ok(histories)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_log_is_said() {
        assert!(read_log(b"").unwrap().is_empty());
        assert!(read_log(b"hello").is_err());
        let wrong = b"Tag=GET;1;response,0.0,1.0,0.1,HIST????\n";
        assert!(read_log(wrong).unwrap_err().starts_with("entry 1: "));
    }
}
