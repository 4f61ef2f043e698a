//! Links that follow a recorded one: Mahimahi's packet-delivery traces.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{Instant, Span};

/// Bytes per delivery opportunity: an IP packet of 1,500 bytes and the header of the TUN
/// device that Mahimahi reads it from (`PACKET_SIZE` in its link_queue.hh).
const OPPORTUNITY: u64 = 1504;
/// The Ethernet header, present in our frames but not in Mahimahi's packets.
const ETHERNET_HEADER: u64 = 14;
const TUN_HEADER: u64 = 4;
const MS: Span = Span::from_ms(1);

/// A trace of delivery opportunities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "PathBuf", into = "PathBuf")]
pub struct Trace {
    /// Path of the file.
    pub file: PathBuf,
    /// Times of the opportunities, in ms. Not stored with a plan; the file path is.
    at_ms: Arc<[u32]>,
    /// Bytes per opportunity.
    opportunity: u64,
}

/// Why a trace is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The file is not readable.
    #[error("could not read {}: {why}", file.display())]
    Unreadable {
        /// Path of the file.
        file: PathBuf,
        /// The system's error message.
        why: String,
    },
    /// A line contains something other than a time.
    #[error(
        "{}, line {line}: `{text}` is not a time in whole milliseconds; a trace has one per line, \
         each an opportunity to send a packet",
        file.display()
    )]
    NotATime {
        /// Path of the file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The text there.
        text: String,
    },
    /// The times decrease.
    #[error("{}, line {line}: {later} ms comes after {earlier} ms; sort the times", file.display())]
    Unsorted {
        /// Path of the file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The previous time.
        earlier: u32,
        /// The time there.
        later: u32,
    },
    /// The file has no times.
    #[error("{} has no times", file.display())]
    Empty {
        /// Path of the file.
        file: PathBuf,
    },
    /// The trace has no length and cannot repeat.
    #[error("{} ends at 0 ms, but a trace repeats after its last time", file.display())]
    NoLength {
        /// Path of the file.
        file: PathBuf,
    },
}

impl From<PathBuf> for Trace {
    /// A trace whose file is not read yet.
    fn from(file: PathBuf) -> Self {
        Self { file, at_ms: Arc::default(), opportunity: OPPORTUNITY }
    }
}

impl From<Trace> for PathBuf {
    fn from(trace: Trace) -> Self {
        trace.file
    }
}

impl Trace {
    /// Reads a file in Mahimahi's format: each line is the time in ms of an opportunity to
    /// deliver 1504 bytes; times must not decrease. The trace repeats after its last time.
    ///
    /// # Errors
    /// If the file is not readable or not a trace.
    pub fn read(file: &Path) -> Result<Self, TraceError> {
        let text = input::read_to_string(file, input::MAX_DATA).map_err(|error| {
            TraceError::Unreadable { file: file.to_owned(), why: error.to_string() }
        })?;
        Self::parse(file, &text)
    }

    /// As [`Self::read`], from text.
    ///
    /// # Errors
    /// If the text is not a trace.
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
            Some(_) => Ok(Self { file, at_ms: at_ms.into(), opportunity: OPPORTUNITY }),
        }
    }

    /// The same times with opportunities of this many bytes, above 0, in place of Mahimahi's.
    pub(crate) fn with_opportunity(self, bytes: u64) -> Self {
        Self { opportunity: bytes, ..self }
    }

    /// Text for people. A live lab describes its links by the names of their files alone.
    pub(crate) fn text(&self) -> String {
        let file = self.file.display();
        match self.at_ms.is_empty() {
            true => file.to_string(),
            false => format!("{file} ({:.0} kbit/s)", self.mean_bit_s() / 1e3),
        }
    }

    /// Mean rate in bit/s.
    pub fn mean_bit_s(&self) -> f64 {
        let length = f64::from(self.at_ms.last().copied().unwrap_or(0)) / 1e3;
        (self.at_ms.len() as u64 * self.opportunity * 8) as f64 / length.max(1e-3)
    }
}

/// Bytes that a frame of `len` bytes, including the Ethernet header, takes of opportunities: those of
/// its IP packet and 4 more, as in Mahimahi.
pub(crate) fn packet_bytes(len: u64) -> u64 {
    len.saturating_sub(ETHERNET_HEADER) + TUN_HEADER
}

