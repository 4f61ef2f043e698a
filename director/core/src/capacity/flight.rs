//! Datagrams that arrive without a long pause, and trains that are acknowledged.

use crate::{Instant, Span};
use alloc::collections::VecDeque;

/// Maximum number of arrivals that are kept.
const MAX_FLIGHT: usize = 512;
/// Minimum number of arrivals that give a rate.
pub(super) const MIN_FLIGHT: usize = 4;
/// Arrivals between which a rate is measured.
const MAX_RUN: usize = 16;

/// Arrivals in less time count as if they had taken this long.
pub(super) const MIN_SPAN: Span = Span::from_us(1);

/// Datagrams that have been acknowledged, as their sender sees it. As in BBR, the rate is that of
/// all that was acknowledged in a time that ends with this acknowledgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Train {
    /// Bytes on the wire, and those among them that have arrived.
    pub bytes: usize,
    pub received: usize,
    /// Those whose arrival was not known before: trains overlap.
    pub fresh: usize,
    /// Time in which they were sent.
    pub sent: Span,
    /// Time in which they were acknowledged.
    pub acknowledged: Span,
    /// Whether nothing was in flight before: then that time includes a round trip.
    pub alone: bool,
    /// Whether that time includes rounds of repairs, which make the path look slower than it is: it
    /// counts only if a queue explains it.
    pub repaired: bool,
    /// Whether that time may include the application's: then a slow path counts only if a queue explains
    /// it too.
    pub held: bool,
}

/// Bytes on the wire whose fate has become known, and those among them that have arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// All of them.
    pub bytes: usize,
    /// Those that have arrived.
    pub received: usize,
}

/// A flight: datagrams that arrive without a long pause.
#[derive(Debug, Clone, Default)]
pub(super) struct Flight {
    arrivals: VecDeque<(Instant, usize)>,
    /// Of runs of `MAX_RUN` arrivals, the one with the highest rate: its place, bytes and time in ns.
    fastest: Option<(usize, f64, f64)>,
    /// Longest round-trip time in it.
    pub longest: Span,
    pub lost: bool,
    /// Whether any frames were lost.
    pub losses: bool,
    /// Whether trains have given its rate.
    pub trained: bool,
}

impl Flight {
    /// Records the arrival of a datagram.
    pub fn arrival(&mut self, now: Instant, bytes: usize) {
        self.arrivals.push_back((now, bytes));
        if self.arrivals.len() > MAX_FLIGHT {
            self.arrivals.pop_front();
            self.fastest = self
                .fastest
                .and_then(|(place, bytes, span)| Some((place.checked_sub(1)?, bytes, span)));
        }
        let Some(last) = self.arrivals.len().checked_sub(MAX_RUN + 1) else { return };
        // Only the newest run can be faster, unless the fastest has left: a search of all runs with
        // each arrival took 60 % of the hub's time (docs/results/adaptive.md, speed).
        let first = if self.fastest.is_some() { last } else { 0 };
        for place in first..=last {
            let (bytes, span) = self.passed(place, MAX_RUN);
            if self.fastest.is_none_or(|(_, known, took)| bytes / span >= known / took) {
                self.fastest = Some((place, bytes, span));
            }
        }
    }

    /// Number of arrivals.
    pub fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// Time since the first and since the last arrival.
    pub fn ages(&self, now: Instant) -> (Span, Span) {
        let age =
            |arrival: Option<&(Instant, usize)>| arrival.map_or(Span::ZERO, |(at, _)| now - *at);
        (age(self.arrivals.front()), age(self.arrivals.back()))
    }

    /// The highest rate over half of the arrivals, in bit/s; `None` if there are too few.
    pub fn rate(&self) -> Option<f64> {
        self.run().map(|(bytes, span)| bytes * 8e9 / span)
    }

    /// Bytes and time, in ns, of the run of half of the arrivals with the highest rate.
    pub fn run(&self) -> Option<(f64, f64)> {
        let count = self.arrivals.len();
        if count < MIN_FLIGHT {
            return None;
        }
        let run = (count / 2).clamp(MIN_FLIGHT - 1, MAX_RUN);
        if run == MAX_RUN {
            return self.fastest.map(|(_, bytes, span)| (bytes, span));
        }
        let passed = (0..count - run).map(|first| self.passed(first, run));
        passed.max_by(|(a, b), (c, d)| (a / b).total_cmp(&(c / d)))
    }

    /// Bytes that arrived after the first arrival of a run, and the time of the run in ns.
    fn passed(&self, first: usize, run: usize) -> (f64, f64) {
        let all = self.arrivals.range(first..=first + run);
        // The first arrival only starts the time: its bytes came before.
        let bytes: usize = all.skip(1).map(|(_, bytes)| bytes).sum();
        let span = self.arrivals[first + run].0 - self.arrivals[first].0;
        (bytes as f64, span.max(MIN_SPAN).as_ns_f64())
    }
}
