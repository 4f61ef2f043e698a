//! Nodes' `run` programs.

use crate::program_check::ProgramCheck;
use crate::program_metric::ProgramMetric;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The `run` program of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The program and its arguments; empty for the command of the node's image.
    pub run: Vec<String>,
    /// Variables added to its environment.
    pub env: IndexMap<String, String>,
    /// Readiness condition. `None`: ready as soon as it has started.
    pub ready: Option<Ready>,
    /// Nodes whose programs must be ready before it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Values to find in its output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<ProgramMetric>,
    /// What it must do.
    #[serde(default, skip_serializing_if = "ProgramCheck::is_empty")]
    pub check: ProgramCheck,
}

/// Condition for a node's program to be ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// A process in the node listens on this TCP port.
    Tcp(u16),
    /// A process in the node has bound this UDP port.
    Udp(u16),
    /// Standard output or standard error contains this text.
    Log(String),
    /// The machine has printed this text on its console.
    Console(String),
    /// All steps on the machine's console are done.
    Steps,
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(port) => write!(f, "TCP port {port} listens"),
            Self::Udp(port) => write!(f, "UDP port {port} is bound"),
            Self::Log(text) => write!(f, "its output contains `{text}`"),
            Self::Console(text) => write!(f, "its console shows `{text}`"),
            Self::Steps => write!(f, "the steps on its console are done"),
        }
    }
}
