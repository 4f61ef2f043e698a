//! Delays by the size of packets.

use super::file::{CellularTraceError, lines, text_of};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes from one line of a file of delays by size to the next.
const SIZE_STEP: u64 = 100;

/// The largest delay by size, in ms.
const MAX_SIZE_DELAY: f64 = 60_000.0;

/// Delay by the size of packets, which is added to the base delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "PathBuf", into = "PathBuf")]
pub struct SizeDelays {
    /// Path of the file.
    pub file: PathBuf,
    /// For 100 B, 200 B and so on, in ms.
    ms: Arc<[f64]>,
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
    pub(super) fn of(&self, bytes: u64) -> f64 {
        let (place, rest) = ((bytes / SIZE_STEP) as usize, (bytes % SIZE_STEP) as f64);
        let at = |place: usize| self.ms.get(place.min(self.ms.len().saturating_sub(1))).copied();
        let low = at(place.saturating_sub(1)).unwrap_or_default();
        let share = if place == 0 { 0.0 } else { rest / SIZE_STEP as f64 };
        (low + share * (at(place).unwrap_or_default() - low)).round()
    }
}
