//! The decision and its reason.

use crate::model::ModelId;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use core::fmt;

/// The action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Keep the model.
    Stay,
    /// Change to this model.
    Change(ModelId),
}

/// A choice and its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The action.
    pub choice: Choice,
    /// The best model now, whether or not a change pays off.
    pub best: Option<ModelId>,
    /// Cost of the current model and of the best one, in ms of delay or an equivalent; `None`
    /// if the map has no prediction.
    pub costs: (Option<f64>, Option<f64>),
    /// Cost of each eligible model, cheapest first.
    pub all: Vec<(ModelId, f64)>,
    /// The reason.
    pub reason: Reason,
}

/// The reason for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The current model is the best.
    Best,
    /// Another is better, but the gain is below the threshold.
    SmallGain,
    /// Another is better, but not for long enough.
    NotSustained,
    /// Another is better, but the last change was too recent.
    Dwelling,
    /// Another is better by enough, and for long enough.
    Gain,
    /// A deadline was missed or no messages arrive, and another is better.
    Urgent,
    /// No eligible model has a known cost.
    Nothing,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |cost: Option<f64>| match cost {
            Some(cost) => format!("{cost:.1} ms"),
            None => "an unknown cost".to_owned(),
        };
        let (own, best) = (ms(self.costs.0), ms(self.costs.1));
        let model = self.best.map_or("no model", ModelId::name);
        match self.reason {
            Reason::Best => write!(f, "the model in use is the best, cost {own}"),
            Reason::SmallGain => {
                write!(f, "{model} would cost {best} instead of {own}: the gain is too small")
            }
            Reason::NotSustained => {
                write!(f, "{model} would cost {best} instead of {own}, but not for long enough")
            }
            Reason::Dwelling => {
                write!(
                    f,
                    "{model} would cost {best} instead of {own}, but the last change is too recent"
                )
            }
            Reason::Gain => write!(f, "change to {model}: cost {best} instead of {own}"),
            Reason::Urgent => {
                write!(f, "urgent change to {model}: cost {best}, the model in use fails")
            }
            Reason::Nothing => write!(f, "no suitable model is known to work on this network"),
        }
    }
}
