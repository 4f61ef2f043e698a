//! What the medium did, frame by frame: the observer of a run.

use crate::capture::Capture;
use crate::counts::{Counts, Tally};
use crate::decisions::Decisions;
use crate::departures::Departures;
use crate::latency::Latency;
use crate::traffic::{Classifier, Traffic};
use medium::{Decided, Delivery, Drop, Frame, Instant, Observer, Place, Segments};
use std::sync::Arc;

/// What one node sent and received on all its interfaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeTraffic {
    /// Sent while it was measured.
    pub tx: Traffic,
    /// Received while it was measured.
    pub rx: Traffic,
    /// Frames and bytes sent since the medium started: what the kernel's
    /// counters of the interface hold.
    pub all_tx: [u64; 2],
    /// The same received.
    pub all_rx: [u64; 2],
    /// Of these, sent and received, how many more there were than the kernel counts,
    /// which takes a super-frame for one.
    pub uncut: [u64; 2],
    /// Frames that the kernel would not take for this node.
    pub refused: u64,
}

/// Counts frames by node and keeps the medium's own lateness.
#[derive(Debug)]
pub struct Accounting {
    /// The node at each segment's endpoints.
    owners: Vec<Vec<usize>>,
    nodes: Vec<NodeTraffic>,
    counts: Arc<Counts>,
    /// Each node's own of them.
    tallies: Vec<Arc<Tally>>,
    classifier: Classifier,
    arriving: Classifier,
    /// Lateness of frames that were to be held back, and of those that were not.
    held: Latency,
    passed: Latency,
    /// Sum of lateness in ns and frames, by segment and endpoint.
    late_at: Vec<Vec<[u64; 2]>>,
    measuring: bool,
    capture: Option<Capture>,
    /// Captures of those who look on, for as long as they do.
    watching: Vec<Capture>,
    decisions: Option<Decisions>,
    departures: Departures,
}

impl Accounting {
    /// Counts for the nodes that `owners` gives for each segment's endpoints.
    /// UDP on `pgm_ports` is taken for PGM.
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
            held: Latency::new(),
            passed: Latency::new(),
            measuring: false,
            capture,
            watching: Vec::new(),
            decisions: None,
            departures: Departures::default(),
        }
    }

    /// A link of `node` has come, at a place that follows on those of its segment. The
    /// node may be new, too; its number follows on the others'.
    ///
    /// # Panics
    /// When there is no such segment.
    pub fn attach(&mut self, place: Place, node: usize) {
        self.owners[place.segment].push(node);
        self.late_at[place.segment].push([0; 2]);
        while self.nodes.len() <= node {
            self.nodes.push(NodeTraffic::default());
            self.tallies.push(self.counts.add());
        }
    }

    /// What each node sent and received.
    pub fn nodes(&self) -> &[NodeTraffic] {
        &self.nodes
    }

    /// What each node has sent and received so far, to be looked at while it goes on.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// How much later than meant frames left the medium.
    pub fn lateness(&self) -> Latency {
        self.held.with(&self.passed)
    }

    /// The mean lateness at an endpoint, in ns; 0 where nothing came.
    pub fn mean_lateness_ns(&self, place: Place) -> f64 {
        let [sum, frames] = self.late_at[place.segment][place.endpoint];
        sum as f64 / frames.max(1) as f64
    }

    /// The same of the frames that a link was to hold back, by delay or rate.
    pub fn held(&self) -> &Latency {
        &self.held
    }

    /// The same of the frames that were to be passed on at once.
    pub fn passed(&self) -> &Latency {
        &self.passed
    }

    /// Has what chance decides about frames written to `decisions`.
    pub fn keep_decisions(&mut self, decisions: Decisions) {
        self.decisions = Some(decisions);
    }

    /// Frames of a replay that differ from the recorded ones.
    pub fn departures(&self) -> &Departures {
        &self.departures
    }

    /// Takes the decisions' file out, to be closed.
    pub fn take_decisions(&mut self) -> Option<Decisions> {
        self.decisions.take()
    }

    /// Has frames written to `capture`, too, from now on until whoever reads it has
    /// gone: for somebody who looks on while it runs.
    pub fn watch(&mut self, capture: Capture) {
        self.watching.push(capture);
    }

    /// Has `text` written as a comment on the next frame of all captures.
    pub fn note(&mut self, text: &str) {
        self.captures().for_each(|capture| capture.event(text));
    }

    /// The captures that frames go to; those whose readers have gone are let go.
    fn captures(&mut self) -> impl Iterator<Item = &mut Capture> {
        if !self.watching.is_empty() {
            self.watching.retain(|capture| !capture.is_over());
        }
        self.capture.iter_mut().chain(&mut self.watching)
    }

    /// Takes the capture out, to be closed.
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
        node.all_tx[0] += 1;
        node.all_tx[1] += frame.len() as u64;
        self.tallies[owner].sent(node.all_tx);
        // Flows are followed from their first frame, before measuring begins.
        let kind = self.classifier.classify(frame);
        if self.measuring {
            node.tx += kind.traffic();
        }
        for capture in self.captures() {
            capture.frame(from, false, frame, at);
        }
    }

    fn sent_segments(&mut self, from: Place, segments: &Segments, at: Instant) {
        let owner = self.owners[from.segment][from.endpoint];
        let node = &mut self.nodes[owner];
        let traffic = self.classifier.classify_segments(segments);
        node.all_tx[0] += traffic.frames;
        node.all_tx[1] += traffic.bytes;
        node.uncut[0] += traffic.frames - 1;
        self.tallies[owner].sent(node.all_tx);
        if self.measuring {
            node.tx += traffic;
        }
        for capture in self.captures() {
            segments.each().for_each(|one| capture.frame(from, false, &one.first(), at));
        }
    }

    fn delivered(&mut self, segment: usize, delivery: &Delivery, at: Instant) {
        let place = Place { segment, endpoint: delivery.endpoint };
        for capture in self.captures() {
            match &delivery.frame {
                Frame::Whole(frame) => capture.frame(place, true, frame, at),
                Frame::Segments(segments) => {
                    segments.each().for_each(|one| capture.frame(place, true, &one.first(), at));
                }
            }
        }
        let owner = self.owners[segment][delivery.endpoint];
        let node = &mut self.nodes[owner];
        let traffic = match &delivery.frame {
            Frame::Whole(frame) => self.arriving.classify(frame).traffic(),
            Frame::Segments(segments) => self.arriving.classify_segments(segments),
        };
        node.all_rx[0] += traffic.frames;
        node.all_rx[1] += traffic.bytes;
        node.uncut[1] += traffic.frames - 1;
        self.tallies[owner].received(node.all_rx);
        if !self.measuring {
            return;
        }
        node.rx += traffic;
        let late = at.saturating_sub(delivery.intended);
        match delivery.intended > delivery.arrived {
            true => self.held.record_n_ns(late, traffic.frames),
            false => self.passed.record_n_ns(late, traffic.frames),
        }
        let [sum, frames] = &mut self.late_at[segment][delivery.endpoint];
        *sum += late * traffic.frames;
        *frames += traffic.frames;
    }

    fn dropped(&mut self, _segment: usize, _drop: Drop, _at: Instant) {
        // The links' own totals hold these.
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
