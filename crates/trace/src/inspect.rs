//! Statistics of a trace.

use crate::distribution::Distribution;
use crate::histogram_summary::HistogramSummary;
use crate::reader::LineError;
use crate::request::Request;
use crate::resource::Resource;
use crate::uri::Target;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use units::Histogram;

/// Maximum number of distinct devices, hosts and resources that are counted separately, so that
/// memory stays bounded.
const MAX_DISTINCT: usize = 100_000;
/// Maximum number of bars of the rate over time.
const MAX_BARS: usize = 120;
/// Maximum number of invalid lines quoted.
const MAX_FAULT_TEXTS: usize = 10;

/// Running statistics of a trace. Memory is bounded for any length.
#[derive(Debug)]
pub struct Tally {
    between: Histogram,
    of_device: Histogram,
    last_of: HashMap<u32, u64>,
    first: Option<u64>,
    last: u64,
    count: u64,
    methods: BTreeMap<&'static str, u64>,
    hosts: BTreeMap<String, u64>,
    resources: BTreeMap<String, u64>,
    bytes: u64,
    bars: Vec<u64>,
    bar_ns: u64,
    known: HashMap<(Option<u32>, String), Distribution>,
    service: Histogram,
    unknown: u64,
    faults: u64,
    fault_texts: Vec<String>,
}

/// Statistics of a trace; times in us.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// Number of requests.
    pub requests: u64,
    /// Number of invalid lines.
    pub faults: u64,
    /// Error messages of the first invalid lines.
    pub fault_texts: Vec<String>,
    /// Time from the first request to the last, in seconds.
    pub seconds: f64,
    /// Mean request rate over that time, per second.
    pub rate: f64,
    /// Distinct devices, at most 100,000.
    pub devices: usize,
    /// Distinct hosts, at most 100,000.
    pub hosts: usize,
    /// Distinct URIs, at most 100,000.
    pub uris: usize,
    /// Requests by method.
    pub methods: BTreeMap<&'static str, u64>,
    /// Total request payload in bytes, where the trace gives sizes.
    pub bytes: u64,
    /// Inter-arrival time of all requests.
    pub between: HistogramSummary,
    /// Coefficient of variation of the inter-arrival time: 1 for Poisson, 0 for a fixed interval.
    pub variation: f64,
    /// Kolmogorov-Smirnov distance of the inter-arrival times from an exponential distribution of
    /// the same mean, 0 to 1.
    pub from_exponential: f64,
    /// Inter-arrival time per device, over all devices.
    pub of_device: HistogramSummary,
    /// Service times of the requested resources, where known.
    pub service: Option<HistogramSummary>,
    /// Requests for unknown resources.
    pub unknown: u64,
    /// Width of each bar of `rates`, in seconds.
    pub bar_seconds: f64,
    /// Requests per second, per bar.
    pub rates: Vec<f64>,
    /// Histogram of inter-arrival times in thirds of a decade: the upper bound in us, and the
    /// share.
    pub shares: Vec<(f64, f64)>,
}

impl Default for Tally {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl Tally {
    /// Empty statistics. With the devices' resources, service times are included.
    pub fn new(resources: &[Resource]) -> Self {
        let known =
            resources.iter().map(|r| ((r.device, r.path.clone()), r.time.clone())).collect();
        Self {
            between: Histogram::new(),
            of_device: Histogram::new(),
            last_of: HashMap::new(),
            first: None,
            last: 0,
            count: 0,
            methods: BTreeMap::new(),
            hosts: BTreeMap::new(),
            resources: BTreeMap::new(),
            bytes: 0,
            bars: Vec::new(),
            bar_ns: 1_000_000,
            known,
            service: Histogram::new(),
            unknown: 0,
            faults: 0,
            fault_texts: Vec::new(),
        }
    }

    /// Counts a request. A time before the previous one counts as the previous.
    pub fn add(&mut self, request: &Request) {
        if self.first.is_none() {
            self.first = Some(request.at);
        } else {
            self.between.record(request.at.saturating_sub(self.last));
        }
        self.last = self.last.max(request.at);
        let known = self.last_of.len() < MAX_DISTINCT || self.last_of.contains_key(&request.device);
        let previous = if known { self.last_of.insert(request.device, request.at) } else { None };
        if let Some(previous) = previous {
            self.of_device.record(request.at.saturating_sub(previous));
        }
        *self.methods.entry(request.method.name()).or_default() += 1;
        self.bytes += u64::from(request.size.unwrap_or(0));
        count(&mut self.resources, request.uri);
        if let Ok(target) = Target::parse(request.uri) {
            count(&mut self.hosts, target.host);
            self.add_service(request.device, target.path);
        }
        self.add_bar(request.at);
        self.count += 1;
    }

    /// Counts an invalid line.
    pub fn add_fault(&mut self, error: &LineError) {
        self.faults += 1;
        if self.fault_texts.len() < MAX_FAULT_TEXTS {
            self.fault_texts.push(error.to_string());
        }
    }

