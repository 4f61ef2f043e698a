//! The path's rate, from how fast datagrams have arrived.

use super::flight::Flight;
use super::trips::NEAR;
use super::{ARRIVAL_RATES, Capacity, FILLS, PATIENCE};
use crate::{Instant, Span};

/// Growth of the rate with each flight that does not fill the bottleneck: before the first that
/// does, and after it (BBR's gain of a probing phase).
const GROWTH: [f64; 2] = [1.25, 2.0];
/// Maximum decrease with a flight: one flight can be delayed by other causes.
const MAX_DROP: f64 = 4.0;
/// Delivery rates whose maximum is the path's while a queue stands (decision 80).
const RECENT: usize = 4;
/// Delivery rates that differ by less than this factor are that of the bottleneck.
const AGREE: f64 = 1.25;
/// Configured rate in bit/s from which the ends are slower than the path.
const FAST: f64 = 1e9;
/// Share of lost datagrams up to which arrivals are not slowed down by repairs.
const CLEAN: f64 = 0.01;

impl Capacity {
    /// Datagrams that were sent at a rate of `sent` bit/s have arrived at a rate of `seen`.
    pub(super) fn delivered(&mut self, seen: f64, sent: f64, now: Instant) {
        let rate = self.rate();
        self.measured = true;
        self.recent.push_back(seen);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        if seen < FILLS * sent && self.is_evidence() {
            self.startup = false;
            // Others may have sent meanwhile.
            self.rate = (rate * seen / sent).max(rate / MAX_DROP);
        } else if self.queues(self.flight.longest) {
            if self.recent.len() == RECENT {
                self.limit();
            }
        } else if seen >= FILLS * rate && !self.flight.lost {
            self.grow(now);
        }
    }

    /// While a queue stands, the path carries what has arrived, and no more; if flights arrive at the same rate
    /// again and again, no less either (decision 187). Of a near path, or one with a high configured rate, the
    /// queue can be that of its ends, which are not as steady.
    fn limit(&mut self) {
        let least = self.recent.iter().copied().min_by(f64::total_cmp).unwrap_or(0.0);
        let most = self.recent().unwrap_or(self.rate);
        match self.configured {
            None if self.is_near() => self.rate = self.rate.max(least).min(most),
            None if most < AGREE * least => {
                let least = least.min(self.rate() * GROWTH[1]);
                self.rate = self.rate.max(least).min(most);
            }
            None => self.rate = self.rate.min(most),
            Some(configured) if configured >= FAST => {
                self.rate = self.rate.max(least).min(configured);
            }
            Some(_) => {}
        }
    }

    /// Whether the path is that of a wire or of one machine.
    pub(super) fn is_near(&self) -> bool {
        self.least_trip().is_some_and(|least| least < NEAR)
    }

    /// Whether slow arrivals show a narrow path: its queue has made a round trip longer. Without that,
    /// members, requests or pacing were slow (the application-limited samples of BBR). After losses of
    /// a radio, repairs make arrivals slow too: then a packet must have waited about as long as the
    /// arrivals took longer than they should have, half of it at least.
    pub(super) fn is_evidence(&self) -> bool {
        if self.silent {
            return true;
        }
        let slow = self.configured.is_some_and(|rate| rate < FAST);
        if !slow && !self.flight.trained && !self.queues(self.flight.longest) {
            return false;
        }
        let clean = self.loss < CLEAN && !self.flight.losses;
        let Some((bytes, span)) = self.flight.run().filter(|_| !clean) else { return true };
        let least = self.least_trip().unwrap_or_default();
        let waited = (self.flight.longest - least).as_ns_f64();
        let excess = span - bytes * self.scale * 8e9 / self.rate();
        self.flight.trained || waited > excess / 2.0
    }

    /// Round-trip time with queues for which answers are awaited; `None` before the first sample, and on a
    /// path whose configured rate says how long they take. Where the ends are slower than the path, it is
    /// the longest one: requests for what waits at an end keep both ends from it.
    pub fn wait(&self) -> Option<Span> {
        match self.configured {
            None => self.trips.mean(),
            Some(rate) if rate >= FAST => self.trips.longest(),
            Some(_) => None,
        }
    }

    /// The rate at which datagrams have arrived in a row, in bit/s, on a near path: where ends are slower than
    /// the path, a train takes as long as they do, and the queue is theirs, but this has passed the path.
    pub(super) fn passed(&mut self, now: Instant) -> Option<f64> {
        if !self.is_near() {
            return None;
        }
        if let Some(rate) = self.flight.rate() {
            self.passed = Some((now, rate * self.scale));
        }
        self.passed.filter(|(at, _)| now < *at + PATIENCE).map(|(_, rate)| rate)
    }

