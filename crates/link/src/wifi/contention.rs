//! Contention of stations that hear each other: the distributed coordination function (DCF) of Wi-Fi.
//!
//! IEEE 802.11-2012, 9.3.4: a station counts down a random number of slots, 0 to its contention window,
//! and sends. It counts only while the channel has been idle for `aifs`, and goes on with the rest
//! after the next transmission. Stations whose counts end in the same slot collide. The window doubles
//! after each failure and is the smallest one again after a success. After each transmission a station
//! counts down once, also with nothing to send; if that is over when a frame comes, and the channel has
//! been idle for `aifs`, it sends in the next slot.

use super::WifiSpec;
use units::{Draw, Instant, Purpose, Span};

/// The stations and their counts.
#[derive(Debug)]
pub(super) struct Contention {
    slot: Span,
    aifs: Span,
    windows: [u32; 2],
    draw: Draw,
    stations: Vec<Station>,
    /// End of the last transmission, with its acknowledgement.
    idle_from: Instant,
    is_busy: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Station {
    /// Whether it has something to send.
    waits: bool,
    /// Slots to count, from `aifs` after the last transmission on.
    slots: u32,
    /// Failures since the last success.
    failures: u32,
    /// Random numbers drawn so far.
    draws: u64,
}

impl Contention {
    /// An idle channel without stations.
    pub fn new(spec: &WifiSpec, draw: Draw) -> Self {
        let (slot, aifs, windows) = (spec.slot, spec.aifs, [spec.cw_min, spec.cw_max]);
        let (stations, idle_from) = (Vec::new(), Instant::START);
        Self { slot, aifs, windows, draw, stations, idle_from, is_busy: false }
    }

    /// Adds a station, numbered after the others.
    pub fn attach(&mut self) {
        self.stations.push(Station::default());
    }

    /// `station` has something to send from `now` on.
    pub fn ready(&mut self, station: usize, now: Instant) {
        if self.stations[station].waits {
            return;
        }
        let counting = self.idle_from + self.aifs;
        let slots = self.stations[station].slots;
        if self.is_busy || now < counting {
            if slots == 0 {
                self.draw(station);
            }
        } else {
            // The next slot to begin, unless it still counts.
            let next = (now - counting).as_ns().div_ceil(self.slot.as_ns());
            self.stations[station].slots = slots.max(next.try_into().unwrap_or(u32::MAX));
        }
        self.stations[station].waits = true;
    }

    /// `station` has nothing to send any more, and has forgotten its count and failures.
    pub fn leave(&mut self, station: usize) {
        let draws = self.stations[station].draws;
        self.stations[station] = Station { draws, ..Station::default() };
    }

    /// When the next transmission begins; `None` during one, and if no station has anything to send.
    pub fn next(&self) -> Option<Instant> {
        let waiting = self.stations.iter().filter(|station| station.waits && !self.is_busy);
        let slots = waiting.map(|station| station.slots).min()?;
        Some(self.idle_from + self.aifs + u64::from(slots) * self.slot)
    }

    /// Begins the next transmission, at [`Self::next`]. Returns the stations that send, more than one if they
    /// collide.
    pub fn begin(&mut self) -> Vec<usize> {
        let waiting = self.stations.iter().filter(|station| station.waits);
        let passed = waiting.map(|station| station.slots).min().unwrap_or_default();
        self.is_busy = true;
        let mut senders = Vec::new();
        for (number, station) in self.stations.iter_mut().enumerate() {
            if station.waits && station.slots == passed {
                senders.push(number);
            }
            station.slots = station.slots.saturating_sub(passed);
        }
        senders
    }

    /// The transmission of `station` ended, with a success or not, and the station draws its next count.
    /// `waits`: whether it has something to send now.
    pub fn ended(&mut self, station: usize, is_success: bool, waits: bool) {
        let own = &mut self.stations[station];
        own.failures = if is_success { 0 } else { own.failures + 1 };
        own.waits = waits;
        self.draw(station);
    }

    /// All stations may count again, from `aifs` after this time on.
    pub fn idle(&mut self, from: Instant) {
        (self.is_busy, self.idle_from) = (false, from);
    }

    fn draw(&mut self, station: usize) {
        let own = &mut self.stations[station];
        let [least, most] = self.windows;
        let window = (u64::from(least) + 1) << own.failures.min(16);
        let window = window.min(u64::from(most) + 1);
        let place = (station as u64) << 48 | (own.draws & 0xffff_ffff_ffff);
        own.draws += 1;
        own.slots = (self.draw.uniform(Purpose::Backoff, place) * window as f64) as u32;
    }
}
