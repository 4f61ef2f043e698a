//! The faults of a path: what becomes of each datagram. No clock and no sockets.

use crate::draws::Draws;
use std::fmt;
use std::time::Duration;

/// Probabilities of faults per datagram, 0 to 1.
#[derive(Debug, Clone, Copy)]
pub struct Weather {
    pub drop: f64,
    pub duplicate: f64,
    pub reorder: f64,
    pub delay: f64,
    pub corrupt: f64,
    pub replay: f64,
}

impl Weather {
    /// Any weather.
    pub fn draw(draws: &mut Draws) -> Self {
        let mut up_to = |most: u64| draws.below(1_000) as f64 * most as f64 / 1e5;
        Self {
            drop: up_to(20),
            duplicate: up_to(20),
            reorder: up_to(40),
            delay: up_to(10),
            corrupt: up_to(10),
            replay: up_to(10),
        }
    }
}

/// Faults so far, by kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub datagrams: u64,
    pub dropped: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub delayed: u64,
    pub corrupted: u64,
    /// Datagrams that had been sent earlier in the round, to either end.
    pub replayed: u64,
    /// Datagrams lost in cuts.
    pub cut_off: u64,
    pub cuts: u64,
    /// A member's new address, as behind a NAT that has forgotten the old one.
    pub rebinds: u64,
    pub restarts: u64,
    pub model_changes: u64,
    /// The longest time from the last fault until all members of a session exchange messages.
    pub recovery: Duration,
}

impl Faults {
    /// Their sum.
    pub fn total(&self) -> u64 {
        let Self { dropped, duplicated, reordered, delayed, corrupted, replayed, .. } = *self;
        let events = self.cut_off + self.cuts + self.rebinds + self.restarts + self.model_changes;
        dropped + duplicated + reordered + delayed + corrupted + replayed + events
    }

    /// Adds those of another round.
    pub fn add(&mut self, other: &Self) {
        self.datagrams += other.datagrams;
        self.dropped += other.dropped;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.delayed += other.delayed;
        self.corrupted += other.corrupted;
        self.replayed += other.replayed;
        self.cut_off += other.cut_off;
        self.cuts += other.cuts;
        self.rebinds += other.rebinds;
        self.restarts += other.restarts;
        self.model_changes += other.model_changes;
        self.recovery = self.recovery.max(other.recovery);
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} faults: {self:?}", self.total())
    }
}

/// Datagrams kept for later replay.
const KEPT: usize = 256;

/// A direction of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toward {
    Hub,
    Member,
}

/// The datagrams that went over a line, for replays.
#[derive(Default)]
pub struct Line {
    /// By direction.
    earlier: [Vec<Vec<u8>>; 2],
}

impl Line {
    /// What becomes of a datagram: copies and their delays.
    pub fn judge(
        &mut self,
        weather: &Weather,
        to: Toward,
        datagram: &[u8],
        draws: &mut Draws,
        faults: &mut Faults,
    ) -> Vec<(Duration, Vec<u8>)> {
        let earlier = &mut self.earlier[to as usize];
        if earlier.len() < KEPT {
            earlier.push(datagram.to_vec());
        } else {
            let place = draws.below(KEPT as u64) as usize;
            earlier[place] = datagram.to_vec();
        }
        let mut sent = Vec::new();
        if draws.chance(weather.replay) {
            faults.replayed += 1;
            // Also in the direction that it did not have.
            let all = &self.earlier[draws.below(2) as usize];
            let any = all.get(draws.below(all.len().max(1) as u64) as usize);
            sent.extend(any.map(|any| (Duration::ZERO, any.clone())));
        }
        if draws.chance(weather.drop) {
            faults.dropped += 1;
            return sent;
        }
        let mut copies = 1;
        if draws.chance(weather.duplicate) {
            faults.duplicated += 1;
            copies += 1 + draws.below(3);
        }
        for _ in 0..copies {
            let (mut delay, mut bytes) = (Duration::ZERO, datagram.to_vec());
            if draws.chance(weather.reorder) {
                faults.reordered += 1;
                delay = Duration::from_micros(100 + draws.below(5_000));
            }
            if draws.chance(weather.delay) {
                faults.delayed += 1;
                // Some outlast changes of the model and restarts.
                let longest = if draws.chance(0.02) { 5_000 } else { 200 };
                delay += Duration::from_millis(1 + draws.below(longest));
            }
            if draws.chance(weather.corrupt) {
                faults.corrupted += 1;
                corrupt(draws, &mut bytes);
            }
            sent.push((delay, bytes));
        }
        sent
    }
}

/// Flips bits, cuts the end off, or appends bytes.
fn corrupt(draws: &mut Draws, bytes: &mut Vec<u8>) {
    match draws.below(4) {
        0 => bytes.truncate(draws.below(bytes.len().max(1) as u64) as usize),
        1 => (0..=draws.below(20)).for_each(|_| bytes.push(draws.next() as u8)),
        _ => {
            for _ in 0..=draws.below(3) {
                let place = draws.below(bytes.len().max(1) as u64) as usize;
                if let Some(byte) = bytes.get_mut(place) {
                    *byte ^= 1 << draws.below(8);
                }
            }
        }
    }
}