    /// The highest of the last delivery rates, in bit/s.
    pub(super) fn recent(&self) -> Option<f64> {
        self.recent.iter().copied().max_by(f64::total_cmp)
    }

    /// Datagrams have arrived at this rate, in bit/s.
    pub(super) fn arrived_at(&mut self, rate: f64) {
        self.arrival_rates.push_back(rate);
        if self.arrival_rates.len() > ARRIVAL_RATES {
            self.arrival_rates.pop_front();
        }
    }

    /// The path carries all: raises the rate, at most once in a round trip.
    fn grow(&mut self, now: Instant) {
        if self.grown_at > Instant::START && now < self.grown_at + self.trip() {
            return;
        }
        self.grown_at = now;
        if self.startup {
            self.trips.too_fast();
        }
        self.rate = self.rate().max(self.rate) * GROWTH[usize::from(self.startup)];
        if let Some(configured) = self.configured {
            self.rate = self.rate.min(configured);
        }
    }

    /// Ends the flight.
    pub(super) fn finish(&mut self, now: Instant) {
        let flight = core::mem::take(&mut self.flight);
        if flight.trained {
            return;
        }
        let Some(seen) = flight.rate() else { return };
        self.arrived_at(seen * self.scale);
        // What a radio behind the bottleneck has lost has passed the bottleneck.
        let seen = seen * self.scale / (1.0 - self.loss).max(0.1);
        // `delivered` looks at the round trips and the losses of the flight.
        self.flight = flight;
        self.delivered(seen, self.rate(), now);
        self.flight = Flight::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::Train;

    const MS: Span = Span::from_ms(1);

    /// Twenty flights of 20 datagrams behind a queue, which arrive in intervals of 80 us, or every other flight of
    /// them in ones of `other`; over a path of which the shortest round trip is `least`.
    fn flights(least: Span, other: Span) -> Capacity {
        let mut capacity = Capacity::new(None, None, 1_500.0);
        capacity.round_trip(Instant::START, least);
        capacity.rate = 2e7;
        for n in 1..20 {
            let begin = Instant::START + n * 50 * MS;
            let interval = if n % 2 == 0 { Span::from_us(80) } else { other };
            for datagram in 0..20 {
                let now = begin + datagram * interval;
                capacity.round_trip(now, (20 + n % 7) * MS);
                capacity.arrival(now, 1_000);
            }
            capacity.finish(begin + 20 * MS);
        }
        capacity
    }

    /// What failed before: on one machine, a rate that was once too low stayed as low, since what waits for
    /// the ends counted as the path's queue.
    #[test]
    fn what_arrives_again_and_again_on_a_near_path_raises_the_rate() {
        let near = flights(Span::from_us(50), Span::from_us(80));
        assert!(near.rate > 9e7 && near.answers() == f64::INFINITY, "{}", near.rate);
        let far = flights(2 * MS, Span::from_us(200));
        assert!(far.rate < 3e7 && far.answers().is_finite(), "{}", far.rate);
    }

    /// What failed before: of a path that had become faster, and on which answers always make a queue, the
    /// estimate stayed at a tenth, although each flight arrived at the path's rate.
    #[test]
    fn flights_that_arrive_at_the_same_rate_raise_the_estimate() {
        let capacity = flights(2 * MS, Span::from_us(85));
        assert!((9e7..1.1e8).contains(&capacity.rate), "{}", capacity.rate);
        assert!(capacity.answers().is_finite());
    }

    /// What failed before: messages that jitter acknowledged sooner than the shortest round trip had passed at
    /// any rate. A session with pauses came to 15 Gbit/s over a path of 3 Mbit/s, and nothing arrived for minutes
    /// when that became narrow.
    #[test]
    fn what_passes_within_jitter_shows_no_higher_rate() {
        let mut capacity = Capacity::new(None, None, 1_500.0);
        for n in 1..100 {
            let now = Instant::START + n * 2_000 * MS;
            capacity.round_trip(now, (100 + n % 9) * MS);
            let sent = Span::from_ns_f64(8e13 / capacity.rate());
            let bytes = 10_000;
            let train = Train {
                bytes,
                received: bytes,
                fresh: bytes,
                sent,
                acknowledged: 97 * MS,
                alone: true,
                ..Train::default()
            };
            capacity.train(train, now);
        }
        assert!((1e6..2e8).contains(&capacity.rate()), "{:e}", capacity.rate());
    }
}
