//! Resources of devices and their service times.

use crate::arguments::ParseError;
use crate::distribution::Distribution;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, BufRead};
use std::str::FromStr;

/// How a device spends the service time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Sleeps, as if waiting for a sensor.
    #[default]
    Sleep,
    /// Uses the CPU: the service time is CPU time, whatever the wall-clock time.
    Busy,
}

/// A resource of a device. A line of a resource file is `0, resource123, sleep, exponential:5ms`:
/// device number or `*` for all, path, mode, distribution of service times.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Device number; none is any device.
    pub device: Option<u32>,
    /// Path without the leading slash.
    pub path: String,
    /// How the service time is spent.
    pub mode: Mode,
    /// Service time.
    pub time: Distribution,
}

/// Why a resource file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// Cannot read the file.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Invalid line.
    #[error("line {line}: {why}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sleep" => Ok(Self::Sleep),
            "busy" => Ok(Self::Busy),
            _ => Err(format!("`{text}` is not a mode; use sleep or busy")),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sleep => "sleep",
            Self::Busy => "busy",
        })
    }
}

impl FromStr for Resource {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = |why: String| ParseError { text: text.to_owned(), why };
        // The distribution is last, because it may contain commas.
        let parts: Vec<&str> = text.splitn(4, ',').map(str::trim).collect();
        let [device, path, mode, time] = parts[..] else {
            return Err(error(
                "write device, path, mode and service time, as in \
                              `0, resource123, sleep, exponential:5ms`"
                    .to_owned(),
            ));
        };
        let device = match device {
            "*" => None,
            number => Some(number.parse().map_err(|_| {
                error(format!("`{number}` is not a device number, and not `*` for all"))
            })?),
        };
        let mode = mode.parse().map_err(error)?;
        let path = path.strip_prefix('/').unwrap_or(path).to_owned();
        Ok(Self { device, path, mode, time: time.parse()? })
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device {
            Some(device) => write!(f, "{device}")?,
            None => f.write_str("*")?,
        }
        write!(f, ", {}, {}, {}", self.path, self.mode, self.time)
    }
}

/// Reads a resource file; skips empty lines and lines that start with `#`.
pub fn read_resources(input: impl BufRead) -> Result<Vec<Resource>, ResourceError> {
    let mut resources = Vec::new();
    for (at, line) in input.lines().enumerate() {
        let line = line?;
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let read = text.parse();
        let wrong =
            |error: ParseError| ResourceError::Line { line: at + 1, why: error.to_string() };
        resources.push(read.map_err(wrong)?);
    }
    Ok(resources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back_as_written() {
        let text =
            "# of two devices\n0, /a, sleep, gamma:mean=5ms,shape=2\n*, b, busy, constant:1ms\n";
        let resources = read_resources(text.as_bytes()).unwrap();
        assert_eq!(resources[0].to_string(), "0, a, sleep, gamma:mean=5ms,shape=2");
        assert_eq!(resources[1].to_string(), "*, b, busy, constant:1ms");
        assert_eq!(resources[1].to_string().parse::<Resource>().unwrap(), resources[1]);
    }

    #[test]
    fn mistakes_have_their_line() {
        let why = |text: &str| read_resources(text.as_bytes()).unwrap_err().to_string();
        assert!(why("\n0, a, sleep").starts_with("line 2: "));
        assert!(why("0, a, idle, constant:1ms").contains("use sleep or busy"));
        assert!(why("x, a, sleep, constant:1ms").contains("not a device number"));
    }
}
