//! The protocol between the tool on the host and the tool in a guest: JSON, one value per line.

use super::pause::PauseEvent;
use experiment::{Cell, Cpu};
use runner::{Error, Progress};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;
use units::Span;

/// The run that a guest executes. Paths are those in the guest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The experiment file.
    pub file: PathBuf,
    /// The text of the experiment, if it differs from the file's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The working directory of the experiment's programs.
    pub home: PathBuf,
    pub cell: Cell,
    /// The cell's name in the run's files.
    pub name: Cell,
    pub repeat: u32,
    pub seed: u64,
    /// The folder of the run.
    pub folder: PathBuf,
    pub workload: PathBuf,
    pub cpu: Cpu,
    pub capture: bool,
    pub replay: Option<PathBuf>,
    /// The paths in the experiment's `files`, for a guest with its own file system.
    #[serde(skip)]
    pub files: Vec<PathBuf>,
    /// When to pause the run, since the start of the schedule.
    pub stop_at: Option<Span>,
}

/// A message from the tool in the guest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// The progress of the run.
    Progress(Progress),
    /// A message of a paused run.
    Held(PauseEvent),
    /// The run is over, and its folder is written.
    Finished {
        /// Whether the user interrupted it.
        interrupted: bool,
    },
    /// The run failed.
    Failed {
        text: String,
        /// Whether the user interrupted it before it had results.
        interrupted: bool,
        /// Whether other runs would fail for the same reason.
        ends_sweep: bool,
    },
}

impl Message {
    /// The message for `error`.
    pub fn failed(error: &Error) -> Self {
        Self::Failed {
            text: error.to_string(),
            interrupted: error.is_interruption(),
            ends_sweep: error.ends_sweep(),
        }
    }

    /// The message as a line of JSON.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The line that the host sends when the user interrupts the run.
pub(crate) const INTERRUPT: &str = "interrupt";

/// Sends a message to the host: a line on standard output.
pub(super) fn send(message: &Message) {
    // Flushed: standard output is a file or a pipe here, and the host waits for whole lines.
    let mut out = std::io::stdout().lock();
    // A host that has gone ends the guest with it, so an error needs no handling.
    let _ = writeln!(out, "{}", message.line()).and_then(|()| out.flush());
}
