//! Capacity of the path and its congestion, from the session's own traffic; no rate need be told.
//!
//! As in BBR, the rate is the delivery rate of datagrams, and queueing delay is the signal of
//! congestion: losses while a queue stands are the queue's, other losses are the radio's. If other
//! traffic fills the queue, which own sending does not empty, a window as that of TCP decides, as in
//! Copa's competitive mode.

mod flight;
mod losses;
mod rate;
mod trips;
mod window;

pub use flight::{Known, Train};

use self::flight::{Flight, MIN_FLIGHT, MIN_SPAN};
use self::trips::Trips;
use self::window::Window;
use crate::{Instant, Span};
use alloc::collections::VecDeque;

/// Maximum size of the initial window, in bytes (RFC 6928).
const MAX_INITIAL: f64 = 14_600.0;
/// Round-trip time before the first sample.
pub const UNKNOWN_TRIP: Span = Span::from_ms(100);
/// Shorter round-trip times count as this one.
const MIN_TRIP: Span = Span::from_us(10);
/// See [`Capacity::patience`], and the number of arrivals after which there is none.
const PATIENCE: Span = Span::from_ms(200);
const MAX_PATIENCE: Span = Span::from_s(1);
const KNOWN_AFTER: u32 = 8;
/// Arrivals after which a flight is evaluated even if messages are still awaited.
const LONG_FLIGHT: usize = 64;
/// A flight that arrives at less than this share of the sending rate fills the bottleneck
/// (decision 80).
const FILLS: f64 = 0.7;
/// Arrivals after which a rate counts before a flight is over, if it is lower by this factor.
const EARLY: usize = 6;
const EARLY_DROP: f64 = 3.0;
/// Decrease of the rate after a loss in a queue (BBRv2).
const AFTER_LOSS: f64 = 0.7;
/// A window this many times what is delivered in a round trip is not used, and does not grow (RFC 9438, 5.8).
const MAX_UNUSED: f64 = 2.0;
/// Round trips within which losses are of the same overflow of a queue: a message's are noticed with its
/// last chunk.
const LATE_LOSS: u64 = 2;
/// A pause of two round trips and this time ends a flight.
const PAUSE: Span = Span::from_ms(5);
/// Size of a datagram with its headers for comparisons, in bytes.
const PACKET: f64 = 1_500.0;
/// Maximum factor by which sending slows down while nothing arrives (decision 80).
const MAX_BACKOFF: f64 = 64.0;
/// Round trips this many times the first one are of another path.
const OTHER_PATH: f64 = 16.0;
/// Factor of the sending rate while a queue is to drain (BBR).
const DRAIN: f64 = 0.75;
/// A train that passes in a smaller part of the round trip shows no higher rate: jitter is as long, and a higher
/// rate makes no message noticeably faster. Rates that nothing limits would grow without end, and it takes
/// minutes to come back from them.
const RESOLUTION: u64 = 64;
/// Datagrams of a train from which its rate is measured.
const MIN_TRAIN: f64 = 4.0;
/// See [`Capacity::proven`]: as much more as a probing phase of BBR sends; and the rates it counts.
const PROVEN: f64 = 1.25;
const ARRIVAL_RATES: usize = 8;
/// Maximum rate of answers without competition, in that of the path: they may show that the estimate is too
/// low (as the gain of BBR's window).
const MAX_ANSWERS: f64 = 2.0;
/// Least rate, in bit/s.
const MIN_RATE: f64 = 100.0;