    fn add_service(&mut self, device: u32, path: &str) {
        if self.known.is_empty() {
            return;
        }
        let of = |device| self.known.get(&(device, path.to_owned()));
        match of(Some(device)).or_else(|| of(None)) {
            // Low-discrepancy sequence (golden ratio) instead of random draws.
            Some(time) => {
                let place = (self.count as f64 * 0.618_033_988_75).fract();
                self.service.record(time.draw_ns(place, self.count));
            }
            None => self.unknown += 1,
        }
    }

    fn add_bar(&mut self, at: u64) {
        // Twice as wide bars, so that the number of bars stays bounded while the length is unknown.
        while at / self.bar_ns >= MAX_BARS as u64 {
            self.bar_ns *= 2;
            self.bars = self.bars.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let place = (at / self.bar_ns) as usize;
        if self.bars.len() <= place {
            self.bars.resize(place + 1, 0);
        }
        self.bars[place] += 1;
    }

    /// The statistics.
    pub fn finish(self) -> Inspection {
        let seconds = self.last.saturating_sub(self.first.unwrap_or(0)) as f64 / 1e9;
        let mean = self.between.mean_ns();
        let bar_seconds = self.bar_ns as f64 / 1e9;
        let exponential = |ns: f64| if ns < 0.0 { 0.0 } else { -(-ns / mean).exp_m1() };
        Inspection {
            requests: self.count,
            faults: self.faults,
            fault_texts: self.fault_texts,
            seconds,
            // There is one interval less than there are requests.
            rate: if seconds > 0.0 { (self.count - 1) as f64 / seconds } else { 0.0 },
            devices: self.last_of.len(),
            hosts: self.hosts.len(),
            uris: self.resources.len(),
            methods: self.methods,
            bytes: self.bytes,
            variation: if mean > 0.0 { self.between.deviation_ns() / mean } else { 0.0 },
            from_exponential: if mean > 0.0 {
                self.between.distance_from(exponential)
            } else {
                1.0
            },
            shares: shares(&self.between),
            between: HistogramSummary::from(&self.between),
            of_device: HistogramSummary::from(&self.of_device),
            service: (self.service.count() > 0).then(|| HistogramSummary::from(&self.service)),
            unknown: self.unknown,
            bar_seconds,
            rates: self.bars.iter().map(|count| *count as f64 / bar_seconds).collect(),
        }
    }
}

/// Shares of times in thirds of a decade: 1, 2, 5, 10, 20, 50 us and so on.
fn shares(spread: &Histogram) -> Vec<(f64, f64)> {
    let mut shares = Vec::new();
    let mut previous = 0.0;
    for power in 0..13 {
        for step in [1, 2, 5] {
            let end = 10u64.pow(power) * step * 1_000;
            let here = spread.cdf(end);
            if here > previous {
                shares.push((end as f64 / 1e3, here - previous));
            }
            previous = here;
        }
    }
    shares
}

fn count(counts: &mut BTreeMap<String, u64>, name: &str) {
    if let Some(count) = counts.get_mut(name) {
        *count += 1;
    } else if counts.len() < MAX_DISTINCT {
        counts.insert(name.to_owned(), 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Reader;

    fn tallied(text: &str, resources: &[Resource]) -> Inspection {
        let mut tally = Tally::new(resources);
        let mut reader = Reader::new(text.as_bytes());
        while let Some(read) = reader.read().unwrap() {
            match read {
                Ok(request) => tally.add(&request),
                Err(error) => tally.add_fault(&error),
            }
        }
        tally.finish()
    }

    #[test]
    fn counts_what_is_there_and_what_is_wrong() {
        let text = "0, 0, GET, coap://a/x\n1, 1000, POST, coap://b/x, 20\n\
                    0, 500, GET, coap://a/x\n0, 4000, GET, coap://a/y\nnonsense\n";
        let resource = "*, x, sleep, constant:5ms".parse().unwrap();
        let seen = tallied(text, &[resource]);
        assert_eq!((seen.requests, seen.faults, seen.devices), (3, 2, 2));
        assert_eq!((seen.hosts, seen.uris, seen.bytes, seen.unknown), (2, 3, 20, 1));
        assert_eq!((seen.seconds, seen.rate), (0.004, 500.0));
        assert_eq!((seen.between.mean, seen.of_device.mean), (2_000.0, 4_000.0));
        assert_eq!(seen.service.unwrap().mean, 5_000.0);
        assert!(seen.fault_texts[0].starts_with("line 3: 500 us is before 1000 us"));
    }

    #[test]
    fn the_picture_keeps_its_size_however_long_the_trace() {
        let text: String =
            (0..5_000u64).map(|i| format!("0, {}, GET, coap://a/x\n", i * 10_000)).collect();
        let seen = tallied(&text, &[]);
        assert!(seen.rates.len() <= MAX_BARS && seen.rates.len() > MAX_BARS / 3);
        let middle = seen.rates[seen.rates.len() / 2];
        assert!((middle - 100.0).abs() < 2.0, "{middle}");
        assert_eq!(seen.shares, [(10_000.0, 1.0)]);
        assert_eq!(seen.variation, 0.0);
    }

    #[test]
    fn nothing_and_one_request_are_no_trouble() {
        assert_eq!(tallied("", &[]).requests, 0);
        assert_eq!(tallied("0, 5, GET, coap://a/x", &[]).rate, 0.0);
    }
}
