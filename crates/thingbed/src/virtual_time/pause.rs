//! The protocol of a paused run (`--stop-at`): JSON, one value per line.

use serde::{Deserialize, Serialize};

/// A command to the paused guest. Its clock does not move until a command arrives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PauseCommand {
    /// Open a shell in this node, for a terminal of this size.
    Shell { node: String, rows: u16, columns: u16 },
    /// Input for the shell.
    Keys(Vec<u8>),
    /// The terminal has a new size.
    Size { rows: u16, columns: u16 },
    /// Continue for this time in ns, then pause again.
    Pass(u64),
    /// Continue the run.
    Go,
    /// End the run.
    End,
}

/// A message of the paused guest to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PauseEvent {
    /// The run is paused at this time in ns after the start of the schedule; waits for a command.
    At(u64),
    /// The shell and all other programs wait; waits for input.
    Waits,
    /// The shell printed this.
    Printed(Vec<u8>),
    /// The shell has ended.
    Left,
    /// The pause or the shell failed.
    Failed(String),
}