/// Estimate of the path's capacity.
#[derive(Debug, Clone)]
pub struct Capacity {
    /// The configured rate, which is an upper limit.
    configured: Option<f64>,
    rate: f64,
    /// Maximum datagram on the wire, in bytes.
    packet: f64,
    /// Size of the session's datagrams on the wire, in bytes.
    datagram: f64,
    /// Datagrams that may be sent in a round trip whatever the measured rate; more if other traffic
    /// fills the queue, and fewer after a loss in a queue.
    window: Window,
    competed: bool,
    /// Whether no flight has filled the bottleneck yet.
    startup: bool,
    measured: bool,
    /// See [`Self::set_silent`].
    silent: bool,
    /// Number of datagrams that have arrived.
    arrived: u32,
    trips: Trips,
    flight: Flight,
    /// See [`Self::passed`]: its last value, and when that was.
    passed: Option<(Instant, f64)>,
    /// The last delivery rates, in bit/s.
    recent: VecDeque<f64>,
    /// The same without what a radio has lost, which may not have passed the bottleneck.
    arrival_rates: VecDeque<f64>,
    /// When a queue dropped datagrams last.
    dropped_at: Option<Instant>,
    cut_at: Instant,
    grown_at: Instant,
    slowed_at: Instant,
    /// Divisor of the sending rate while nothing arrives.
    backoff: f64,
    /// Bytes that were carried per byte of an arrival.
    scale: f64,
    /// Loss that is not due to congestion, 0 to 1.
    loss: f64,
}

impl Capacity {
    /// An estimate without samples. `configured` is the rate in bit/s, `trip` the configured
    /// round-trip time, `packet` the maximum datagram on the wire in bytes.
    pub fn new(configured: Option<f64>, trip: Option<Span>, packet: f64) -> Self {
        let mut capacity = Self {
            configured,
            rate: 0.0,
            packet,
            datagram: packet,
            window: Window::default(),
            competed: false,
            startup: true,
            measured: false,
            silent: false,
            arrived: 0,
            trips: Trips::default(),
            flight: Flight::default(),
            passed: None,
            recent: VecDeque::new(),
            arrival_rates: VecDeque::new(),
            dropped_at: None,
            cut_at: Instant::START,
            grown_at: Instant::START,
            slowed_at: Instant::START,
            backoff: 1.0,
            scale: 1.0,
            loss: 0.0,
        };
        capacity.rate =
            configured.unwrap_or_else(|| capacity.initial(trip.unwrap_or(UNKNOWN_TRIP)));
        capacity
    }

    /// The rate at which the window is sent within a round trip of `trip`.
    fn initial(&self, trip: Span) -> f64 {
        let packet = self.packet.min(MAX_INITIAL / window::INITIAL);
        let bytes = self.window.size() * packet;
        bytes * 8e9 / trip.max(MIN_TRIP).as_ns_f64()
    }

    /// The estimated rate, in bit/s.
    pub fn rate(&self) -> f64 {
        let window = |trip| self.initial(trip);
        let rate = match self.trips.mean() {
            Some(trip) if self.competes() => window(trip),
            // A few datagrams per round trip may always go: slow answers are no lack of capacity.
            // In a long queue, not even these.
            Some(trip) => {
                let longest = self.trips.longest().unwrap_or(trip);
                let trip = trip.max(longest / 2);
                self.rate.max(window(trip) * (self.datagram / self.packet).min(1.0))
            }
            None => self.rate,
        }
        .max(MIN_RATE);
        self.configured.map_or(rate, |configured| rate.min(configured))
    }

    /// The rate that another model can rely on, in bit/s: the estimate, but not far above the rate at
    /// which datagrams have arrived. A model that leaves room for repairs, or whose frames are lost
    /// before the bottleneck, fills it with a part of the estimate only.
    pub fn proven(&self) -> f64 {
        let arrived = self.arrival_rates.iter().copied().max_by(f64::total_cmp);
        let arrived = arrived.filter(|_| self.configured.is_none());
        arrived.map_or(self.rate(), |arrived| self.rate().min(arrived * PROVEN))
    }

    /// The session changes its model. What has arrived so far was measured in the former one's way.
    pub fn change(&mut self) {
        self.rate = self.rate.min(self.proven());
        self.flight = Flight::default();
    }

    /// The rate to send at, in bit/s: the estimate, or less while nothing arrives or a queue is to
    /// drain.
    pub fn pace(&self) -> f64 {
        let drains = self.trips.stands() && !self.competes() && self.configured.is_none();
        let gain = if drains { DRAIN } else { 1.0 };
        (self.rate() * gain / self.backoff).max(MIN_RATE)
    }

    /// The rate at which messages may cause answers, in bit/s: where a window decides, that of the window;
    /// infinite for a configured rate, in which members spread answers, and on a near path, whose ends are
    /// slower. Without what lowers [`Self::pace`] for a moment: the answers to a message take long.
    pub fn answers(&self) -> f64 {
        match self.configured {
            Some(_) => f64::INFINITY,
            None if self.competes() => self.rate(),
            None if self.is_near() => f64::INFINITY,
            None => self.rate() * MAX_ANSWERS,
        }
    }

