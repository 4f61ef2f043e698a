//! Fault injection into nodes' programs.

use serde::{Deserialize, Serialize};
use std::fmt;
use units::Span;

/// A fault injected into nodes' programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// Time, from the start of the schedules.
    pub at: Span,
    /// Kind of fault.
    pub what: PlannedFaultKind,
    /// Affected nodes.
    pub nodes: Vec<String>,
}

/// Kinds of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedFaultKind {
    /// Kills all programs at once.
    Kill,
    /// Terminates the `run` program.
    Stop,
    /// Starts the `run` program, if it is not running.
    Start,
    /// Terminates the `run` program and starts it again.
    Restart,
    /// Freezes all programs.
    Pause,
    /// Resumes all programs.
    Resume,
}

impl PlannedFaultKind {
    /// Whether the node needs a `run` program.
    pub fn starts(self) -> bool {
        matches!(self, Self::Start | Self::Stop | Self::Restart)
    }
}

impl fmt::Display for PlannedFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Restart => "restart",
            Self::Pause => "pause",
            Self::Resume => "resume",
        })
    }
}
