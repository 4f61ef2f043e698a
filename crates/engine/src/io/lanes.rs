//! Fair scheduling of the ports in one ring: a port that floods waits for the others.
//!
//! Pure: takes the port of each record, in order, and returns the next record. Records of
//! one port stay in order. While no port exceeds its turn, records leave in order of
//! arrival, and nothing is stored.

use super::TURN;
use std::collections::VecDeque;

/// New records examined between two turns of parked ones.
const LOOK_AHEAD: u32 = 1_024;

/// A record that waits for its port's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parked {
    /// Start of the record in the ring.
    record: u64,
    /// Number of the record in `holding`.
    number: u64,
}

#[derive(Debug, Default)]
struct Lane {
    parked: VecDeque<Parked>,
    /// Round of the last record, and records taken in that round.
    round: u64,
    taken: u32,
}

/// Decision about an examined record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The record is next.
    Now,
    /// The record waits; examine another.
    Later,
}

/// The lanes of all ports.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    round: u64,
    looked: u32,
    /// Ports with parked records; those to serve in this round come first.
    line: VecDeque<usize>,
    /// Number of these ports still to serve in this round.
    to_serve: usize,
    /// Whether the first port is in the middle of its turn.
    serving: bool,
    /// End of each record since the oldest that occupies the ring, and whether it is
    /// processed; empty while nothing is parked.
    holding: VecDeque<(u64, bool)>,
    /// Number of the first entry.
    first: u64,
    released: u64,
}

impl Lanes {
    /// Lanes for `ports` ports.
    pub fn new(ports: usize) -> Self {
        Self {
            lanes: (0..ports).map(|_| Lane::default()).collect(),
            round: 1,
            looked: 0,
            line: VecDeque::new(),
            to_serve: 0,
            serving: false,
            holding: VecDeque::new(),
            first: 0,
            released: 0,
        }
    }

    /// Whether to examine a new record now: only between the turns of ports with parked
    /// records, so that an idle port waits for at most one of them.
    pub fn looks_ahead(&self) -> bool {
        !self.serving && self.looked < LOOK_AHEAD
    }

    /// Examines the record of `port` from `record` to `end`.
    pub fn look(&mut self, port: usize, record: u64, end: u64) -> Turn {
        self.looked += 1;
        let lane = &mut self.lanes[port];
        if lane.round != self.round {
            lane.round = self.round;
            lane.taken = 0;
        }
        let now = lane.taken < TURN && lane.parked.is_empty();
        if now {
            lane.taken += 1;
            if self.holding.is_empty() {
                self.released = end;
            } else {
                self.holding.push_back((end, true));
            }
            return Turn::Now;
        }
        let number = self.first + self.holding.len() as u64;
        self.holding.push_back((end, false));
        if lane.parked.is_empty() {
            self.line.push_back(port);
        }
        lane.parked.push_back(Parked { record, number });
        Turn::Later
    }

    /// Skips a record that belongs to no port.
    pub fn skip(&mut self, end: u64) {
        match self.holding.is_empty() {
            true => self.released = end,
            false => self.holding.push_back((end, true)),
        }
    }

    /// The port and start of the next parked record; `None` if none is parked. Call this if
    /// no new record exists or may be examined.
    pub fn parked(&mut self) -> Option<(usize, u64)> {
        if !self.serving {
            self.looked = 0;
            if self.to_serve == 0 {
                self.round += 1;
                self.to_serve = self.line.len();
            }
        }
        let port = *self.line.front()?;
        self.serving = true;
        let lane = &mut self.lanes[port];
        if lane.round != self.round {
            lane.round = self.round;
            lane.taken = 0;
        }
        lane.taken += 1;
        let Parked { record, number } = lane.parked.pop_front()?;
        if lane.parked.is_empty() || lane.taken >= TURN {
            self.serving = false;
            self.to_serve -= 1;
            self.line.pop_front();
            if !lane.parked.is_empty() {
                self.line.push_back(port);
            }
        }
        self.holding[(number - self.first) as usize].1 = true;
        Some((port, record))
    }

