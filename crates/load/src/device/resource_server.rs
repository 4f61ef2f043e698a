//! Applies service times and counts what the device has served.

use super::misbehaviour::{Misbehaviour, MisbehaviourShares};
use super::settings::DeviceSettings;
use crate::scheduling;
use record::event::{Served, ServedResource};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use trace::{Distribution, HistogramSummary, Mode, Resource};
use units::{Draw, Histogram, Purpose, Span};

/// A device's resources and counts.
pub(crate) struct ResourceServer {
    by_path: HashMap<Vec<u8>, usize>,
    points: Vec<Point>,
    draw: Draw,
    margin: Span,
    misbehaviour: MisbehaviourShares,
    pub payload: Vec<u8>,
    /// The entity tag (ETag) of the payload.
    pub etag: [u8; 4],
    requests: AtomicU64,
    pub counts: Counters,
}

/// A device's counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub unknown: AtomicU64,
    pub refused: AtomicU64,
    pub malformed: AtomicU64,
    pub misbehaved: AtomicU64,
    pub duplicates: AtomicU64,
    pub bad_options: AtomicU64,
    pub blocks: AtomicU64,
    pub body_bytes: AtomicU64,
    pub notifications: AtomicU64,
}

/// A resource.
struct Point {
    path: String,
    mode: Mode,
    time: Distribution,
    /// Whether it is answered at once, without a service time.
    at_once: bool,
    count: AtomicU64,
    took: Mutex<(Histogram, Histogram)>,
}

impl ResourceServer {
    pub fn new(settings: &DeviceSettings) -> Self {
        let mut by_path = HashMap::new();
        let mut points = Vec::new();
        for Resource { path, mode, time, .. } in &settings.resources {
            by_path.insert(path.clone().into_bytes(), points.len());
            points.push(Point {
                path: path.clone(),
                mode: *mode,
                at_once: time.is_constant() && time.mean_ns() == 0.0,
                time: time.clone(),
                count: AtomicU64::new(0),
                took: Mutex::new((Histogram::new(), Histogram::new())),
            });
        }
        scheduling::reduce_timer_slack();
        Self {
            by_path,
            points,
            draw: Draw::new(settings.seed, 0, 2),
            margin: scheduling::margin(),
            misbehaviour: settings.misbehaviour,
            payload: vec![b'2'; settings.payload],
            // The payload is constant while the device serves.
            etag: (settings.payload as u32).to_be_bytes(),
            requests: AtomicU64::new(0),
            counts: Counters::default(),
        }
    }

    /// The resource at a path.
    pub fn find(&self, path: &[u8]) -> Option<usize> {
        self.by_path.get(path).copied()
    }

    /// All paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.points.iter().map(|point| point.path.as_str())
    }

    /// Whether a resource is answered at once; counts the request if so.
    pub fn at_once(&self, resource: usize) -> bool {
        let point = &self.points[resource];
        if point.at_once {
            point.count.fetch_add(1, Relaxed);
        }
        point.at_once
    }

    /// Draws the service time of the next request for a resource.
    pub fn time(&self, resource: usize) -> Span {
        let point = &self.points[resource];
        let index = point.count.fetch_add(1, Relaxed);
        // Keeps the draws of resources apart.
        let place = index.wrapping_add((resource as u64) << 40);
        Span::from_ns(point.time.draw_ns(self.draw.uniform(Purpose::Service, place), index))
    }

    /// Spends the service time and records it.
    pub fn spend(&self, resource: usize, time: Span) {
        let point = &self.points[resource];
        let took = spend(point.mode, time, self.margin);
        if let Ok(mut spreads) = point.took.lock() {
            spreads.0.record(time.as_ns());
            spreads.1.record(took.as_ns());
        }
    }

    /// The misbehaviour of the next answer.
    pub fn misbehaviour(&self) -> Misbehaviour {
        if !self.misbehaviour.is_any() {
            return Misbehaviour::None;
        }
        let misbehaviour =
            self.misbehaviour.misbehaviour(self.draw, self.requests.fetch_add(1, Relaxed));
        if misbehaviour != Misbehaviour::None {
            self.counts.misbehaved.fetch_add(1, Relaxed);
        }
        misbehaviour
    }

    /// The additional delay of a late answer.
    pub fn late_by(&self) -> Span {
        self.misbehaviour.late_by
    }

    /// The device's counts.
    pub fn served(&self) -> Served {
        let of = |point: &Point| {
            let (configured, took) = match point.took.lock() {
                Ok(spreads) => {
                    (HistogramSummary::from(&spreads.0), HistogramSummary::from(&spreads.1))
                }
                Err(_) => Default::default(),
            };
            let requests = point.count.load(Relaxed);
            ServedResource { path: point.path.clone(), requests, configured, took }
        };
        Served {
            resources: self.points.iter().map(of).collect(),
            unknown: self.counts.unknown.load(Relaxed),
            refused: self.counts.refused.load(Relaxed),
            malformed: self.counts.malformed.load(Relaxed),
            misbehaved: self.counts.misbehaved.load(Relaxed),
            duplicates: self.counts.duplicates.load(Relaxed),
            bad_options: self.counts.bad_options.load(Relaxed),
            blocks: self.counts.blocks.load(Relaxed),
            body_bytes: self.counts.body_bytes.load(Relaxed),
            notifications: self.counts.notifications.load(Relaxed),
        }
    }
}

/// Spends a service time. Returns the time it took, in wall clock time or CPU time
/// depending on the mode.
pub(crate) fn spend(mode: Mode, time: Span, margin: Span) -> Span {
    match mode {
        Mode::Sleep => {
            let begin = clock::now();
            scheduling::wait_until(begin + time, margin);
            clock::now() - begin
        }
        // CPU time, so that competing threads make it take longer.
        Mode::Busy => {
            let begin = clock::thread_time();
            let mut value = begin.as_ns() | 1;
            loop {
                // About 100 ns of arithmetic between clock readings.
                for _ in 0..64 {
                    value = black_box(value.wrapping_mul(6_364_136_223_846_793_005) ^ value >> 7);
                }
                let took = clock::thread_time() - begin;
                if took >= time {
                    return took;
                }
            }
        }
    }
}
