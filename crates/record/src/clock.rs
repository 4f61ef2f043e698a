//! The clock of a run, and the CPU speed of its programs in virtual time.

use crate::word::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The clock of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The machine's clock: results include the machine's own processing time.
    #[default]
    Real,
    /// The clock of a guest kernel, in which programs cost no time.
    Virtual,
}

words!(Clock, "a clock": "real" => Self::Real, "virtual" => Self::Virtual);

impl FromStr for Clock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::WORDS.iter().find(|(word, _)| *word == text);
        found
            .map(|(_, clock)| *clock)
            .ok_or(format!("`{text}` is not a clock; use real or virtual"))
    }
}

/// CPU speed of the programs in virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub enum Cpu {
    /// Programs cost no time.
    #[default]
    Infinite,
    /// One processor for all nodes together, in million instructions per second (MIPS).
    Mips(u32),
}

/// Fastest processor, in million instructions per second.
const MAX_MIPS: u32 = 64_000;

impl Cpu {
    /// Whether programs cost no time.
    pub fn is_infinite(self) -> bool {
        self == Self::Infinite
    }
}

/// Formats the speed in thousand million instructions per second.
impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Infinite => f.pad("infinite"),
            Self::Mips(mips) => f.pad(&(f64::from(*mips) / 1e3).to_string()),
        }
    }
}

impl FromStr for Cpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "infinite" {
            return Ok(Self::Infinite);
        }
        let mips = text.parse::<f64>().ok().map(|gips| gips * 1e3);
        // The emulator reaches slower speeds by halving.
        let slow = [125.0, 250.0, 500.0];
        let fits = |mips: &f64| {
            // Whole MIPS, since that is what `Mips` stores.
            mips.fract() == 0.0 && (1e3..=f64::from(MAX_MIPS)).contains(mips) || slow.contains(mips)
        };
        mips.filter(fits).map(|mips| Self::Mips(mips as u32)).ok_or(format!(
            "`{text}` is no CPU; use infinite, or thousand million instructions a second: 0.125, \
             0.25, 0.5, or 1 to {}",
            MAX_MIPS / 1_000
        ))
    }
}

impl From<Cpu> for String {
    fn from(cpu: Cpu) -> Self {
        cpu.to_string()
    }
}

impl TryFrom<String> for Cpu {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_read_and_written_the_same() {
        for text in ["infinite", "8", "1", "0.5", "0.125", "2.5", "64"] {
            assert_eq!(text.parse::<Cpu>().map(String::from), Ok(text.to_owned()));
        }
        assert_eq!("8".parse(), Ok(Cpu::Mips(8_000)));
        for text in ["", "0", "-1", "0.3", "65", "NaN", "inf", "1.0005", "fast"] {
            let error = text.parse::<Cpu>().unwrap_err();
            assert!(error.contains("use infinite"), "{error}");
        }
    }
}
