//! Explanation of the current model, as text.

use crate::conditions::Conditions;
use crate::estimate::Estimate;
use crate::model::ModelId;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::policy::Decision;
use crate::switch::MemberId;
use alloc::collections::BTreeMap;
use core::fmt;

/// Explains which model a session uses and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The model; during a change the new one.
    pub model: ModelId,
    /// Whether members are changing to it.
    pub changing: bool,
    /// Assumed and estimated conditions.
    pub conditions: Conditions,
    /// Whether multicast works, as far as known.
    pub multicast: bool,
    /// Members that lose far more frames than the others, and their loss, 0 to 1. They have no
    /// influence on the estimate and on the choice of the model.
    pub apart: BTreeMap<MemberId, f64>,
    /// The estimate from traffic.
    pub estimate: Estimate,
    /// The last decision; `None` before the first message.
    pub decision: Option<Decision>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here = &self.conditions;
        writeln!(
            f,
            "{}{}",
            self.model,
            if self.changing { ", members are changing to it" } else { "" }
        )?;
        writeln!(
            f,
            "network: loss {:.1} %, burst length {:.1}, RTT {:.1} ms, {:.0} kbit/s, MTU {:.0} B{}",
            here.loss * 100.0,
            here.burst,
            here.rtt.as_ms(),
            here.rate_bit_s / 1e3,
            here.mtu,
            if self.multicast { "" } else { ", no multicast" },
        )?;
        writeln!(
            f,
            "application: {:.0} B to {:.0} members, {:.2} messages/s; {:.0} frames observed",
            here.payload, here.group, here.messages_s, self.estimate.weight,
        )?;
        if !self.apart.is_empty() {
            let each =
                |(member, loss): (&MemberId, &f64)| format!("{member} ({:.0} %)", loss * 100.0);
            let all: Vec<String> = self.apart.iter().map(each).collect();
            writeln!(f, "members with far more loss than the others: {}", all.join(", "))?;
        }
        match &self.decision {
            None => write!(f, "no message sent yet"),
            Some(decision) => {
                write!(f, "{decision}")?;
                let costs =
                    decision.all.iter().map(|(model, cost)| format!("{model} {cost:.0} ms"));
                let costs = costs.collect::<Vec<_>>().join(", ");
                if costs.is_empty() { Ok(()) } else { write!(f, "\ncosts: {costs}") }
            }
        }
    }
}
