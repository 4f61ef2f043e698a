//! Members that lose far more than the others: a model is as good as it is for all.

use crate::Span;
use crate::conditions::Conditions;
use crate::map::Quantiles;

/// Change of the others' loss from which predictions are made anew.
const MOVED: f64 = 0.02;

/// Members that lose far more than the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bad {
    /// Their share of all members, 0 to 1.
    pub share: f64,
    /// Their loss, and that of the others, 0 to 1.
    pub loss: [f64; 2],
    /// How much longer their round trip is.
    pub farther: Span,
}

impl Bad {
    /// Conditions of these members, and of the others.
    pub(super) fn conditions(&self, here: &Conditions) -> [Conditions; 2] {
        let [loss, others] = self.loss;
        let own = Conditions { loss, rtt: here.rtt + self.farther, ..*here };
        [own, Conditions { loss: others, ..*here }]
    }

    /// Whether predictions for other ones are valid.
    pub(super) fn is_near(&self, other: &Self, here: &Conditions, moved: f64) -> bool {
        let ([own, _], [known, _]) = (self.conditions(here), other.conditions(here));
        known.distance(&own) < moved && (self.loss[1] - other.loss[1]).abs() < MOVED
    }

    /// The mean over all members.
    pub(super) fn mean(&self, [bad, others]: [Quantiles; 2]) -> Quantiles {
        let mean = |bad: f64, other: f64| self.share * bad + (1.0 - self.share) * other;
        Quantiles {
            p50: mean(bad.p50, others.p50),
            p90: mean(bad.p90, others.p90),
            p99: mean(bad.p99, others.p99),
        }
    }
}
