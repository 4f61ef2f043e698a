//! Values that a program prints, as figures of a run.

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use units::{Bytes, Rate, Span};

/// Name of the group of a pattern that is the value.
const VALUE: &str = "value";
/// Name of the group of a pattern that is the value's unit.
const UNIT: &str = "unit";
/// Limit of a compiled pattern in bytes: patterns come from files of others.
const PATTERN_LIMIT: usize = 1 << 20;

/// A figure, and how to find its values in the output of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgramMetric {
    /// Its name in the results.
    pub name: String,
    /// Where to look.
    pub from: Stream,
    /// What to look for.
    pub rule: Rule,
    /// Unit of its values; empty without one.
    pub unit: String,
    /// Whether a program may print no value.
    pub optional: bool,
}

/// An output of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdout => "standard output",
            Self::Stderr => "standard error",
        })
    }
}

/// How to find values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// A path of keys in JSON, separated by dots; `*` means all keys or items, a number an
    /// item.
    Json(String),
    /// A regular expression for each line. Its group `value`, or else its first group, is the
    /// value; without a group, each match counts as 1. The group `unit` is the value's unit.
    Match(String),
    /// The name of a metric that programs send to their node's collector in StatsD's line format.
    Statsd(String),
    /// A series of a page of Prometheus metrics.
    Prometheus(Scrape),
    /// A metric that programs send to their node's collector with an SDK of OpenTelemetry, with optional attributes.
    Opentelemetry(String),
}

/// A series of a page in Prometheus's text format, and how to read the page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scrape {
    /// Its name, with optional labels: `requests_total{code="200"}`.
    pub series: String,
    /// The page's TCP port in the node.
    pub port: u16,
    /// The page's path.
    pub path: String,
    /// Interval of requests.
    pub every: Span,
}

/// Where programs find the collector of their node: the address to which libraries for StatsD send
/// by default.
pub const STATSD: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8125);

/// Where the collector receives OpenTelemetry's protocol over HTTP: the default of its SDKs.
pub const OTLP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4318);

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(path) => write!(f, "the JSON path `{path}`"),
            Self::Match(pattern) => write!(f, "the pattern `{pattern}`"),
            Self::Statsd(name) => write!(f, "the StatsD metric `{name}`"),
            Self::Opentelemetry(name) => write!(f, "the OpenTelemetry metric `{name}`"),
            Self::Prometheus(Scrape { series, port, path, .. }) => {
                write!(f, "the series `{series}` of http://127.0.0.1:{port}{path}")
            }
        }
    }
}

/// A compiled pattern.
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    /// Number of the group that is the value; `None` if matches are counted.
    value: Option<usize>,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If it is not a regular expression, or too large.
    pub fn new(text: &str) -> Result<Self, String> {
        let built = RegexBuilder::new(text).size_limit(PATTERN_LIMIT).build();
        let regex = built.map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
            // The last line says what is wrong; those before repeat the pattern.
            other => {
                let text = other.to_string();
                let last = text.lines().last().unwrap_or_default();
                last.trim_start_matches("error: ").to_owned()
            }
        })?;
        let named = regex.capture_names().position(|name| name == Some(VALUE));
        // Group 0 is the whole match.
        let first = regex.capture_names().skip(1).position(|name| name != Some(UNIT));
        let value = named.or(first.map(|number| number + 1));
        Ok(Self { regex, value })
    }

    /// Whether the pattern finds the unit of each value.
    pub(crate) fn has_unit(&self) -> bool {
        self.regex.capture_names().any(|name| name == Some(UNIT))
    }

    /// Whether the pattern only counts matches.
    pub fn counts(&self) -> bool {
        self.value.is_none()
    }

    /// Whether it has a match in a line.
    pub(crate) fn matches(&self, line: &str) -> bool {
        self.regex.is_match(line)
    }

    /// The values in a line, in `unit`. A match whose value is not a number, or whose unit does not
    /// convert, has none.
    pub fn values<'a>(&'a self, line: &'a str, unit: &'a str) -> impl Iterator<Item = f64> + 'a {
        self.regex.captures_iter(line).filter_map(move |found| {
            let Some(number) = self.value else { return Some(1.0) };
            let value: f64 = found.get(number)?.as_str().parse().ok()?;
            let value = match found.name(UNIT) {
                Some(own) => convert(value, own.as_str(), unit)?,
                None => value,
            };
            // A program may print `inf` or `nan`, which would make its figures vanish.
            record::is_usable(value).then_some(value)
        })
    }
}

/// A value in another unit; `None` if the units measure different things.
pub(crate) fn convert(value: f64, from: &str, to: &str) -> Option<f64> {
    if from == to {
        return Some(value);
    }
    let [time, rate, size] = [
        |unit: &str| Some(format!("1 {unit}").parse::<Span>().ok()?.as_ns() as f64),
        |unit: &str| Some(format!("1 {unit}").parse::<Rate>().ok()?.bit_s() as f64),
        |unit: &str| Some(format!("1 {unit}").parse::<Bytes>().ok()?.get() as f64),
    ];
    let by = |of: fn(&str) -> Option<f64>| Some(value * of(from)? / of(to)?);
    by(time).or_else(|| by(rate)).or_else(|| by(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pattern: &str, line: &str, unit: &str) -> Vec<f64> {
        Pattern::new(pattern).unwrap().values(line, unit).collect()
    }

    #[test]
    fn the_value_is_a_named_group_or_the_first() {
        assert_eq!(values(r"time=([\d.]+)", "time=1.5 time=2", "ms"), [1.5, 2.0]);
        assert_eq!(values(r"(\w+)=(?<value>\d+)", "a=7", ""), [7.0]);
        assert_eq!(values("error", "error after error", ""), [1.0, 1.0]);
        assert_eq!(values(r"n=(\w+)", "n=none n=3 n=inf", ""), [3.0]);
    }

    #[test]
    fn the_unit_of_each_value_is_converted() {
        let pattern = r"(?<value>[\d.]+) ?(?<unit>us|ms|s)";
        assert_eq!(values(pattern, "950us 1.25 ms 2s", "ms"), [0.95, 1.25, 2000.0]);
        assert_eq!(values(pattern, "2s", "kB"), [] as [f64; 0]);
        assert_eq!(convert(2.0, "Mbit/s", "kbit/s"), Some(2000.0));
        assert_eq!(convert(1.0, "KiB", "B"), Some(1024.0));
        assert_eq!(convert(1.0, "parsec", "parsec"), Some(1.0));
        assert_eq!(convert(1.0, "ms", "B"), None);
    }

    #[test]
    fn a_wrong_pattern_says_why() {
        assert_eq!(Pattern::new("time=(").unwrap_err(), "unclosed group");
        assert_eq!(Pattern::new(r"\w{1000}{1000}").unwrap_err(), "it is too large");
    }
}
