//! The sender of a link that follows CellReplay's traces (Sentosa et al., NSDI 2025): one trace
//! while the load is light, another while it is heavy.
//!
//! For one direction of one device, as in CellReplay's `src/frontend/cellular_queue.cc`:
//!
//! 1. A frame that finds no train in progress begins one. A train takes its base delay from the
//!    light trace, interpolated between the recorded trains around its start, and the
//!    opportunities of the recorded train before it, which count from its start.
//! 2. Each further frame of the train leaves the light trace at the next opportunity with room
//!    for it, plus the base delay. It does not use the rest of an opportunity that is too small.
//! 3. A frame that finds the opportunities of its train used up gets the base delay, or the time
//!    of the last opportunity if that is longer.
//! 4. A train is over when a frame would leave more than `idle` after the train's last frame.
//! 5. Frames keep their order. One that waits for an earlier one for that reason alone, and one
//!    of rule 3, passes the heavy queue. The others do so if frames wait there.
//! 6. The heavy queue is served by the heavy trace as by a Mahimahi trace (see
//!    [`Follower`]), with opportunities of [`OPPORTUNITY`] bytes.
//!
//! CellReplay's clock has whole milliseconds. Here, times of one millisecond are alike where it
//! compares two, so that a burst of frames is one train.
//!
//! Pure: takes lengths and times, returns times.

mod file;
mod light;
mod size_delays;
mod spec;
#[cfg(test)]
mod tests;

pub use file::CellularTraceError;
pub use light::LightTrace;
pub use size_delays::SizeDelays;
pub(crate) use spec::CELLULAR_TRACE;
pub use spec::CellularTrace;

use crate::trace::{Follower, packet_bytes};
use spec::OPPORTUNITY;
use units::{Instant, Span};

const MS: Span = Span::from_ms(1);

fn ms(count: u32) -> Span {
    Span::from_ms(count.into())
}

/// State of one sender.
#[derive(Debug, Clone)]
pub(crate) struct CellularReplay {
    trace: CellularTrace,
    heavy: Follower,
    train: Option<Train>,
    /// Time at which the last frame left the light trace, without the delay by its size and
    /// without waiting for others.
    light_left: Instant,
    /// Time at which the last frame reached the heavy queue.
    reached: Instant,
    /// Whether that frame passes an empty heavy queue at once.
    skips: bool,
    /// Time at which the last frame left the heavy queue.
    heavy_left: Option<Instant>,
}

/// A train of frames.
#[derive(Debug, Clone, Copy)]
struct Train {
    /// Number of the recorded train that it follows.
    recorded: usize,
    start: Instant,
    base_delay: Span,
    /// The current opportunity, and its remaining bytes.
    place: usize,
    left: u64,
}

impl Train {
    /// Uses room for a frame of this size: the rest of the current opportunity, or the next one.
    /// Larger frames than CellReplay's MTU permits take several.
    fn take(&mut self, bytes: u64) {
        if bytes <= self.left {
            self.left -= bytes;
            return;
        }
        if self.left < OPPORTUNITY {
            self.place += 1;
        }
        let more = (bytes - 1) / OPPORTUNITY;
        self.place += more as usize;
        self.left = (more + 1) * OPPORTUNITY - bytes;
    }
}

impl CellularReplay {
    /// An idle sender at the start of the traces.
    pub fn new(trace: CellularTrace) -> Self {
        Self {
            heavy: Follower::new(trace.heavy.clone()),
            trace,
            train: None,
            light_left: Instant::START,
            reached: Instant::START,
            skips: true,
            heavy_left: None,
        }
    }

    /// Whether this is the trace in use.
    pub fn follows(&self, trace: &CellularTrace) -> bool {
        self.trace == *trace
    }

    /// Time at which a frame of `len` bytes, including the Ethernet header, that arrives at `now`
    /// reaches the heavy queue, or passes it: behind base delay and light trace. Times are of a
    /// clock that starts with the traces, and must not decrease between calls.
    pub fn reach(&mut self, len: u64, now: Instant) -> Instant {
        let bytes = packet_bytes(len);
        let left = match self.train {
            Some(train) if now + train.base_delay < self.light_left + self.trace.idle + MS => {
                self.follow(train, bytes, now)
            }
            _ => self.begin(bytes, now),
        };
        self.light_left = left;
        let moved = self.trace.moved(left, bytes).max(now);
        let left = if moved >= self.reached { moved } else { left };
        if left < self.reached {
            self.skips = false;
        }
        self.reached = left.max(self.reached);
        self.reached
    }

    /// Departure time of the frame that reached the heavy queue at `at`.
    pub fn send(&mut self, len: u64, at: Instant) -> Instant {
        // One that left in the same millisecond still counts.
        let is_empty = self.heavy_left.is_none_or(|left| left + MS <= at);
        if self.skips && is_empty {
            return at;
        }
        let left = self.heavy.send(len, at);
        self.heavy_left = Some(left);
        left
    }

    /// Begins a train with a frame; returns when it leaves the light trace.
    fn begin(&mut self, bytes: u64, now: Instant) -> Instant {
        self.skips = true;
        let Some((recorded, base_delay)) = self.trace.light.at(now) else { return now };
        let mut train = Train { recorded, start: now, base_delay, place: 0, left: OPPORTUNITY };
        train.take(bytes);
        self.train = Some(train);
        match train.place {
            // The recorded opportunities count from the first packet.
            0 => now + base_delay,
            _ => self.opportunity(&train, now),
        }
    }

    /// The same for a further frame of a train.
    fn follow(&mut self, mut train: Train, bytes: u64, now: Instant) -> Instant {
        self.skips = true;
        let elapsed = now - train.start;
        let opportunities = self.trace.light.opportunities_ms(train.recorded);
        while opportunities.get(train.place).is_some_and(|at| elapsed >= ms(*at) + MS) {
            train.place += 1;
            train.left = OPPORTUNITY;
        }
        train.take(bytes);
        self.train = Some(train);
        self.opportunity(&train, now)
    }

    /// When a frame that arrived at `now` and uses the current opportunity of the train leaves the
    /// light trace.
    fn opportunity(&mut self, train: &Train, now: Instant) -> Instant {
        let earliest = now + train.base_delay;
        let opportunities = self.trace.light.opportunities_ms(train.recorded);
        match (opportunities.get(train.place), opportunities.last()) {
            (Some(at), _) => earliest.max(train.start + train.base_delay + ms(*at)),
            (None, last) => {
                self.skips = false;
                earliest.max(now + ms(last.copied().unwrap_or_default()))
            }
        }
    }
}
