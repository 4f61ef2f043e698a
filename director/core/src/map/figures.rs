//! Figures of a model's performance.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use serde::{Deserialize, Serialize};

/// Quantiles of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Quantiles {
    /// Quantiles of the maximum over independent members: P(max <= t) = P(one <= t)^members.
    pub(crate) fn last_of(&self, members: f64) -> Self {
        let at = |share: f64| self.at(share.powf(1.0 / members.max(1.0)));
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99) }
    }

    /// The value at this share, interpolated between the quantiles over log(1 / (1 - share));
    /// no extrapolation beyond the last one.
    fn at(&self, share: f64) -> f64 {
        let known = [(2_f64, self.p50), (10.0, self.p90), (100.0, self.p99)];
        let at = (1.0 / (1.0 - share).max(0.01)).max(2.0);
        let from = usize::from(at > 10.0);
        let [(low, least), (high, most)] = [known[from], known[from + 1]];
        least + (most - least) * (at / low).ln() / (high / low).ln()
    }
}

/// Performance of a model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Delay in ms: from the planned sending time until the message (and its answer, if the
    /// pattern has one) has arrived.
    pub delay_ms: Quantiles,
    /// Minimum and maximum over repeats; `None` without repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_interval: Option<(Quantiles, Quantiles)>,
    /// Share of delivered messages, 0 to 1.
    pub delivery: f64,
    /// Bytes on the wire per message and member.
    pub bytes: f64,
    /// Energy per message and member, in J; 0 if not measured.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub energy: f64,
    /// Number of measured messages.
    pub messages: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Figures {
    /// Combines repeated measurements of a model at one point: the means, and the delay's
    /// minimum and maximum. `runs` must not be empty.
    pub fn of_repeats(runs: &[Self]) -> Self {
        let count = runs.len().max(1) as f64;
        let mean = |of: &dyn Fn(&Self) -> f64| runs.iter().map(of).sum::<f64>() / count;
        let fold = |start: f64, with: fn(f64, f64) -> f64| {
            let all = |of: &dyn Fn(&Self) -> f64| runs.iter().map(of).fold(start, with);
            Quantiles {
                p50: all(&|run| run.delay_ms.p50),
                p90: all(&|run| run.delay_ms.p90),
                p99: all(&|run| run.delay_ms.p99),
            }
        };
        Self {
            delay_ms: Quantiles {
                p50: mean(&|run| run.delay_ms.p50),
                p90: mean(&|run| run.delay_ms.p90),
                p99: mean(&|run| run.delay_ms.p99),
            },
            delay_interval: (runs.len() > 1)
                .then(|| (fold(f64::INFINITY, f64::min), fold(0.0, f64::max))),
            delivery: mean(&|run| run.delivery),
            bytes: mean(&|run| run.bytes),
            energy: mean(&|run| run.energy),
            messages: runs.iter().map(|run| run.messages).sum(),
        }
    }
}
