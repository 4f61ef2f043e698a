//! Whether another model is worth a change.

use super::{Policy, Reason};
use crate::Instant;
use crate::model::ModelId;

/// Ratio of the costs of two models, both longer than the lifetime of messages, from which one is better.
const FAR_MORE: f64 = 2.0;
/// Predictions are not as wrong as this share of the cost (decision 101).
const FAR_BETTER: f64 = 0.4;

impl Policy {
    /// Compares the cheapest model and its `cost` with the `own` cost of the one in use, if that is known.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        model: ModelId,
        cost: f64,
        own: Option<f64>,
        urgent: bool,
    ) -> Reason {
        if model == self.current {
            self.challenger = None;
            return Reason::Best;
        }
        // Messages end before they arrive under both: only what carries far more is better (decision 157).
        if own.is_some_and(|own| cost > self.lifetime_ms.max(own / FAR_MORE)) {
            self.challenger = None;
            return Reason::SmallGain;
        }
        // A model in use without a known cost is always worth replacing.
        let enough =
            own.is_none_or(|own| cost + self.settings.switch_ms < own * (1.0 - self.least_gain()));
        let in_time = own.is_some_and(|own| cost <= self.lifetime_ms && self.lifetime_ms < own);
        // That they are is a prediction too.
        let in_time = in_time && !self.is_wide();
        // One member that is cut off misses deadlines under each model: also an urgent change needs a gain.
        if urgent && (enough || in_time) {
            return Reason::Urgent;
        }
        if !enough {
            self.challenger = None;
            return Reason::SmallGain;
        }
        let times = match self.challenger {
            Some((known, times)) if known == model => times + 1,
            _ => 1,
        };
        self.challenger = Some((model, times));
        // Before enough was observed, the cost of the model in use is a prediction too.
        let far = own.is_none_or(|own| cost < own * FAR_BETTER);
        let unobserved = self.observed < self.settings.observed && !far;
        if times < self.settings.sustained || unobserved {
            Reason::NotSustained
        } else if now < self.since + self.settings.dwell && self.since > Instant::START {
            Reason::Dwelling
        } else {
            Reason::Gain
        }
    }
}
