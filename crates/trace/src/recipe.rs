//! Trace specifications: traces generated from distributions.

use crate::arguments::ParseError;
use crate::arrivals::{Arrivals, Times};
use crate::mix::Mix;
use crate::request::{Method, Request};
use crate::service::Service;
use crate::uri::Target;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use units::{Draw, Purpose};

/// Devices with the same load.
#[derive(Debug, Clone)]
pub struct Group {
    /// Device numbers.
    pub devices: Range<u32>,
    /// Base URIs without the resource's path; `{device}` stands for the device number. Several are
    /// used round-robin.
    pub targets: Vec<String>,
    /// Arrival process, per device or for the whole group.
    pub arrivals: Arrivals,
    /// Whether the arrival process is that of the whole group; each request then goes to a random
    /// device.
    pub together: bool,
    /// Request methods.
    pub methods: Mix<Method>,
    /// Resource paths; ignored if `service` is set.
    pub paths: Mix<String>,
    /// Chooses resources so that service times follow the configured distribution.
    pub service: Option<Service>,
    /// Request payload sizes in bytes.
    pub sizes: Option<Mix<u32>>,
}

/// Specification of a trace.
#[derive(Debug, Clone)]
pub struct TraceSpec {
    /// Seed of all draws.
    pub seed: u64,
    /// Device groups.
    pub groups: Vec<Group>,
    /// End time in ns: all requests are before it.
    pub span: Option<u64>,
    /// Maximum number of requests.
    pub requests: Option<u64>,
}

impl TraceSpec {
    /// An iterator over the requests in order of time. Memory: one time per device.
    ///
    /// # Errors
    /// A URI or method is invalid, or the trace has no end.
    pub fn requests(&self) -> Result<Requests, ParseError> {
        let error = |text: &str, why: String| Err(ParseError { text: text.to_owned(), why });
        if self.span.is_none() && self.requests.is_none() {
            return error(
                "trace",
                "the length is missing: add a time or a number of requests".into(),
            );
        }
        let mut streams = Vec::new();
        for (number, group) in self.groups.iter().enumerate() {
            if group.devices.is_empty() || group.targets.is_empty() {
                return error("devices", "there are none".to_owned());
            }
            check_group(group)?;
            let staggered = group.devices.len() > 1;
            let owners = if group.together { 0..1 } else { 0..group.devices.len() as u32 };
            for place in owners {
                let owner = group.devices.start + place;
                // By device and group: another group or device does not change these requests.
                let draw = Draw::new(self.seed, u64::from(owner), number as u64);
                let times = group.arrivals.times(draw, staggered && !group.together);
                streams.push(Stream { group: number, owner, draw, times, index: 0 });
            }
        }
        let mut requests = Requests {
            groups: self.groups.clone(),
            streams,
            next: BinaryHeap::new(),
            span: self.span.unwrap_or(u64::MAX),
            left: self.requests.unwrap_or(u64::MAX),
            uri: String::new(),
            service: None,
        };
        for place in 0..requests.streams.len() {
            requests.advance(place);
        }
        Ok(requests)
    }
}

/// Checks every path and method on each target.
fn check_group(group: &Group) -> Result<(), ParseError> {
    let mut uri = String::new();
    let paths: Vec<String> = match &group.service {
        Some(service) => service.resources().map(|(path, _)| path.to_owned()).collect(),
        None => group.paths.values().cloned().collect(),
    };
    for target in &group.targets {
        for path in &paths {
            // The last device has the longest number, so the longest URI.
            write_uri(&mut uri, target, group.devices.end - 1, path);
            let parsed = Target::parse(&uri)
                .map_err(|why| ParseError { text: target.clone(), why: why.to_string() })?;
            if let Some(method) = group.methods.values().find(|m| !m.fits(parsed.scheme)) {
                let why = format!("{method} is not a method of {}://", parsed.scheme);
                return Err(ParseError { text: target.clone(), why });
            }
        }
    }
    Ok(())
}

fn write_uri(uri: &mut String, target: &str, device: u32, path: &str) {
    uri.clear();
    let mut parts = target.split("{device}");
    uri.push_str(parts.next().unwrap_or_default());
    for part in parts {
        uri.push_str(&device.to_string());
        uri.push_str(part);
    }
    if !path.is_empty() {
        if !uri.ends_with('/') && !path.starts_with('/') {
            uri.push('/');
        }
        uri.push_str(path);
    }
}

/// The requests of one device or of a whole group.
#[derive(Debug)]
struct Stream {
    group: usize,
    owner: u32,
    draw: Draw,
    times: Times,
    index: u64,
}

/// Generator of requests in order of time.
#[derive(Debug)]
pub struct Requests {
    groups: Vec<Group>,
    streams: Vec<Stream>,
    next: BinaryHeap<Reverse<(u64, usize)>>,
    span: u64,
    left: u64,
    uri: String,
    service: Option<u64>,
}

