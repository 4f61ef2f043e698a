//! A planned node that is a machine.

use record::spec::ConsoleStep;
use serde::{Deserialize, Serialize};

/// A machine: an emulator or a firmware, run as a program on a terminal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedMachine {
    /// The program and its arguments, with placeholders.
    pub argv: Vec<String>,
    /// Names of the TAPs that are its interfaces, in the order of the node's links. Empty for a
    /// firmware that uses the node's own interfaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taps: Vec<String>,
    /// Name of the tunnel through which a firmware has the addresses of the node's only link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tun: Option<String>,
    /// Whether the machine is an emulated one, with a serial line as its console.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_emulated: bool,
    /// What to enter on its console, with placeholders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ConsoleStep>,
}
