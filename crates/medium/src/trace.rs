//! A link that carries when a recorded one did: Mahimahi's packet-delivery
//! traces.

use crate::Instant;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that one opportunity carries: an IP packet of 1,500 bytes and the header of the
/// TUN device that Mahimahi reads it from (`PACKET_SIZE` in its link_queue.hh).
const OPPORTUNITY: u64 = 1504;
/// The Ethernet header, which our frames have and Mahimahi's packets do not.
const ETHERNET_HEADER: u64 = 14;
const TUN_HEADER: u64 = 4;
const MS: Instant = 1_000_000;

/// A trace of delivery opportunities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The file.
    pub file: PathBuf,
    /// When the opportunities are, in ms. Not written down with a plan: the file
    /// is.
    #[serde(skip)]
    at_ms: Arc<[u32]>,
}

/// Why a trace cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read.
    #[error("could not read {}: {why}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        why: String,
    },
    /// A line holds something else.
    #[error(
        "{}, line {line}: `{text}` is not a time in whole milliseconds; a trace has one per line, \
         each for the transmission of 1504 B",
        file.display()
    )]
    NotATime {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// Times go back.
    #[error("{}, line {line}: {later} ms comes after {earlier} ms; sort the times", file.display())]
    Unsorted {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The time before.
        earlier: u32,
        /// The time there.
        later: u32,
    },
    /// There is nothing in it.
    #[error("{} has no times", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// It cannot be repeated.
    #[error("{} ends at 0 ms, but a trace repeats after its last time", file.display())]
    NoLength {
        /// The file.
        file: PathBuf,
    },
}

impl Trace {
    /// Reads a file of Mahimahi's format: on each line the time of an opportunity
    /// to deliver 1504 bytes, in ms, not decreasing. It starts again after its
    /// last time.
    ///
    /// # Errors
    /// When it cannot be read or is no trace.
    pub fn read(file: &Path) -> Result<Self, TraceError> {
        let text = std::fs::read_to_string(file).map_err(|error| TraceError::Unreadable {
            file: file.to_owned(),
            why: error.to_string(),
        })?;
        Self::parse(file, &text)
    }

    /// The same from text that has been read.
    ///
    /// # Errors
    /// When it is no trace.
    pub fn parse(file: &Path, text: &str) -> Result<Self, TraceError> {
        let file = file.to_owned();
        let mut at_ms: Vec<u32> = Vec::new();
        for (number, text) in text.lines().map(str::trim).enumerate() {
            let line = number + 1;
            if text.is_empty() {
                continue;
            }
            let Ok(at) = text.parse() else {
                let text = text.chars().take(20).collect();
                return Err(TraceError::NotATime { file, line, text });
            };
            if let Some(earlier) = at_ms.last().copied().filter(|earlier| *earlier > at) {
                return Err(TraceError::Unsorted { file, line, earlier, later: at });
            }
            at_ms.push(at);
        }
        match at_ms.last() {
            None => Err(TraceError::Empty { file }),
            Some(0) => Err(TraceError::NoLength { file }),
            Some(_) => Ok(Self { file, at_ms: at_ms.into() }),
        }
    }

    /// The mean rate in bit/s.
    pub fn mean_bit_s(&self) -> f64 {
        let length = f64::from(self.at_ms.last().copied().unwrap_or(0)) / 1e3;
        (self.at_ms.len() as u64 * OPPORTUNITY * 8) as f64 / length.max(1e-3)
    }
}

/// A trace followed through time.
#[derive(Debug, Clone)]
pub(crate) struct Follower {
    trace: Trace,
    /// The opportunity in use: its number over all rounds, and the bytes left.
    place: u64,
    left: u64,
}

impl Follower {
    pub fn new(trace: Trace) -> Self {
        Self { trace, place: 0, left: OPPORTUNITY }
    }

    /// Whether this is the trace it follows.
    pub fn follows(&self, trace: &Trace) -> bool {
        self.trace == *trace
    }

