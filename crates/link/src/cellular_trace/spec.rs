//! Files and settings of a cellular trace, in CellReplay's formats.

use crate::Trace;
use crate::keys::{Contradictions, Key, Kind, Model, time_text};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{Instant, Span};

/// Bytes of an opportunity in both traces: an IP packet and the header of the TUN device
/// (`PACKET_SIZE` in CellReplay's cellular_queue.hh).
pub(super) const OPPORTUNITY: u64 = 1400;
/// Bytes from one line of a file of delays by size to the next.
const SIZE_STEP: u64 = 100;

/// The largest delay by size, in ms.
const MAX_SIZE_DELAY: f64 = 60_000.0;

/// Traces of one direction of a cellular link under light and heavy load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellularTrace {
    /// Base delay and opportunities under light load.
    pub light: LightTrace,
    /// Opportunities under heavy load.
    pub heavy: Trace,
    /// Delay by the size of packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_delays: Option<SizeDelays>,
    /// Time without frames after which a frame begins a new train.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle: Span,
}

fn is_zero(span: &Span) -> bool {
    *span == Span::ZERO
}

/// Recorded trains of packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "PathBuf", into = "PathBuf")]
pub struct LightTrace {
    /// Path of the file.
    pub file: PathBuf,
    /// In order of time. Not stored with a plan; the file path is.
    trains: Arc<[RecordedTrain]>,
}

/// A recorded train of packets.
#[derive(Debug, PartialEq)]
struct RecordedTrain {
    /// Time of its first packet, in ms since the start of the trace.
    at_ms: u32,
    /// Delay of its first packet, in ms.
    base_delay_ms: u32,
    /// Arrivals of its packets after that of the first one, ascending.
    opportunities: Box<[Span]>,
}

/// Delay by the size of packets, which is added to the base delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "PathBuf", into = "PathBuf")]
pub struct SizeDelays {
    /// Path of the file.
    pub file: PathBuf,
    /// For 100 B, 200 B and so on, in ms.
    ms: Arc<[f64]>,
}

/// Why a file of a cellular trace is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CellularTraceError {
    /// The file is not readable.
    #[error("could not read {}: {why}", file.display())]
    Unreadable {
        /// Path of the file.
        file: PathBuf,
        /// The system's error message.
        why: String,
    },
    /// A line is not in the format.
    #[error("{}, line {line}: {why}", file.display())]
    Line {
        /// Path of the file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong and what the line should be.
        why: String,
    },
    /// The lines do not suffice.
    #[error("{} {why}", file.display())]
    TooFew {
        /// Path of the file.
        file: PathBuf,
        /// What is missing.
        why: &'static str,
    },
}

pub(crate) const CELLULAR_TRACE: Model = Model {
    name: "CellularTrace",
    what: "a cellular trace",
    doc: "Traces of a cellular link as CellReplay (NSDI 2025) records them: one for light load and \
          one for heavy load.",
    keys: &[
        Key::new(
            "light",
            Kind::File,
            "Base delay and opportunities under light load. Each line is a recorded train of \
             packets: its time, its base delay and its opportunities of up to 1,400 B, which count \
             from its first packet, all in ms. The last line only ends the trace, which then \
             repeats. Values: path.",
        )
        .required(),
        Key::new(
            "heavy",
            Kind::File,
            "Opportunities under heavy load: a file as for `trace`, with up to 1,400 B each time. \
             Values: path.",
        )
        .required(),
        Key::new(
            "size_delays",
            Kind::File,
            "Delay by packet size, added to the base delay: lines such as `100 -1.5`, with a size in \
             bytes (100, 200 and so on) and a time in ms. Values: path.",
        ),
        Key::new(
            "idle",
            Kind::Time,
            "How long after the last frame of a train a frame begins a new one, apart from the base \
             delay. Default: 0 s.",
        ),
    ],
};

impl CellularTrace {
    /// Mean rate under heavy load in bit/s.
    pub fn mean_bit_s(&self) -> f64 {
        self.heavy.mean_bit_s()
    }

