//! Round-trip times: their minimum, their mean, and whether a queue remains.

use crate::{Instant, Span};
use alloc::collections::VecDeque;

/// Interval in which the minimum is kept, and while other traffic fills the queue: then no sample can be
/// as short.
const MIN_WINDOW: Span = Span::from_s(30);
const HELD_WINDOW: Span = Span::from_s(120);
/// Queueing delay below this does not count: timers and radios have as much jitter.
const MIN_QUEUE: Span = Span::from_ms(5);
/// A queue is empty below this share of its recent maximum (Copa, 3.2).
const EMPTY: f64 = 0.1;
/// Delay of an empty queue.
const MIN_EMPTY: Span = Span::from_ms(2);
/// Queueing delay that can be jitter, in mean differences of successive samples. Of samples that are distributed
/// normally, the mean is 1.7 of these above the shortest of twenty, and all but one in ten are below 3. At most a round trip.
const JITTER: f64 = 3.0;
/// Duration of a period, in mean round-trip times.
const PERIOD: u64 = 2;
/// Decrease of the recent maximum with each period.
const FADES: f64 = 0.9;
/// Consecutive periods with a queue, in spite of slower sending, after which other traffic must
/// fill it (decision 80).
const COMPETITION: u32 = 4;
/// Longest period of these, so that all fit into half of `MIN_WINDOW`, and in mean round-trip times if that is
/// longer: with rare samples, the minimum is of long before, and the path may have become longer since.
const DENSE: Span = Span::from_ms(3_750);
const DENSE_TRIPS: u64 = 4;
/// Round trips below this are of a wire or of one machine, and no radio's, where frames arrive together that
/// were sent apart.
pub(super) const NEAR: Span = Span::from_us(500);
/// Round trips that are all longer than this are of another path than a wire, which would need a queue of 300 kB for
/// them (decision 189); and the consecutive periods that show it.
const FAR: Span = Span::from_ms(100);
const OTHER: u32 = 2;
/// Consecutive periods after which a queue that hardly changes, and drops nothing, is a longer path; and
/// the share of it that may change. A queue that TCP fills changes by more.
const STEADY: u32 = 6;
const CHANGES: f64 = 1.0 / 16.0;

/// The shortest and the longest of some times.
#[derive(Debug, Clone, Copy)]
struct Range {
    least: Span,
    most: Span,
}

