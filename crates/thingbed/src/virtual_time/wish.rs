//! What a user whose run stands still at a moment of virtual time wants: JSON, a line each, to
//! the guest.

use serde::{Deserialize, Serialize};

/// The next thing that the guest is to do. Until it comes, no time passes there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wish {
    /// Open a shell in this node, for a terminal of so many rows and columns.
    Shell { node: String, rows: u16, columns: u16 },
    /// This was typed.
    Keys(Vec<u8>),
    /// The terminal has another size.
    Size { rows: u16, columns: u16 },
    /// Let so much time pass, in ns, and stand still again.
    Pass(u64),
    /// Go on with the run.
    Go,
    /// End it.
    End,
}

/// What the guest says to such a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Held {
    /// Time stands still, so many ns after the start of the schedule; what next?
    At(u64),
    /// The shell, and all other programs, wait; what is typed next?
    Waits,
    /// The shell printed this.
    Printed(Vec<u8>),
    /// The shell has ended.
    Left,
    /// It could not be started.
    Failed(String),
}
