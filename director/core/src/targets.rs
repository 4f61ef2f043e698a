//! Message pattern and quality-of-service targets of a session.

use crate::Span;
use serde::{Deserialize, Serialize};

/// Communication pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One client, one server, one answer per request.
    RequestResponse,
    /// One to many, without answers.
    PublishSubscribe,
    /// One to many; every member answers.
    PublishCollect,
    /// One to one of many members in turn, with an answer from each.
    RouterDealer,
}

impl Pattern {
    /// Whether messages have answers.
    pub fn is_answered(self) -> bool {
        self != Self::PublishSubscribe
    }

    /// Whether each message goes to all members.
    pub fn is_to_all(self) -> bool {
        matches!(self, Self::PublishSubscribe | Self::PublishCollect)
    }
}

/// Quality-of-service targets of a session; an unset target is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QosTargets {
    /// Deadline for a message (and its answer, if the pattern has one).
    pub deadline: Option<Span>,
    /// Minimum share of delivered messages, 0 to 1.
    pub delivery_ratio: Option<f64>,
    /// Maximum bytes on the wire per message and member.
    pub data_budget: Option<f64>,
    /// Maximum energy per message and member, in J.
    pub energy: Option<f64>,
}
