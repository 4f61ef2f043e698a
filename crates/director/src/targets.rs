//! What a session is for, and what it is to reach.

use crate::Nanos;
use serde::{Deserialize, Serialize};

/// Who talks to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One asks one, who answers.
    RequestResponse,
    /// One tells many, who do not answer.
    PublishSubscribe,
    /// One tells many, and all of them answer.
    PublishCollect,
    /// One asks many in turn, each of whom answers.
    RouterDealer,
}

impl Pattern {
    /// Whether messages are answered.
    pub fn is_answered(self) -> bool {
        self != Self::PublishSubscribe
    }

    /// Whether each message is for all members.
    pub fn is_to_all(self) -> bool {
        matches!(self, Self::PublishSubscribe | Self::PublishCollect)
    }
}

/// What a session is to reach; what is not set does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QosTargets {
    /// By when a message (and its answer, where there is one) is to be there, in ns.
    pub deadline_ns: Option<Nanos>,
    /// The share of messages that is to arrive, 0 to 1.
    pub delivery_ratio: Option<f64>,
    /// Bytes on the wire for each message and member at most.
    pub data_budget: Option<f64>,
    /// Energy for each message and member at most, in J.
    pub energy: Option<f64>,
}