    /// Whether a window decides. A configured rate is a share of the path that others leave.
    fn competes(&self) -> bool {
        self.configured.is_none() && self.trips.competes()
    }

    /// Whether the rate was not configured.
    pub fn is_estimated(&self) -> bool {
        self.configured.is_none()
    }

    /// Smoothed round-trip time with queueing; `None` before the first sample.
    pub fn smoothed_trip(&self) -> Option<Span> {
        self.trips.mean()
    }

    /// Time of the last round-trip sample; `None` before the first.
    pub fn sampled_at(&self) -> Option<Instant> {
        self.trips.sampled_at()
    }

    /// Time to wait for answers beyond what is estimated, until some have arrived: the path
    /// may be far narrower than its round trip suggests. At most the second that RFC 8085, 3.1.1,
    /// requires before the first round trip (decision 101), and less with each arrival.
    pub fn patience(&self) -> Span {
        if !self.is_estimated() || self.measured || self.arrived >= KNOWN_AFTER {
            return Span::ZERO;
        }
        let first = (4 * self.trip() + PATIENCE).min(MAX_PATIENCE);
        Span::from_ns_f64(first.as_ns_f64() / f64::from(1 + self.arrived))
    }

    /// Minimum round-trip time of the last half minute.
    pub fn least_trip(&self) -> Option<Span> {
        self.trips.least()
    }

    /// Sets whether several requests for a round trip in a row have no answer yet, more than losses
    /// explain: they wait in a queue.
    pub fn set_silent(&mut self, silent: bool) {
        self.silent = silent;
    }

    /// Sets the size of messages on the wire in bytes, what an arrival of a byte stands for, `scale`
    /// bytes that were carried, and the share of datagrams that is lost behind the bottleneck.
    pub fn set_traffic(&mut self, message: f64, scale: f64, loss: f64) {
        self.datagram = message.min(self.packet);
        (self.scale, self.loss) = (scale.max(1.0), loss);
    }

    /// Time of a datagram on the bottleneck.
    fn airtime(&self) -> Span {
        Span::from_ns_f64(PACKET.min(self.packet) * 8e9 / self.rate())
    }

    fn trip(&self) -> Span {
        self.trips.mean().unwrap_or(UNKNOWN_TRIP)
    }

    /// Records a round-trip time.
    pub fn round_trip(&mut self, now: Instant, trip: Span) {
        let is_first = self.trips.mean().is_none();
        self.trips.add(now, trip, self.airtime());
        // So far the rate was that of the initial window over an assumed round trip, or over one of another
        // path: a wire's rate would stay on a radio. Arrivals measure the path soon, and long round
        // trips can be those of the queue that they make.
        let window = self.initial(self.trip());
        let is_other = self.arrived == 0 && self.rate > OTHER_PATH * window;
        if self.configured.is_none() && !self.measured && (is_first || is_other) {
            self.rate = window;
        }
        self.flight.longest = self.flight.longest.max(trip);
        if self.competes() != self.competed {
            // The rate stays as it is.
            let bits = self.rate.min(self.recent().unwrap_or(self.rate)) * self.trip().as_ns_f64();
            match self.competes() {
                true => self.window.compete(bits / 8e9 / self.packet, now),
                false => self.rate = self.initial(self.trip()),
            }
            self.competed = self.competes();
            if !self.competed {
                self.window.leave();
            }
        }
    }

    /// Bytes have arrived: the window grows.
    fn acknowledge(&mut self, bytes: f64, now: Instant) {
        let used = self.recent().map_or(f64::MAX, |rate| rate * self.trip().as_ns_f64() / 8e9);
        let is_full = self.window.size() < MAX_UNUSED * used / self.packet;
        if is_full || !self.competes() {
            self.window.arrived(bytes / self.packet, self.competes(), now);
        }
    }

