//! Why a session uses the model that it uses, in words.

use crate::conditions::Conditions;
use crate::estimate::Estimate;
use crate::model::ModelId;
use crate::policy::Decision;
use std::fmt;

/// Why a session uses the model that it uses.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The model, the newer one while it changes.
    pub model: ModelId,
    /// Whether members are going over to it.
    pub changing: bool,
    /// What the network is taken to be like.
    pub conditions: Conditions,
    /// Whether multicast gets through, as far as is known.
    pub multicast: bool,
    /// What was seen of it.
    pub estimate: Estimate,
    /// The last choice; none while nothing was sent.
    pub decision: Option<Decision>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here = &self.conditions;
        writeln!(
            f,
            "{}{}",
            self.model,
            if self.changing { ", members are going over" } else { "" }
        )?;
        writeln!(
            f,
            "network: {:.1} % lost, {:.1} in a row, round trip {:.1} ms, {:.0} kbit/s, packets of {:.0} B{}",
            here.loss * 100.0,
            here.burst,
            here.rtt_ns as f64 / 1e6,
            here.rate_bit_s / 1e3,
            here.mtu,
            if self.multicast { "" } else { ", no multicast" },
        )?;
        writeln!(
            f,
            "application: {:.0} B to {:.0}, {:.2} a second; {:.0} frames seen",
            here.payload, here.group, here.messages_s, self.estimate.weight,
        )?;
        match &self.decision {
            None => write!(f, "nothing was sent yet"),
            Some(decision) => {
                write!(f, "{decision}")?;
                let costs =
                    decision.all.iter().map(|(model, cost)| format!("{model} {cost:.0} ms"));
                let costs = costs.collect::<Vec<_>>().join(", ");
                if costs.is_empty() { Ok(()) } else { write!(f, "\nall: {costs}") }
            }
        }
    }
}
