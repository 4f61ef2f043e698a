//! The observer of a run: counts the medium's frames.

use crate::capture::Capture;
use crate::counts::{Counts, Tally};
use crate::decisions::Decisions;
use crate::departures::Departures;
use crate::intervals::IntervalLog;
use crate::traffic::{Classifier, Traffic};
use engine::{Delivery, Drop, LinkInterval, Observer, Place};
use link::Decided;
use std::sync::Arc;
use units::{Histogram, Instant};

/// Traffic of one node on all its interfaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeTraffic {
    /// Sent during the measurement.
    pub tx: Traffic,
    /// Received during the measurement.
    pub rx: Traffic,
    /// Frames and bytes sent since the medium started, to compare with the kernel's interface
    /// counters.
    pub all_tx: [u64; 2],
    /// Frames and bytes received since the medium started.
    pub all_rx: [u64; 2],
    /// Frames that the kernel refused to deliver to this node.
    pub refused: u64,
}

/// Counts frames by node and measures the medium's lateness.
#[derive(Debug)]
pub struct Accounting {
    /// The node at each endpoint of each segment.
    owners: Vec<Vec<usize>>,
    nodes: Vec<NodeTraffic>,
    counts: Arc<Counts>,
    /// The counters of each node.
    tallies: Vec<Arc<Tally>>,
    classifier: Classifier,
    arriving: Classifier,
    /// Lateness of delayed frames, and of undelayed frames.
    delayed: Histogram,
    undelayed: Histogram,
    /// Sum of lateness in ns, and number of frames, by segment and endpoint.
    late_at: Vec<Vec<[u64; 2]>>,
    measuring: bool,
    capture: Option<Capture>,
    /// Live captures, each until its reader disconnects.
    watching: Vec<Capture>,
    decisions: Option<Decisions>,
    intervals: Option<IntervalLog>,
    departures: Departures,
}

impl Accounting {
    /// Creates the observer; `owners` has the node at each endpoint of each segment. UDP on
    /// `pgm_ports` counts as PGM.
    pub fn new(owners: Vec<Vec<usize>>, pgm_ports: Vec<u16>, capture: Option<Capture>) -> Self {
        let count = owners.iter().flatten().max().map_or(0, |last| last + 1);
        let counts = Arc::<Counts>::default();
        Self {
            late_at: owners.iter().map(|ends| vec![[0; 2]; ends.len()]).collect(),
            owners,
            nodes: vec![NodeTraffic::default(); count],
            tallies: (0..count).map(|_| counts.add()).collect(),
            counts,
            classifier: Classifier::new(pgm_ports.clone()),
            arriving: Classifier::new(pgm_ports),
            delayed: Histogram::new(),
            undelayed: Histogram::new(),
            measuring: false,
            capture,
            watching: Vec::new(),
            decisions: None,
            intervals: None,
            departures: Departures::default(),
        }
    }

    /// Adds a link of `node` as the next endpoint of its segment. The node may be new; then its
    /// number is the next one.
    ///
    /// # Panics
    /// When the segment does not exist.
    pub fn attach(&mut self, place: Place, node: usize) {
        self.owners[place.segment].push(node);
        self.late_at[place.segment].push([0; 2]);
        while self.nodes.len() <= node {
            self.nodes.push(NodeTraffic::default());
            self.tallies.push(self.counts.add());
        }
    }

    /// Traffic of each node.
    pub fn nodes(&self) -> &[NodeTraffic] {
        &self.nodes
    }

    /// Live traffic counters of each node.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// The nodes whose TCP flows the counters forgot, since there were too many, and how many of
    /// each.
    pub fn forgotten_flows(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let both = self.classifier.forgotten().chain(self.arriving.forgotten());
        both.map(|(node, flows)| (node as usize, flows))
    }

    /// Lateness of all frames: release time minus due time.
    pub fn lateness(&self) -> Histogram {
        self.delayed.with(&self.undelayed)
    }

    /// Mean lateness at an endpoint, in ns; 0 without frames.
    pub fn mean_lateness_ns(&self, place: Place) -> f64 {
        let [sum, frames] = self.late_at[place.segment][place.endpoint];
        sum as f64 / frames.max(1) as f64
    }

    /// Lateness of frames on links with a delay or rate.
    pub fn delayed(&self) -> &Histogram {
        &self.delayed
    }

    /// Lateness of frames that are forwarded at once.
    pub fn undelayed(&self) -> &Histogram {
        &self.undelayed
    }