    /// Text for people.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "light trace {} (base delay {}), heavy trace {} ({:.0} kbit/s)",
            self.light.file.display(),
            self.light.delays_text(),
            self.heavy.file.display(),
            self.mean_bit_s() / 1e3
        );
        if let Some(delays) = &self.size_delays {
            text += &format!(", delays by size {}", delays.file.display());
        }
        if self.idle != Span::ZERO {
            text += &format!(", a new train after {}", time_text(self.idle));
        }
        text
    }

    /// Reads the files, relative to `base`; `None` if one is not usable.
    pub(crate) fn load(&self, base: &Path, found: &mut Contradictions) -> Option<Self> {
        let mut report = |key: &str, error: String, format: &str| {
            let fix = format!(
                "a file in the format of CellReplay: {format}; paths are relative to this file"
            );
            found.add(format!("cellular_trace.{key}"), error, fix);
        };
        let light = LightTrace::read(&base.join(&self.light.file));
        let light = light.map_err(|error| report("light", error.to_string(), "recorded trains"));
        let heavy = Trace::read(&base.join(&self.heavy.file));
        let heavy = heavy.map_err(|error| report("heavy", error.to_string(), "one time per line"));
        let sizes =
            self.size_delays.as_ref().map(|sizes| SizeDelays::read(&base.join(&sizes.file)));
        let sizes = sizes.transpose().map_err(|error| {
            report("size_delays", error.to_string(), "a size and a delay per line");
        });
        Some(Self {
            light: light.ok()?,
            heavy: heavy.ok()?.with_opportunity(OPPORTUNITY),
            size_delays: sizes.ok()?,
            idle: self.idle,
        })
    }

    /// Whether the files are the same.
    pub(crate) fn has_files_of(&self, other: &Self) -> bool {
        let sizes = |trace: &Self| trace.size_delays.as_ref().map(|sizes| sizes.file.clone());
        self.light.file == other.light.file
            && self.heavy.file == other.heavy.file
            && sizes(self) == sizes(other)
    }

    /// The time `at`, moved by the delay of a packet of this size.
    pub(super) fn moved(&self, at: Instant, bytes: u64) -> Instant {
        let ms = self.size_delays.as_ref().map_or(0.0, |sizes| sizes.of(bytes));
        let span = Span::from_ms(ms.abs() as u64);
        if ms < 0.0 { at - span } else { at + span }
    }
}

impl From<PathBuf> for LightTrace {
    /// A trace whose file is not read yet.
    fn from(file: PathBuf) -> Self {
        Self { file, trains: Arc::default() }
    }
}

impl From<LightTrace> for PathBuf {
    fn from(trace: LightTrace) -> Self {
        trace.file
    }
}

impl LightTrace {
    /// Reads a file of recorded trains, in the format of CellReplay's generate_short_pdo_trace.py.
    ///
    /// # Errors
    /// If the file is not readable or not a trace.
    pub fn read(file: &Path) -> Result<Self, CellularTraceError> {
        Self::parse(file, &text_of(file)?)
    }

    /// As [`Self::read`], from text.
    ///
    /// # Errors
    /// If the text is not a trace.
    pub fn parse(file: &Path, text: &str) -> Result<Self, CellularTraceError> {
        let mut trains: Vec<RecordedTrain> = Vec::new();
        for (number, text) in lines(text) {
            let wrong = |why| CellularTraceError::Line { file: file.to_owned(), line: number, why };
            let train = RecordedTrain::parse(text).map_err(wrong)?;
            let earlier = trains.last().map_or(0, |train| train.at_ms);
            if train.at_ms < earlier {
                let why = format!("{} ms comes after {earlier} ms; sort the lines", train.at_ms);
                return Err(wrong(why));
            }
            trains.push(train);
        }
        let short = |why| CellularTraceError::TooFew { file: file.to_owned(), why };
        match trains[..] {
            [] | [_] => Err(short("has fewer than two trains; the last one only ends the trace")),
            [.., RecordedTrain { at_ms: 0, .. }] => {
                Err(short("ends at 0 ms, but a trace repeats after its last time"))
            }
            _ => Ok(Self { file: file.to_owned(), trains: trains.into() }),
        }
    }

    /// The recorded train that one which begins at `now` follows, and its base delay. Between two
    /// recorded trains the delay is interpolated, in whole milliseconds as in CellReplay.
    pub(super) fn at(&self, now: Instant) -> Option<(usize, Span)> {
        let [.., end] = &self.trains[..] else { return None };
        let ms = now.as_ns() / 1_000_000 % u64::from(end.at_ms).max(1);
        let begun = self.trains.partition_point(|train| u64::from(train.at_ms) <= ms);
        let recorded = begun.saturating_sub(1);
        let [before, after] = self.trains.get(recorded..recorded + 2)? else { return None };
        let [from, to, ms] = [before.at_ms.into(), after.at_ms.into(), i128::from(ms)];
        let [low, high] = [before, after].map(|train| i128::from(train.base_delay_ms));
        let gap = (to - from).max(1);
        let delay = (low * gap + (high - low) * (ms - from).clamp(0, gap)) / gap;
        Some((recorded, Span::from_ms(delay as u64)))
    }