    /// Records the arrival of a datagram of `bytes` on the wire.
    pub fn arrival(&mut self, now: Instant, bytes: usize) {
        self.resume();
        self.arrived = self.arrived.saturating_add(1);
        if !self.flight.trained {
            // Trains count the same bytes again.
            self.acknowledge(bytes as f64 * self.scale, now);
        }
        self.flight.arrival(now, bytes);
        // A path that has become much narrower shows before all has arrived.
        let early = self.flight.len() >= EARLY && !self.flight.trained;
        let seen = early.then(|| self.flight.rate()).flatten();
        let is_narrow = |seen: f64| seen * self.scale < self.rate() / EARLY_DROP;
        if seen.is_some_and(is_narrow) && self.is_evidence() {
            self.finish(now);
        }
        // While the estimate is far too low for messages, none may be complete and end a flight
        // (decision 144).
        let (takes, _) = self.flight.ages(now);
        let long = self.flight.len() >= LONG_FLIGHT && takes > 2 * self.trip();
        if long && !self.flight.trained {
            self.finish(now);
        }
    }

    /// Something has arrived: sending becomes faster again, with each arrival.
    pub fn resume(&mut self) {
        self.backoff = (self.backoff / 2.0).max(1.0);
    }

    /// Messages are about to be sent: if nothing has arrived for some time, ends the flight.
    pub fn sending(&mut self, now: Instant) {
        let (_, pause) = self.flight.ages(now);
        if pause > 2 * self.trip() + PAUSE {
            self.finish(now);
        }
    }

    /// A message is complete, and nothing is awaited if it was the `last`.
    pub fn completed(&mut self, now: Instant, last: bool) {
        let (takes, _) = self.flight.ages(now);
        let long = self.flight.len() > 2 * MIN_FLIGHT && takes > 2 * self.trip();
        if last || long || self.flight.len() >= LONG_FLIGHT {
            self.finish(now);
        }
    }

    /// A train of datagrams was acknowledged at the sending end.
    pub fn train(&mut self, train: Train, now: Instant) {
        let Some(least) = self.least_trip() else { return };
        if (train.bytes as f64) < MIN_TRAIN * self.packet {
            return;
        }
        // What a queue has dropped has not passed; what a radio has lost, has.
        let full = self.queues(self.flight.longest);
        if train.repaired && !full {
            return;
        }
        self.flight.trained = true;
        self.acknowledge(train.fresh as f64, now);
        let bytes = if full { train.received } else { train.bytes } as f64;
        let rate_over = |span: Span| bytes * 8e9 / span.max(MIN_SPAN).as_ns_f64();
        // After a pause, the time until the first acknowledgement includes a round trip without
        // deliveries.
        let (trip, shortest) = match train.alone {
            true => (least, least / RESOLUTION),
            false => (Span::ZERO, Span::ZERO),
        };
        let sent = rate_over(train.sent).min(self.rate());
        let seen = rate_over((train.acknowledged - trip).max(train.sent).max(shortest));
        let seen = self.passed(now).map_or(seen, |passed| seen.max(passed));
        if train.held && !full && seen < FILLS * sent {
            return;
        }
        self.arrived_at(seen * train.received as f64 / bytes.max(1.0));
        self.delivered(seen, sent, now);
        self.flight.longest = Span::ZERO;
    }

