//! What is in a trace.

use crate::distribution::Distribution;
use crate::reader::LineError;
use crate::request::Request;
use crate::resource::Resource;
use crate::spread::{Spread, SpreadSummary};
use crate::uri::Target;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// How many different devices, hosts and resources are told apart; more are counted
/// together, so that memory stays bounded.
const APART: usize = 100_000;
/// How many bars the rate over time has at most.
const BARS: usize = 120;
/// How many mistakes are shown in words.
const SHOWN: usize = 10;

/// What is in a trace, as its lines come in. Memory is bounded, however long it is.
#[derive(Debug)]
pub struct Tally {
    between: Spread,
    of_device: Spread,
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
    service: Spread,
    unknown: u64,
    faults: u64,
    shown: Vec<String>,
}

/// The figures of a trace; times in us.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// Requests.
    pub requests: u64,
    /// Lines that are none.
    pub faults: u64,
    /// The first of those, in words.
    pub fault_texts: Vec<String>,
    /// From the first request to the last, in seconds.
    pub seconds: f64,
    /// Requests a second within that.
    pub rate: f64,
    /// Different devices, at most 100,000.
    pub devices: usize,
    /// Different hosts, at most 100,000.
    pub hosts: usize,
    /// Different URIs, at most 100,000.
    pub uris: usize,
    /// Requests by method.
    pub methods: BTreeMap<&'static str, u64>,
    /// Bytes that requests carry, where the trace says so.
    pub bytes: u64,
    /// Time from request to request, of all.
    pub between: SpreadSummary,
    /// The standard deviation over the mean of it: 1 for chance, 0 for a clock.
    pub variation: f64,
    /// How far its distribution is from an exponential one of its mean, 0 to 1.
    pub from_exponential: f64,
    /// Time from request to request of the same device, of all devices together.
    pub of_device: SpreadSummary,
    /// Service times of the resources that requests are for, where they are known.
    pub service: Option<SpreadSummary>,
    /// Requests for resources that are not known.
    pub unknown: u64,
    /// How long each bar of `rates` stands for, in seconds.
    pub bar_seconds: f64,
    /// Requests a second, bar by bar.
    pub rates: Vec<f64>,
    /// The share of times between requests in each decade and its thirds: the upper end in
    /// us, and the share.
    pub shares: Vec<(f64, f64)>,
}

impl Default for Tally {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl Tally {
    /// Nothing yet. With the devices' resources it knows service times.
    pub fn new(resources: &[Resource]) -> Self {
        let known =
            resources.iter().map(|r| ((r.device, r.path.clone()), r.time.clone())).collect();
        Self {
            between: Spread::new(),
            of_device: Spread::new(),
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
            service: Spread::new(),
            unknown: 0,
            faults: 0,
            shown: Vec::new(),
        }
    }

    /// Counts a request. A time before the last one counts as the last.
    pub fn add(&mut self, request: &Request) {
        if self.first.is_none() {
            self.first = Some(request.at);
        } else {
            self.between.record(request.at.saturating_sub(self.last));
        }
        self.last = self.last.max(request.at);
        let known = self.last_of.len() < APART || self.last_of.contains_key(&request.device);
        let before = if known { self.last_of.insert(request.device, request.at) } else { None };
        if let Some(before) = before {
            self.of_device.record(request.at.saturating_sub(before));
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

    /// Counts a line that is no request.
    pub fn add_fault(&mut self, error: &LineError) {
        self.faults += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(error.to_string());
        }
    }

    fn add_service(&mut self, device: u32, path: &str) {
        if self.known.is_empty() {
            return;
        }
        let of = |device| self.known.get(&(device, path.to_owned()));
        match of(Some(device)).or_else(|| of(None)) {
            // Of a resource with a distribution of its own, evenly spread draws.
            Some(time) => {
                let place = (self.count as f64 * 0.618_033_988_75).fract();
                self.service.record(time.draw_ns(place, self.count));
            }
            None => self.unknown += 1,
        }
    }

    fn add_bar(&mut self, at: u64) {
        while at / self.bar_ns >= BARS as u64 {
            self.bar_ns *= 2;
            self.bars = self.bars.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let place = (at / self.bar_ns) as usize;
        if self.bars.len() <= place {
            self.bars.resize(place + 1, 0);
        }
        self.bars[place] += 1;
    }

    /// The figures.
    pub fn finish(self) -> Inspection {
        let seconds = self.last.saturating_sub(self.first.unwrap_or(0)) as f64 / 1e9;
        let mean = self.between.mean_ns();
        let bar_seconds = self.bar_ns as f64 / 1e9;
        let exponential = |ns: f64| if ns < 0.0 { 0.0 } else { -(-ns / mean).exp_m1() };
        Inspection {
            requests: self.count,
            faults: self.faults,
            fault_texts: self.shown,
            seconds,
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
            between: self.between.summary(),
            of_device: self.of_device.summary(),
            service: (self.service.count() > 0).then(|| self.service.summary()),
            unknown: self.unknown,
            bar_seconds,
            rates: self.bars.iter().map(|count| *count as f64 / bar_seconds).collect(),
        }
    }
}

/// Shares of times by thirds of a decade: 1, 2, 5, 10, 20, 50 us and so on.
fn shares(spread: &Spread) -> Vec<(f64, f64)> {
    let mut shares = Vec::new();
    let mut before = 0.0;
    for power in 0..13 {
        for step in [1, 2, 5] {
            let end = 10u64.pow(power) * step * 1_000;
            let here = spread.cdf(end);
            if here > before {
                shares.push((end as f64 / 1e3, here - before));
            }
            before = here;
        }
    }
    shares
}

fn count(counts: &mut BTreeMap<String, u64>, name: &str) {
    if let Some(count) = counts.get_mut(name) {
        *count += 1;
    } else if counts.len() < APART {
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
        assert!(seen.rates.len() <= BARS && seen.rates.len() > BARS / 3);
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
