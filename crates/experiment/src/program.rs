//! The programs that nodes are there for.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The program that a node is there for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The program and its arguments; empty for what the node's image says.
    pub run: Vec<String>,
    /// Variables added to its environment.
    pub env: IndexMap<String, String>,
    /// When it is ready for others; as soon as it has started if none.
    pub ready: Option<Ready>,
}

/// When a node's program is ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// When somebody in the node listens on this TCP port.
    Tcp(u16),
    /// When somebody in the node has bound this UDP port.
    Udp(u16),
    /// When its output or its standard error holds this text.
    Log(String),
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(port) => write!(f, "TCP port {port} listens"),
            Self::Udp(port) => write!(f, "UDP port {port} is bound"),
            Self::Log(text) => write!(f, "its output contains `{text}`"),
        }
    }
}