    /// Whether a round-trip time includes a standing queue.
    fn queues(&self, trip: Span) -> bool {
        self.trips.queues(trip, self.airtime())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_ms(1);

    /// A flight of `count` datagrams of 1,000 bytes that arrive at `bit_s`, and their round trips:
    /// `trip` ms, and `more` ms longer at the end.
    fn flight(
        capacity: &mut Capacity,
        begin: Instant,
        count: u64,
        bit_s: f64,
        (trip, more): (u64, u64),
    ) {
        let each = Span::from_ns_f64(8e12 / bit_s);
        for n in 0..count {
            let now = begin + n * each;
            capacity.arrival(now, 1_000);
            capacity.round_trip(now, (trip + more * n / count) * MS);
        }
    }

    #[test]
    fn a_rate_is_found_from_nothing_and_followed() {
        let mut capacity = Capacity::new(None, None, 1_500.0);
        let mut now = Instant::START;
        let mut run = |capacity: &mut Capacity, bit_s: f64, flights: u64| {
            for _ in 0..flights {
                now += 2_000 * MS;
                let sent = capacity.rate();
                let excess = 8e6 * 20.0 * (1.0 / bit_s - 1.0 / sent).max(0.0);
                flight(capacity, now, 20, sent.min(bit_s), (40, excess as u64));
                capacity.finish(now);
            }
            capacity.rate() / bit_s
        };
        for bit_s in [500e3, 150e3, 2e6, 100e6, 30e3] {
            let ratio = run(&mut capacity, bit_s, 40);
            let floor = capacity.initial(capacity.smoothed_trip().unwrap()) / bit_s;
            assert!(ratio > 0.7 && ratio < 2_f64.max(floor * 1.01), "{bit_s}: {ratio} {floor}");
        }
    }

    #[test]
    fn losses_of_a_queue_are_told_from_those_of_a_radio() {
        let mut capacity = Capacity::new(None, Some(40 * MS), 1_500.0);
        flight(&mut capacity, Instant::START, 20, 3e6, (40, 0));
        let before = capacity.rate();
        assert!(!capacity.lost(Instant::START + 100 * MS), "no queue");
        assert_eq!(capacity.rate(), before);
        capacity.finish(Instant::START + 100 * MS);
        flight(&mut capacity, Instant::START + 2_000 * MS, 20, 500e3, (40, 400));
        let before = capacity.rate();
        assert!(capacity.lost(Instant::START + 2_400 * MS), "the queue is full");
        assert!(capacity.rate() < 0.8 * before);
        let once = capacity.rate();
        assert!(capacity.lost(Instant::START + 2_401 * MS));
        assert_eq!(capacity.rate(), once, "once in a round trip");
    }

    #[test]
    fn what_was_told_is_a_limit() {
        let mut capacity = Capacity::new(Some(1e6), Some(40 * MS), 1_500.0);
        for n in 1..10 {
            flight(&mut capacity, Instant::START + n * 2_000 * MS, 20, 1e6, (40, 0));
            capacity.finish(Instant::START + n * 2_000 * MS + 100 * MS);
        }
        assert_eq!(capacity.rate(), 1e6);
        flight(&mut capacity, Instant::START + 60_000 * MS, 20, 300e3, (40, 300));
        capacity.finish(Instant::START + 61_000 * MS);
        let floor = capacity.initial(capacity.smoothed_trip().unwrap());
        assert!(capacity.rate() <= floor.max(320e3) && floor < 1e6, "{}", capacity.rate());
    }

    #[test]
    fn what_waits_at_slow_ends_is_awaited_for_as_long() {
        let wait = |configured| {
            let mut capacity = Capacity::new(configured, None, 1_500.0);
            for (at, trip) in [80, 1].into_iter().enumerate() {
                capacity.round_trip(Instant::START + at as u64 * MS, trip * MS);
            }
            capacity.wait()
        };
        assert_eq!(wait(Some(1e6)), None, "the rate says it");
        assert_eq!(wait(Some(1e10)), Some(80 * MS));
        assert_eq!(wait(None), Some(Span::from_us(70_125)));
    }

    /// What failed before: threads that waited for the processor looked like a slow path, and nothing raised
    /// the rate again as long as answers waited for them.
    #[test]
    fn a_rate_that_ends_limited_comes_back() {
        let mut capacity = Capacity::new(Some(1e10), Some(MS), 1_500.0);
        let mut now = Instant::START;
        let mut run = |capacity: &mut Capacity, bit_s: f64| {
            for _ in 0..8 {
                now += 2_000 * MS;
                flight(capacity, now, 20, bit_s, (1, 40));
                capacity.finish(now + 1_000 * MS);
            }
            capacity.rate()
        };
        assert!(run(&mut capacity, 1e7) < 3e7);
        let rate = run(&mut capacity, 5e8);
        assert!((4e8..1e10).contains(&rate), "{rate}");
    }

    /// What failed before: the time that ends need counted as that of the path, or kept the rate from growing.
    #[test]
    fn what_arrives_in_a_row_has_passed_a_short_path() {
        let grown = |trip: Span| {
            let mut capacity = Capacity::new(None, None, 1_500.0);
            capacity.round_trip(Instant::START, trip);
            capacity.set_traffic(170.0, 1.0, 0.0);
            let before = capacity.rate();
            (0..40).for_each(|n| capacity.arrival(Instant::from_ns(n * 100), 170));
            let at = Instant::START + 2 * trip + 200 * MS;
            let train = Train {
                bytes: 20_000,
                received: 20_000,
                fresh: 20_000,
                sent: Span::from_us(10),
                acknowledged: trip + 200 * MS,
                alone: true,
                repaired: false,
                held: true,
            };
            capacity.train(train, at);
            capacity.rate() / before
        };
        assert!(grown(Span::from_us(200)) > 1.9);
        assert_eq!(grown(40 * MS), 1.0);
    }

    /// Answers of which a quarter is lost arrive in slots with room for repairs: at half of the rate
    /// that they are for, without a queue.
    #[test]
    fn another_model_gets_no_more_than_has_arrived() {
        let mut capacity = Capacity::new(None, None, 1_500.0);
        capacity.set_traffic(1_000.0, 1.0, 0.26);
        let mut now = Instant::START;
        for _ in 0..40 {
            now += 4_000 * MS;
            let arrives = (capacity.rate() * 0.6).min(100e3);
            flight(&mut capacity, now, 20, arrives, (800, 0));
            capacity.finish(now);
        }
        assert!(capacity.rate() > 150e3, "{}", capacity.rate());
        assert!((95e3..130e3).contains(&capacity.proven()), "{}", capacity.proven());
        capacity.change();
        assert!(capacity.rate() < 130e3, "{}", capacity.rate());
        let mut configured = Capacity::new(Some(1e6), None, 1_500.0);
        flight(&mut configured, now, 20, 100e3, (800, 0));
        configured.finish(now);
        assert_eq!(configured.proven(), configured.rate());
    }

    /// Members send without a pause, and no message is ever complete.
    fn without_an_end(capacity: &mut Capacity, begin: Instant, count: u64) -> Instant {
        (0..count).fold(begin, |now, _| {
            let now = now + Span::from_ns_f64(8e12 / capacity.rate());
            capacity.arrival(now, 1_000);
            capacity.round_trip(now, 4_000 * MS);
            now
        })
    }

    #[test]
    fn a_flight_that_does_not_end_is_measured_too() {
        let mut capacity = Capacity::new(None, None, 1_500.0);
        capacity.round_trip(Instant::START, 4_000 * MS);
        let before = capacity.rate();
        let now = without_an_end(&mut capacity, Instant::START, 400);
        assert!(capacity.rate() > 4.0 * before, "{} {before}", capacity.rate());
        // Acknowledged trains measure the path in place of arrivals, until the model changes.
        let train = Train {
            bytes: 9_000,
            received: 9_000,
            fresh: 9_000,
            sent: 4_000 * MS,
            acknowledged: 4_000 * MS,
            alone: false,
            repaired: false,
            held: false,
        };
        capacity.train(train, now);
        capacity.change();
        let before = capacity.rate();
        without_an_end(&mut capacity, now, 400);
        assert!(capacity.rate() > 1.5 * before, "{} {before}", capacity.rate());
    }

    #[test]
    fn slow_answers_are_no_lack_of_capacity() {
        let mut capacity = Capacity::new(None, None, 1_500.0);
        for n in 0..20 {
            for place in 0..10 {
                let now = Instant::START + n * 2_000 * MS + place * 100 * MS;
                capacity.arrival(now, 150);
                capacity.round_trip(now, (20 + place * 100) * MS);
            }
            capacity.finish(Instant::START + n * 2_000 * MS + 1_500 * MS);
        }
        // Ten packets in the 470 ms that an answer takes on average.
        assert!(capacity.rate() > 150e3, "{}", capacity.rate());
    }

    #[test]
    fn an_outage_slows_sending_down_and_leaves_the_estimate() {
        let mut capacity = Capacity::new(None, Some(40 * MS), 1_500.0);
        let before = capacity.pace();
        (1..9).for_each(|n| capacity.timeout(Instant::START + n * 1_000 * MS));
        assert!(capacity.pace() < before / 50.0 && capacity.rate() == before);
        (0..8).for_each(|n| capacity.arrival(Instant::START + n * MS / 100, 100));
        assert_eq!(capacity.pace(), before);
    }
}
