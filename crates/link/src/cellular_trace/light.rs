//! Recorded trains of packets on a link under light load.

use super::file::{CellularTraceError, lines, text_of};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{Instant, Span};

/// Recorded trains of packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "PathBuf", into = "PathBuf")]
pub struct LightTrace {
    /// Path of the file.
    pub file: PathBuf,
    /// Not stored with a plan; the file path is.
    recording: Arc<Recording>,
}

/// The content of a file of trains.
// With `Eq`, links that share it compare only its address.
#[derive(Debug, Default, PartialEq, Eq)]
struct Recording {
    /// In order of time.
    trains: Vec<RecordedTrain>,
    /// Arrivals of packets after that of the first one of their train, in ms; ascending in a train.
    opportunities_ms: Vec<u32>,
}

/// A recorded train of packets.
#[derive(Debug, PartialEq, Eq)]
struct RecordedTrain {
    /// Time of its first packet, in ms since the start of the trace.
    at_ms: u32,
    /// Delay of its first packet, in ms.
    base_delay_ms: u32,
    /// End of its opportunities in those of the recording.
    end: usize,
}

impl From<PathBuf> for LightTrace {
    /// A trace whose file is not read yet.
    fn from(file: PathBuf) -> Self {
        Self { file, recording: Arc::default() }
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
        let Recording { mut trains, mut opportunities_ms } = Recording::default();
        for (number, text) in lines(text) {
            let wrong = |why| CellularTraceError::Line { file: file.to_owned(), line: number, why };
            let train = read_train(text, &mut opportunities_ms).map_err(wrong)?;
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
            _ => {
                let recording = Arc::new(Recording { trains, opportunities_ms });
                Ok(Self { file: file.to_owned(), recording })
            }
        }
    }

    /// The recorded train that one which begins at `now` follows, and its base delay. Between two
    /// recorded trains the delay is interpolated, in whole milliseconds as in CellReplay.
    pub(super) fn at(&self, now: Instant) -> Option<(usize, Span)> {
        let trains = &self.recording.trains[..];
        let [.., end] = trains else { return None };
        let ms = now.as_ns() / 1_000_000 % u64::from(end.at_ms).max(1);
        let begun = trains.partition_point(|train| u64::from(train.at_ms) <= ms);
        let recorded = begun.saturating_sub(1);
        let [before, after] = trains.get(recorded..recorded + 2)? else { return None };
        let [from, to, ms] = [before.at_ms.into(), after.at_ms.into(), i128::from(ms)];
        let [low, high] = [before, after].map(|train| i128::from(train.base_delay_ms));
        let gap = (to - from).max(1);
        let delay = (low * gap + (high - low) * (ms - from).clamp(0, gap)) / gap;
        Some((recorded, Span::from_ms(delay as u64)))
    }

    /// The opportunities of a recorded train, in ms after its first packet.
    pub(super) fn opportunities_ms(&self, recorded: usize) -> &[u32] {
        let Recording { trains, opportunities_ms } = &*self.recording;
        let end = |train: Option<&RecordedTrain>| train.map_or(0, |train| train.end);
        let begin = end(recorded.checked_sub(1).and_then(|before| trains.get(before)));
        opportunities_ms.get(begin..end(trains.get(recorded))).unwrap_or_default()
    }

    /// Text for people, as [`Trace::text`](crate::trace::Trace::text).
    pub(super) fn text(&self) -> String {
        let delays = || self.recording.trains.iter().map(|train| train.base_delay_ms);
        let file = self.file.display();
        match (delays().min(), delays().max()) {
            (Some(least), Some(most)) if least < most => {
                format!("{file} (base delay {least} to {most} ms)")
            }
            (Some(least), _) => format!("{file} (base delay {least} ms)"),
            (None, _) => file.to_string(),
        }
    }
}

/// Reads a line: adds its opportunities, and returns its train.
fn read_train(text: &str, opportunities_ms: &mut Vec<u32>) -> Result<RecordedTrain, String> {
    let wrong = || not_a_train(text);
    let mut numbers = text.split_whitespace().map(|number| number.parse().map_err(|_| wrong()));
    let at_ms = numbers.next().ok_or_else(wrong)??;
    let base_delay_ms = numbers.next().ok_or_else(wrong)??;
    let begin = opportunities_ms.len();
    for number in numbers {
        opportunities_ms.push(number?);
    }
    let end = opportunities_ms.len();
    // Packets of a recorded train may have overtaken each other.
    opportunities_ms[begin..].sort_unstable();
    match end > begin {
        true => Ok(RecordedTrain { at_ms, base_delay_ms, end }),
        false => Err(wrong()),
    }
}

fn not_a_train(text: &str) -> String {
    let text: String = text.chars().take(20).collect();
    format!(
        "`{text}` is not a train; a line has the time, the base delay and one or more opportunities, \
         in whole milliseconds, such as `200 23 0 0 4`"
    )
}
