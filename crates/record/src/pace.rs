//! How a load sends, and whether it kept its schedule.

use crate::figure::Part;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a load waits for answers before it sends more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Loop {
    /// It sends on schedule.
    #[default]
    Open,
    /// Each user sends after the answer to its last request.
    Closed,
}

impl Part for Loop {}

/// Whether a sender kept its schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// It did.
    #[default]
    Kept,
    /// The rate was kept, but single requests were late.
    Blurred,
    /// This machine was too slow.
    NotKept,
}

impl Part for Pace {}