impl Range {
    fn with(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// Round-trip times of a path.
#[derive(Debug, Clone, Default)]
pub(super) struct Trips {
    /// Samples that can be the minimum of the window: times, and values.
    least: VecDeque<(Instant, Span)>,
    /// Time of the last sample, and its value.
    at: Instant,
    last: Span,
    /// Mean difference of successive samples in the first period and those with an empty queue, in ns; 0 before it.
    /// And the same with those of this period.
    jitter: f64,
    newer_jitter: f64,
    /// Smoothed time, in ns (RFC 6298).
    mean: Option<f64>,
    /// Longest time recently, in ns.
    longest: f64,
    /// Begin of the period, and the shortest and the longest time in it.
    period: Option<(Instant, Range)>,
    /// Those of consecutive periods with a queue and without losses, and their number.
    steady: Option<(u32, Range)>,
    /// Consecutive periods in which the queue was never empty, and in which it was.
    full: u32,
    empty: u32,
    /// Whether something was lost since the queue was last empty.
    loses: bool,
    competes: bool,
}

impl Trips {
    /// Records a round-trip time; a packet takes `packet` on the bottleneck.
    pub fn add(&mut self, now: Instant, trip: Span, packet: Span) {
        // Ascending values, so the first is the minimum of the window. The newest sample stays
        // however old it is: there is no better one.
        while self.least.pop_back_if(|(_, known)| *known >= trip).is_some() {}
        self.least.push_back((now, trip));
        let window = if self.competes { HELD_WINDOW } else { MIN_WINDOW };
        while self.least.len() > 1
            && self.least.pop_front_if(|(at, _)| *at + window < now).is_some()
        {}
        // Those of one message, between which a queue of others changes little.
        if self.mean().is_some_and(|mean| now < self.at + mean) {
            let differs = (trip.max(self.last) - trip.min(self.last)).as_ns_f64();
            self.newer_jitter = match self.newer_jitter {
                0.0 => differs,
                known => 0.875 * known + 0.125 * differs,
            };
        }
        (self.at, self.last) = (now, trip);
        let seen = trip.as_ns_f64();
        // RFC 6298, 2.3, with alpha 1/8.
        self.mean = Some(self.mean.map_or(seen, |mean| 0.875 * mean + 0.125 * seen));
        self.longest = self.longest.max(seen);
        let own = Range { least: trip, most: trip };
        let (began_at, range) = self.period.unwrap_or((now, own));
        let range = range.with(own);
        self.period = Some((began_at, range));
        if now >= began_at + PERIOD * self.mean().unwrap_or_default() && now > began_at {
            let is_dense =
                now - began_at <= DENSE.max(DENSE_TRIPS * self.mean().unwrap_or_default());
            self.end_period(range, packet, is_dense);
            self.settle(range, now);
        }
    }

    /// Sending has become twice as fast: the queue of that is no competition.
    pub fn too_fast(&mut self) {
        if !self.competes {
            (self.full, self.period) = (0, None);
        }
    }

    /// A queue has dropped something, or a radio has lost it.
    pub fn lost(&mut self) {
        (self.steady, self.loses) = (None, true);
    }

    /// If what looks like a queue neither changes nor drops anything, the path has become longer: the
    /// minimum of before is over.
    fn settle(&mut self, range: Range, now: Instant) {
        let Some(least) = self.least().filter(|_| self.full > 0) else {
            self.steady = None;
            return;
        };
        if least < NEAR && range.least > FAR && self.full >= OTHER {
            return self.lengthen(range, now);
        }
        let (count, all) = self.steady.map_or((1, range), |(n, all)| (n + 1, all.with(range)));
        let changes = (all.least - least).as_ns_f64() * CHANGES;
        let steady = all.most - all.least <= Span::from_ns_f64(changes).max(MIN_EMPTY);
        self.steady = Some(if steady { (count, all) } else { (1, range) });
        if steady && count >= STEADY {
            self.lengthen(all, now);
        }
    }

    /// The path has become longer: its round trips are these.
    fn lengthen(&mut self, all: Range, now: Instant) {
        self.least = VecDeque::from([(now, all.least)]);
        (self.steady, self.full, self.competes) = (None, 0, false);
        self.longest = all.most.as_ns_f64();
    }

    fn end_period(&mut self, Range { least: shortest, .. }: Range, packet: Span, is_dense: bool) {
        self.period = None;
        let least = self.least().unwrap_or_default();
        let queue = Span::from_ns_f64((self.longest - least.as_ns_f64()) * EMPTY);
        let jitter = Span::from_ns_f64(self.jitter * JITTER).min(least.max(2 * MIN_QUEUE));
        let is_empty = shortest <= least + queue.max(MIN_EMPTY).max(2 * packet).max(jitter);
        // With a queue, samples also differ by what is sent.
        match is_empty || self.jitter == 0.0 {
            true => self.jitter = self.newer_jitter,
            false => self.newer_jitter = self.jitter,
        }
        (self.full, self.empty) = match is_empty {
            true => (0, self.empty + 1),
            false if is_dense => (self.full + 1, 0),
            false => (self.full.max(1), 0),
        };
        self.loses &= !is_empty;
        // On a near path, a queue that drops nothing is that of the ends (decision 180).
        let is_path = self.loses || least >= NEAR;
        self.longest = least.as_ns_f64() + (self.longest - least.as_ns_f64()) * FADES;
        if self.full >= COMPETITION && is_path {
            self.competes = true;
        } else if self.empty >= 2 {
            self.competes = false;
        }
    }

    /// The minimum of the last half minute.
    pub fn least(&self) -> Option<Span> {
        self.least.front().map(|(_, trip)| *trip)
    }

    /// The longest recent time; `None` before the first sample.
    pub fn longest(&self) -> Option<Span> {
        self.mean.map(|mean| Span::from_ns_f64(self.longest.max(mean)))
    }

    /// Time of the last sample; `None` before the first.
    pub fn sampled_at(&self) -> Option<Instant> {
        self.mean.map(|_| self.at)
    }

    /// The smoothed time.
    pub fn mean(&self) -> Option<Span> {
        self.mean.map(Span::from_ns_f64)
    }

    /// Whether a round-trip time includes a queue of some length.
    pub fn queues(&self, trip: Span, packet: Span) -> bool {
        let Some(least) = self.least() else { return false };
        trip > least + (least / 2).max(MIN_QUEUE).max(3 * packet)
    }

    /// Whether a queue has not been empty in the last period.
    pub fn stands(&self) -> bool {
        self.full > 0
    }

    /// Whether other traffic fills the queue.
    pub fn competes(&self) -> bool {
        self.competes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_ms(1);

    #[test]
    fn a_queue_that_never_empties_is_of_others() {
        let mut trips = Trips::default();
        let mut now = Instant::START;
        let mut add = |trips: &mut Trips, ms: u64| {
            now += 20 * MS;
            trips.add(now, ms * MS, MS);
        };
        (0..20).for_each(|n| add(&mut trips, 40 + n % 3));
        assert!(!trips.stands() && !trips.competes());
        (0..24).for_each(|_| add(&mut trips, 120));
        assert!(trips.stands() && !trips.competes(), "it may be the own one");
        (0..60).for_each(|_| add(&mut trips, 120));
        assert!(trips.competes());
        (0..40).for_each(|_| add(&mut trips, 41));
        assert!(!trips.competes());
        assert_eq!(trips.least(), Some(40 * MS));
    }

    /// What failed before: a session that had begun over a wire took a cellular network for one that others fill,
    /// with a round trip of 8 us, for two minutes. It changed its model each five seconds.
    #[test]
    fn no_queue_of_a_wire_is_as_long_as_another_path() {
        let mut trips = Trips::default();
        for n in 0..40 {
            let trip = if n < 10 { Span::from_us(8) } else { (300 + n % 7 * 40) * MS };
            trips.add(Instant::START + n * 500 * MS, trip, MS);
            trips.lost();
        }
        assert!(trips.least() > Some(250 * MS) && !trips.competes(), "{:?}", trips.least());
    }

    /// What failed before: a path that had become longer, with some losses and a message every eight seconds,
    /// counted as one that others fill; the rate fell to a fortieth of it for minutes.
    #[test]
    fn rare_samples_show_no_competition() {
        for (every, competes) in [(500, true), (5_500, false)] {
            let mut trips = Trips::default();
            let mut was = false;
            // Four samples of each message.
            for (message, of) in (0..40).flat_map(|message| (0..4).map(move |of| (message, of))) {
                let now = Instant::START + (message * every + of * 10) * MS;
                trips.add(now, if message < 20 { 26 * MS } else { (70 + of) * MS }, MS);
                trips.lost();
                was |= trips.competes();
            }
            assert_eq!(was, competes, "a message every {every} ms");
        }
    }

    /// What failed before: with few samples in a period all were longer than the shortest of half a minute, which
    /// jitter alone explains. The path counted as one that others fill, and its rate fell to a sixtieth.
    #[test]
    fn jitter_is_no_queue() {
        let mut state = 7_u64;
        let mut draw = || {
            // The generator of Knuth's MMIX.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % 5_000
        };
        for queue in [0, 60] {
            let mut trips = Trips::default();
            let mut was = 0;
            for message in 0..400 {
                for member in 0..2 {
                    let now = Instant::START + (message * 3_600 + member * 9) * MS;
                    let queue = if message < 40 { 0 } else { queue };
                    let jitter = Span::from_us(draw() + draw() + draw());
                    trips.add(now, (206 + queue) * MS + jitter, MS);
                }
                was += u32::from(trips.competes());
            }
            assert_eq!(was > 0, queue > 0, "{was} of 400");
        }
    }

    /// What failed before: on one machine, answers that waited for threads counted as a queue of other
    /// traffic.
    #[test]
    fn a_near_queue_that_drops_nothing_is_of_the_ends() {
        for loses in [false, true] {
            let mut trips = Trips::default();
            let mut now = Instant::START;
            for n in 0..200 {
                now += 10 * MS;
                let trip = if n < 20 { Span::from_us(50) } else { (10 + n % 4) * MS };
                trips.add(now, trip, Span::from_us(1));
                if loses && n % 10 == 9 {
                    trips.lost();
                }
            }
            assert!(trips.stands());
            assert_eq!(trips.competes(), loses);
        }
    }
}
