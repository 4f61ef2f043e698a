//! Turns for the ports of one ring: a port that floods waits for the others.
//!
//! Pure: it is told which port each record is of, in order, and says which record
//! is next. Records of one port stay in order. While no port gives more than its
//! turn, that is the order in which they came, and nothing is kept.

use super::TURN;
use std::collections::VecDeque;

/// New records looked at between two turns of parked ones.
const LOOK_AHEAD: u32 = 1_024;

/// A record that waits its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parked {
    /// Where it begins in the ring.
    record: u64,
    /// Its place in the line of those that hold room.
    number: u64,
}

#[derive(Debug, Default)]
struct Lane {
    parked: VecDeque<Parked>,
    /// The round of the last record, and how many were taken in it.
    round: u64,
    taken: u32,
}

/// What becomes of a record that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is next.
    Now,
    /// It waits; look at another.
    Later,
}

/// The lanes of all ports.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    round: u64,
    looked: u32,
    /// Ports with parked records, those to be served in this round first.
    line: VecDeque<usize>,
    /// How many of them are still to be served in this round.
    to_serve: usize,
    /// Whether the first of them is in the middle of its turn.
    serving: bool,
    /// The end of each record since the oldest that holds its room, and whether it
    /// is done with; empty while nothing is parked.
    holding: VecDeque<(u64, bool)>,
    /// The number of the first of them.
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

    /// Whether a new record may be looked at now: between the turns of ports with
    /// parked ones, so that a quiet port waits for one of them at most.
    pub fn looks_ahead(&self) -> bool {
        !self.serving && self.looked < LOOK_AHEAD
    }

    /// Looks at the record of `port` that lies from `record` to `end`.
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

    /// Skips what is of no port.
    pub fn skip(&mut self, end: u64) {
        match self.holding.is_empty() {
            true => self.released = end,
            false => self.holding.push_back((end, true)),
        }
    }

    /// When no new record is there or may be looked at: the port and the place of
    /// the parked record whose turn it is. Nothing when none is parked.
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

    /// Up to where room can be given back. To be asked when the record given last
    /// is done with.
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

    /// What comes out, by port and number, when `records` are in the ring, each of
    /// length 1.
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
        // 5,000 frames of a flood, and one of a neighbour behind them.
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
        // Once all three have been seen, none is served more than a turn before
        // the others are.
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
        // All have been seen, and are parked for the most part.
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