    /// The opportunities of a recorded train, after its first packet.
    pub(super) fn opportunities(&self, recorded: usize) -> &[Span] {
        self.trains.get(recorded).map_or(&[], |train| &train.opportunities)
    }

    fn delays_text(&self) -> String {
        let delays = || self.trains.iter().map(|train| train.base_delay_ms);
        match (delays().min(), delays().max()) {
            (Some(least), Some(most)) if least < most => format!("{least} to {most} ms"),
            (least, _) => format!("{} ms", least.unwrap_or_default()),
        }
    }
}

impl RecordedTrain {
    fn parse(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u32>> =
            text.split_whitespace().map(|number| number.parse().ok()).collect();
        let Some([at_ms, base_delay_ms, opportunities @ ..]) = numbers.as_deref() else {
            return Err(not_a_train(text));
        };
        if opportunities.is_empty() {
            return Err(not_a_train(text));
        }
        // Packets of a recorded train may have overtaken each other.
        let mut opportunities: Box<[Span]> =
            opportunities.iter().map(|ms| Span::from_ms(u64::from(*ms))).collect();
        opportunities.sort_unstable();
        Ok(Self { at_ms: *at_ms, base_delay_ms: *base_delay_ms, opportunities })
    }
}

fn not_a_train(text: &str) -> String {
    let text: String = text.chars().take(20).collect();
    format!(
        "`{text}` is not a train; a line has the time, the base delay and one or more opportunities, \
         in whole milliseconds, such as `200 23 0 0 4`"
    )
}

impl From<PathBuf> for SizeDelays {
    /// Delays whose file is not read yet.
    fn from(file: PathBuf) -> Self {
        Self { file, ms: Arc::default() }
    }
}

impl From<SizeDelays> for PathBuf {
    fn from(delays: SizeDelays) -> Self {
        delays.file
    }
}

impl SizeDelays {
    /// Reads a file of delays by size.
    ///
    /// # Errors
    /// If the file is not readable or not in the format.
    pub fn read(file: &Path) -> Result<Self, CellularTraceError> {
        Self::parse(file, &text_of(file)?)
    }

    /// As [`Self::read`], from text.
    ///
    /// # Errors
    /// If the text is not in the format.
    pub fn parse(file: &Path, text: &str) -> Result<Self, CellularTraceError> {
        let mut all = Vec::new();
        for (line, text) in lines(text) {
            let size = (all.len() as u64 + 1) * SIZE_STEP;
            let words: Vec<&str> = text.split_whitespace().collect();
            let delay = match words[..] {
                [at, ms] if at.parse() == Ok(size) => {
                    ms.parse().ok().filter(|ms: &f64| ms.abs() <= MAX_SIZE_DELAY)
                }
                _ => None,
            };
            let Some(delay) = delay else {
                let text: String = text.chars().take(20).collect();
                let why = format!("`{text}` is not `{size}` (bytes) and a delay in ms");
                return Err(CellularTraceError::Line { file: file.to_owned(), line, why });
            };
            all.push(delay);
        }
        match all.is_empty() {
            true => Err(CellularTraceError::TooFew { file: file.to_owned(), why: "has no delays" }),
            false => Ok(Self { file: file.to_owned(), ms: all.into() }),
        }
    }

    /// The delay of a packet of this size in ms, rounded as in CellReplay.
    fn of(&self, bytes: u64) -> f64 {
        let (place, rest) = ((bytes / SIZE_STEP) as usize, (bytes % SIZE_STEP) as f64);
        let at = |place: usize| self.ms.get(place.min(self.ms.len().saturating_sub(1))).copied();
        let low = at(place.saturating_sub(1)).unwrap_or_default();
        let share = if place == 0 { 0.0 } else { rest / SIZE_STEP as f64 };
        (low + share * (at(place).unwrap_or_default() - low)).round()
    }
}

/// Lines with text, and their numbers from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(number, text)| (number + 1, text.trim()));
    numbered.filter(|(_, text)| !text.is_empty())
}

fn text_of(file: &Path) -> Result<String, CellularTraceError> {
    input::read_to_string(file, input::MAX_DATA).map_err(|error| CellularTraceError::Unreadable {
        file: file.to_owned(),
        why: error.to_string(),
    })
}
