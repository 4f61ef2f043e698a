//! What the tool and the tool in a guest tell each other: JSON, a line each.

use super::wish::Held;
use experiment::{Cell, Cpu};
use runner::{Error, Progress};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use units::Span;

/// The run that a guest is to have. Paths are those that the guest sees.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The experiment file.
    pub file: PathBuf,
    /// Programs of the experiment start in its folder.
    pub home: PathBuf,
    pub cell: Cell,
    /// What the run's files call the cell.
    pub name: Cell,
    pub repeat: u32,
    pub seed: u64,
    /// The folder of the run.
    pub folder: PathBuf,
    pub workload: PathBuf,
    pub cpu: Cpu,
    pub capture: bool,
    pub replay: Option<PathBuf>,
    /// What the experiment's `files` names, for a guest with files of its own.
    #[serde(skip)]
    pub files: Vec<PathBuf>,
    /// When the run is to stand still, since the start of the schedule.
    pub stop_at: Option<Span>,
}

/// What the tool in the guest says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// How far the run is.
    Progress(Progress),
    /// What a run that stands still says to the user.
    Held(Held),
    /// The run is over, and its folder is written.
    Finished {
        /// Whether the user ended it.
        interrupted: bool,
    },
    /// The run failed.
    Failed {
        text: String,
        /// Whether the user ended it before there was anything to report.
        interrupted: bool,
        /// Whether other runs would fail likewise.
        ends_sweep: bool,
    },
}

impl Message {
    /// The message that tells of `error`.
    pub fn failed(error: &Error) -> Self {
        Self::Failed {
            text: error.to_string(),
            interrupted: matches!(error, Error::Interrupted),
            ends_sweep: error.ends_sweep(),
        }
    }

    /// The line of it.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The line by which the host says that the user wants it to end.
pub(crate) const INTERRUPT: &str = "interrupt";