    /// When the last byte of a frame of `len` bytes leaves, Ethernet header included, that
    /// is at the head of the queue `at` ns after the start; opportunities that find
    /// nothing pass. As in Mahimahi, the frame takes the bytes of its IP packet and 4 more.
    pub fn send(&mut self, len: u64, at: Instant) -> Instant {
        let len = len.saturating_sub(ETHERNET_HEADER) + TUN_HEADER;
        let all = self.trace.at_ms.len() as u64;
        if all == 0 {
            return at;
        }
        if self.time(self.place) < at {
            self.place = self.first(at);
            self.left = OPPORTUNITY;
        }
        let mut rest = len;
        while rest > self.left {
            rest -= self.left;
            self.place += 1;
            self.left = OPPORTUNITY;
        }
        self.left -= rest;
        let done = self.time(self.place);
        if self.left == 0 {
            self.place += 1;
            self.left = OPPORTUNITY;
        }
        done
    }

    /// When the opportunity `place` is, in ns.
    fn time(&self, place: u64) -> Instant {
        let all = self.trace.at_ms.len() as u64;
        let within = u64::from(self.trace.at_ms[(place % all) as usize]);
        (place / all * self.length() + within) * MS
    }

    /// The first opportunity that is not before `at`.
    fn first(&self, at: Instant) -> u64 {
        let ms = at.div_ceil(MS);
        // Times within a round are from 1 to its length: the end of a round is
        // its last opportunity's.
        let round = ms.saturating_sub(1) / self.length();
        let within = ms - round * self.length();
        let place = self.trace.at_ms.partition_point(|time| u64::from(*time) < within);
        round * self.trace.at_ms.len() as u64 + place as u64
    }

    fn length(&self) -> u64 {
        u64::from(self.trace.at_ms.last().copied().unwrap_or(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(text: &str) -> Result<Trace, TraceError> {
        Trace::parse(Path::new("a.trace"), text)
    }

    fn follower(text: &str) -> Follower {
        Follower::new(trace(text).unwrap())
    }

    #[test]
    fn each_opportunity_carries_a_frame_with_a_packet_of_1500_bytes() {
        let mut link = follower("2\n5\n5\n10\n");
        let times: Vec<_> = (0..6).map(|_| link.send(1514, 0) / MS).collect();
        assert_eq!(times, [2, 5, 5, 10, 12, 15], "and starts again after the last");
    }

    #[test]
    fn small_frames_share_one_and_large_ones_take_several() {
        let mut link = follower("2\n5\n10\n");
        assert_eq!([710, 710, 710].map(|len| link.send(len, 0) / MS), [2, 2, 5]);
        assert_eq!(link.send(3010, 0) / MS, 12, "908 B at 5, 1504 B at 10, the rest at 2 again");
    }

    #[test]
    fn opportunities_that_find_nothing_pass() {
        let mut link = follower("2\n5\n10\n");
        assert_eq!(link.send(100, 3 * MS) / MS, 5);
        assert_eq!(link.send(100, 5 * MS + 1) / MS, 10);
        assert_eq!(link.send(100, 10 * MS) / MS, 10, "one that is now is used");
        assert_eq!(link.send(100, 1_000_000 * MS + 3 * MS) / MS, 1_000_005);
    }

    #[test]
    fn the_throughput_is_the_traces() {
        let mut link = follower("1\n3\n4\n8\n");
        let frames = 100_000;
        let last = (0..frames).map(|_| link.send(1010, 0)).last().unwrap();
        let got = frames as f64 * 8000.0 / (last as f64 / 1e9);
        let mean = trace("1\n3\n4\n8\n").unwrap().mean_bit_s();
        assert!((got / mean - 1.0).abs() < 1e-3, "{got} {mean}");
    }

    #[test]
    fn what_is_no_trace_is_said_with_its_line() {
        let say = |text: &str| trace(text).unwrap_err().to_string();
        assert_eq!(say("\n"), "a.trace has no times");
        assert_eq!(say("5\n3\n"), "a.trace, line 2: 3 ms comes after 5 ms; sort the times");
        assert!(say("5\n3.5\n").starts_with("a.trace, line 2: `3.5` is not a time in whole"));
        assert!(say("0\n").starts_with("a.trace ends at 0 ms"));
    }
}