    /// Writes the impairment decisions on each frame to `decisions`.
    pub fn keep_decisions(&mut self, decisions: Decisions) {
        self.decisions = Some(decisions);
    }

    /// Frames of a replay that differ from the recorded ones.
    pub fn departures(&self) -> &Departures {
        &self.departures
    }

    /// Removes the decisions file, so that it can be closed.
    pub fn take_decisions(&mut self) -> Option<Decisions> {
        self.decisions.take()
    }

    /// Writes the intervals of links to `intervals`.
    pub fn keep_intervals(&mut self, intervals: IntervalLog) {
        self.intervals = Some(intervals);
    }

    /// Removes the log of intervals, so that it can be read.
    pub fn take_intervals(&mut self) -> Option<IntervalLog> {
        self.intervals.take()
    }

    /// Adds a live capture of frames from now on; it ends when its reader disconnects.
    pub fn watch(&mut self, capture: Capture) {
        self.watching.push(capture);
    }

    /// Writes `text` as a comment on the next frame of all captures.
    pub fn note(&mut self, text: &str) {
        self.captures().for_each(|capture| capture.event(text));
    }

    /// The captures that receive frames; those without a reader are dropped.
    fn captures(&mut self) -> impl Iterator<Item = &mut Capture> {
        if !self.watching.is_empty() {
            self.watching.retain(|capture| !capture.is_over());
        }
        self.capture.iter_mut().chain(&mut self.watching)
    }

    /// Removes the capture, so that it can be closed.
    pub fn take_capture(&mut self) -> Option<Capture> {
        self.capture.take()
    }
}

impl Observer for Accounting {
    fn begin(&mut self, at: Instant) {
        self.measuring = true;
        self.captures().for_each(|capture| capture.measuring(at));
    }

    fn end(&mut self, _at: Instant) {
        self.measuring = false;
        self.captures().for_each(Capture::measured);
    }

    fn sent(&mut self, from: Place, frame: &[u8], at: Instant) {
        let owner = self.owners[from.segment][from.endpoint];
        let node = &mut self.nodes[owner];
        // Always, as the kernel's interface counters do.
        node.all_tx[0] += 1;
        node.all_tx[1] += frame.len() as u64;
        self.tallies[owner].sent(node.all_tx);
        // Flows are tracked from their first frame, before the measurement begins.
        let kind = self.classifier.classify(owner as u32, frame);
        if self.measuring {
            node.tx += kind.traffic();
        }
        for capture in self.captures() {
            capture.frame(from, false, frame, at);
        }
    }

    fn delivered(&mut self, segment: usize, delivery: &Delivery, at: Instant) {
        let place = Place { segment, endpoint: delivery.endpoint };
        for capture in self.captures() {
            capture.frame(place, true, delivery.bytes(), at);
        }
        let owner = self.owners[segment][delivery.endpoint];
        let node = &mut self.nodes[owner];
        let traffic = self.arriving.classify(owner as u32, delivery.bytes()).traffic();
        node.all_rx[0] += 1;
        node.all_rx[1] += traffic.bytes;
        self.tallies[owner].received(node.all_rx);
        if !self.measuring {
            return;
        }
        node.rx += traffic;
        let late = (at - delivery.intended).as_ns();
        // A frame that is due on arrival has neither a delay nor a wait for the rate.
        match delivery.intended > delivery.arrived {
            true => self.delayed.record(late),
            false => self.undelayed.record(late),
        }
        let [sum, frames] = &mut self.late_at[segment][delivery.endpoint];
        *sum += late;
        *frames += 1;
    }

    fn dropped(&mut self, _segment: usize, _drop: Drop, _at: Instant) {
        // The links' own totals include these.
    }

    fn intervals(&mut self, ended: Vec<LinkInterval>) {
        // A lab without a run keeps none.
        if let Some(intervals) = &self.intervals {
            intervals.add(ended);
        }
    }

    fn decided(&mut self, segment: usize, decided: Decided) {
        if let Some(text) = &decided.departure {
            let place = (segment, decided.endpoint as usize, decided.way);
            self.departures.add(place, text);
        }
        if let Some(decisions) = &mut self.decisions {
            decisions.add(segment, decided);
        }
    }

    fn refused(&mut self, to: Place, _at: Instant) {
        if self.measuring {
            self.nodes[self.owners[to.segment][to.endpoint]].refused += 1;
        }
    }
}
