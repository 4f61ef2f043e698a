//! What befalls nodes' programs.

use serde::{Deserialize, Serialize};
use std::fmt;
use units::Span;

/// Something that befalls nodes' programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// When, from the start of the schedules.
    pub at: Span,
    /// What.
    pub what: PlannedFaultKind,
    /// The nodes.
    pub nodes: Vec<String>,
}

/// What can befall a node's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedFaultKind {
    /// All of them are killed at once.
    Kill,
    /// The node's own is asked to end.
    Stop,
    /// The node's own is started, if it does not run.
    Start,
    /// The node's own is asked to end, and started again.
    Restart,
    /// All of them stand still.
    Pause,
    /// All of them go on.
    Resume,
}

impl PlannedFaultKind {
    /// Whether it needs a program of the node's own.
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