    /// Whether nothing is parked.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Position up to which the ring's memory can be released. Call this after the last
    /// returned record is processed.
    pub fn released(&mut self) -> u64 {
        while let Some((end, true)) = self.holding.front() {
            self.released = *end;
            self.first += 1;
            self.holding.pop_front();
        }
        self.released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returned records by port and number, for `records` of length 1 in the ring.
    fn drain(lanes: &mut Lanes, records: &[usize], at: &mut u64, most: usize) -> Vec<(usize, u64)> {
        let mut out = Vec::new();
        while out.len() < most {
            if lanes.looks_ahead() && (*at as usize) < records.len() {
                let port = records[*at as usize];
                *at += 1;
                if lanes.look(port, *at - 1, *at) == Turn::Now {
                    out.push((port, *at - 1));
                }
            } else if let Some(next) = lanes.parked() {
                out.push(next);
            } else if *at as usize == records.len() && lanes.is_empty() {
                break;
            }
            assert!(lanes.released() <= *at);
        }
        out
    }

    #[test]
    fn without_a_flood_the_order_is_that_of_arrival() {
        let records: Vec<usize> = (0..100).map(|i| i % 4).collect();
        let mut lanes = Lanes::new(4);
        let out = drain(&mut lanes, &records, &mut 0, usize::MAX);
        assert!(out.iter().enumerate().all(|(i, (_, record))| i as u64 == *record));
        assert_eq!((lanes.released(), lanes.holding.capacity()), (100, 0));
    }

    #[test]
    fn a_flood_waits_for_its_neighbours_and_stays_in_order() {
        // 5,000 frames of a flood, followed by one of another port.
        let mut records = vec![0; 5_000];
        records.push(1);
        let mut lanes = Lanes::new(2);
        let out = drain(&mut lanes, &records, &mut 0, usize::MAX);
        let place = out.iter().position(|(port, _)| *port == 1).unwrap();
        assert!(place < 500, "the neighbour's was number {place}");
        let flood: Vec<u64> = out.iter().filter(|o| o.0 == 0).map(|o| o.1).collect();
        assert!(flood.is_sorted() && flood.len() == 5_000);
        assert_eq!(lanes.released(), 5_001, "all room is given back");
    }

    #[test]
    fn floods_take_turns() {
        let records: Vec<usize> = [[0; 3_000], [1; 3_000], [2; 3_000]].concat();
        let mut lanes = Lanes::new(3);
        let out = drain(&mut lanes, &records, &mut 0, usize::MAX);
        assert_eq!(out.len(), 9_000);
        // Once all three have been seen, none is served more than one turn ahead of the
        // others.
        let seen = out.iter().position(|(port, _)| *port == 2).unwrap();
        let mut run = 0;
        for pair in out[seen..seen + 3_000].windows(2) {
            run = if pair[0].0 == pair[1].0 { run + 1 } else { 0 };
            assert!(run < 2 * TURN, "{run} in a row");
        }
    }

    #[test]
    fn among_many_floods_a_quiet_port_waits_for_one_turn() {
        let floods = 50;
        let mut records: Vec<usize> = (0..floods).flat_map(|port| [port; 500]).collect();
        let mut lanes = Lanes::new(floods + 1);
        let mut at = 0;
        // All have been seen, and most are parked.
        drain(&mut lanes, &records, &mut at, 15_000);
        assert_eq!(at as usize, records.len());
        records.push(floods);
        let out = drain(&mut lanes, &records, &mut at, TURN as usize + 1);
        assert!(out.iter().any(|(port, _)| *port == floods), "{out:?}");
    }

    #[test]
    fn room_is_held_for_the_parked_and_given_back_in_order() {
        let mut lanes = Lanes::new(2);
        let records: Vec<usize> = std::iter::repeat_n(0, 80).chain([1]).collect();
        let mut at = 0;
        let out = drain(&mut lanes, &records, &mut at, TURN as usize + 1);
        assert_eq!((out.last(), at), (Some(&(1, 80)), 81));
        assert_eq!(lanes.released(), u64::from(TURN), "the flood's rest lies behind");
        drain(&mut lanes, &records, &mut at, usize::MAX);
        assert_eq!(lanes.released(), 81);
    }
}