impl Requests {
    /// The next request; borrowed, so that ten million take no extra memory.
    pub fn read(&mut self) -> Option<Request<'_>> {
        self.left = self.left.checked_sub(1)?;
        let Reverse((at, place)) = self.next.pop()?;
        self.advance(place);
        let stream = &mut self.streams[place];
        let (index, draw) = (stream.index, stream.draw);
        stream.index += 1;
        let group = &self.groups[stream.group];
        let uniform = |purpose| draw.uniform(purpose, index);
        let device = if group.together {
            let count = f64::from(group.devices.end - group.devices.start);
            group.devices.start + (uniform(Purpose::Publisher) * count) as u32
        } else {
            stream.owner
        };
        let path = match &group.service {
            Some(service) => {
                let (path, ns) =
                    service.pick(uniform(Purpose::Service), uniform(Purpose::Choice), index);
                self.service = Some(*ns);
                path
            }
            None => {
                self.service = None;
                group.paths.pick(uniform(Purpose::Choice))
            }
        };
        let turn = (device - group.devices.start) as usize % group.targets.len();
        write_uri(&mut self.uri, &group.targets[turn], device, path);
        let method = *group.methods.pick(uniform(Purpose::Method));
        let size = group.sizes.as_ref().map(|sizes| *sizes.pick(uniform(Purpose::Size)));
        Some(Request { device, at, method, uri: &self.uri, size })
    }

    /// Service time in ns of the last request's resource.
    pub fn service_ns(&self) -> Option<u64> {
        self.service
    }

    fn advance(&mut self, place: usize) {
        let moment = self.streams[place].times.next();
        if let Some(at) = moment.filter(|at| *at < self.span) {
            self.next.push(Reverse((at, place)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Histogram;

    fn group(devices: Range<u32>, arrivals: &str) -> Group {
        Group {
            devices,
            targets: vec!["coap://10.0.0.{device}".into()],
            arrivals: arrivals.parse().unwrap(),
            together: false,
            methods: Mix::of(Method::Get),
            paths: "a=1,b=3".parse().unwrap(),
            service: None,
            sizes: None,
        }
    }

    fn recipe(groups: Vec<Group>, requests: u64) -> TraceSpec {
        TraceSpec { seed: 9, groups, span: None, requests: Some(requests) }
    }

    fn lines(recipe: &TraceSpec) -> Vec<String> {
        let mut requests = recipe.requests().unwrap();
        let mut lines = Vec::new();
        while let Some(request) = requests.read() {
            lines.push(request.to_string());
        }
        lines
    }

    #[test]
    fn requests_come_in_order_and_the_same_from_the_same_seed() {
        let recipe = recipe(vec![group(1..11, "exponential:3ms")], 5_000);
        let mut requests = recipe.requests().unwrap();
        let (mut before, mut gaps, mut of_b) = (0, Histogram::new(), 0);
        while let Some(request) = requests.read() {
            gaps.record(request.at - before);
            before = request.at;
            of_b += u32::from(request.uri.ends_with("/b"));
        }
        // Ten devices at 3 ms are one request every 300 us; three in four request b.
        assert!((gaps.mean_ns() / 300e3 - 1.0).abs() < 0.05, "{}", gaps.mean_ns());
        assert!((f64::from(of_b) - 3_750.0).abs() < 5.0 * 30.6, "{of_b}");
        assert_eq!(lines(&recipe), lines(&recipe));
        assert_ne!(lines(&recipe), lines(&TraceSpec { seed: 10, ..recipe.clone() }));
    }

    #[test]
    fn a_devices_requests_do_not_depend_on_the_others() {
        let of_three = |devices| -> Vec<String> {
            let recipe = TraceSpec {
                span: Some(300_000_000),
                requests: None,
                ..recipe(vec![group(devices, "gamma:mean=3ms,shape=2")], 0)
            };
            lines(&recipe).into_iter().filter(|line| line.starts_with("3,")).collect()
        };
        assert!(of_three(1..11).len() > 50);
        assert_eq!(of_three(1..11), of_three(2..4));
    }

    #[test]
    fn together_the_interval_is_that_of_all() {
        let mut all = group(0..10, "constant:300us");
        all.together = true;
        let recipe = recipe(vec![all], 1_000);
        let mut requests = recipe.requests().unwrap();
        let mut seen = [0; 10];
        let mut place = 0;
        while let Some(request) = requests.read() {
            assert_eq!(request.at, place * 300_000);
            seen[request.device as usize] += 1;
            place += 1;
        }
        assert!(seen.iter().all(|count| (50..150).contains(count)), "{seen:?}");
    }

    #[test]
    fn it_ends_in_time_and_by_number() {
        let mut short = recipe(vec![group(0..1, "constant:1ms")], 100);
        assert_eq!(lines(&short).len(), 100);
        short.span = Some(10_000_000);
        assert_eq!(lines(&short).len(), 10);
        short.span = None;
        short.requests = None;
        assert!(short.requests().unwrap_err().to_string().contains("the length is missing"));
    }

    #[test]
    fn uris_that_would_be_none_are_refused_before_anything_is_made() {
        let mut bad = group(0..1, "constant:1ms");
        bad.targets = vec!["gopher://x".into()];
        assert!(recipe(vec![bad.clone()], 1).requests().is_err());
        bad.targets = vec!["mqtt://x".into()];
        let why = recipe(vec![bad], 1).requests().unwrap_err().to_string();
        assert!(why.contains("GET is not a method of mqtt://"), "{why}");
    }
}