/// Position in a trace over time.
#[derive(Debug, Clone)]
pub(crate) struct Follower {
    trace: Trace,
    /// The current opportunity: its number over all repetitions, and its remaining bytes.
    place: u64,
    left: u64,
}

impl Follower {
    pub fn new(trace: Trace) -> Self {
        Self { place: 0, left: trace.opportunity, trace }
    }

    /// Whether this is the trace in use.
    pub fn follows(&self, trace: &Trace) -> bool {
        self.trace == *trace
    }

    /// Departure time of the last byte of a frame of `len` bytes, including the Ethernet
    /// header, that is at the head of the queue at `at` of a clock that starts with the trace. Opportunities
    /// without a queued frame pass unused. As in Mahimahi, the frame takes the bytes of its
    /// IP packet and 4 more.
    pub fn send(&mut self, len: u64, at: Instant) -> Instant {
        let (len, opportunity) = (packet_bytes(len), self.trace.opportunity);
        let all = self.trace.at_ms.len() as u64;
        if all == 0 {
            return at;
        }
        if self.time(self.place) < at {
            self.place = self.first(at);
            self.left = opportunity;
        }
        let mut rest = len;
        while rest > self.left {
            rest -= self.left;
            self.place += 1;
            self.left = opportunity;
        }
        self.left -= rest;
        let done = self.time(self.place);
        if self.left == 0 {
            self.place += 1;
            self.left = opportunity;
        }
        done
    }

    /// Time of the opportunity `place`.
    fn time(&self, place: u64) -> Instant {
        let all = self.trace.at_ms.len() as u64;
        let within = u64::from(self.trace.at_ms[(place % all) as usize]);
        Instant::START + MS * (place / all * self.length() + within)
    }

    /// The first opportunity at or after `at`.
    fn first(&self, at: Instant) -> u64 {
        let ms = at.as_ns().div_ceil(MS.as_ns());
        // Times within a repetition are from 1 to its length: its end is the time of its
        // last opportunity.
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
    use crate::test_times::{at, span};

    fn trace(text: &str) -> Result<Trace, TraceError> {
        Trace::parse(Path::new("a.trace"), text)
    }

    fn follower(text: &str) -> Follower {
        Follower::new(trace(text).unwrap())
    }

    #[test]
    fn each_opportunity_carries_a_frame_with_a_packet_of_1500_bytes() {
        let mut link = follower("2\n5\n5\n10\n");
        let times: Vec<_> = (0..6).map(|_| link.send(1514, at(0)).as_ns() / MS.as_ns()).collect();
        assert_eq!(times, [2, 5, 5, 10, 12, 15], "and starts again after the last");
    }

    #[test]
    fn small_frames_share_one_and_large_ones_take_several() {
        let mut link = follower("2\n5\n10\n");
        assert_eq!(
            [710, 710, 710].map(|len| link.send(len, at(0)).as_ns() / MS.as_ns()),
            [2, 2, 5]
        );
        assert_eq!(
            link.send(3010, at(0)).as_ns() / MS.as_ns(),
            12,
            "908 B at 5, 1504 B at 10, the rest at 2 again"
        );
    }

    #[test]
    fn opportunities_that_find_nothing_pass() {
        let mut link = follower("2\n5\n10\n");
        assert_eq!(link.send(100, Instant::START + 3 * MS).as_ns() / MS.as_ns(), 5);
        assert_eq!(link.send(100, Instant::START + 5 * MS + span(1)).as_ns() / MS.as_ns(), 10);
        assert_eq!(
            link.send(100, Instant::START + 10 * MS).as_ns() / MS.as_ns(),
            10,
            "one that is now is used"
        );
        assert_eq!(
            link.send(100, Instant::START + 1_000_000 * MS + 3 * MS).as_ns() / MS.as_ns(),
            1_000_005
        );
    }

    #[test]
    fn the_throughput_is_the_traces() {
        let mut link = follower("1\n3\n4\n8\n");
        let frames = 100_000;
        let last = (0..frames).map(|_| link.send(1010, at(0))).last().unwrap();
        let got = frames as f64 * 8000.0 / (last.as_ns() as f64 / 1e9);
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
