//! What is decided, and why.

use crate::model::ModelId;
use std::fmt;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The model stays.
    Stay,
    /// It changes to this one.
    Change(ModelId),
}

/// A choice and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What is to be done.
    pub choice: Choice,
    /// The model that is best now, whether it is worth a change or not.
    pub best: Option<ModelId>,
    /// What the present model costs, and what the best would, in ms of delay or what is
    /// as bad; nothing where the map does not say.
    pub costs: (Option<f64>, Option<f64>),
    /// What each model would cost that may be chosen, the cheapest first.
    pub all: Vec<(ModelId, f64)>,
    /// Why nothing changes, or why now.
    pub why: Why,
}

/// Why a decision is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The present model is the best.
    Best,
    /// Another is better, but not by enough.
    SmallGain,
    /// Another is better, but has not been for long enough.
    NotSustained,
    /// Another is better, but the last change was a moment ago.
    Dwelling,
    /// Another is better by enough, and has been for a while.
    Gain,
    /// A deadline was missed, or nothing came through, and another is better.
    Urgent,
    /// Nothing that is known of would do.
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
        match self.why {
            Why::Best => write!(f, "the model in use is the best, at {own}"),
            Why::SmallGain => {
                write!(f, "{model} would cost {best} in place of {own}: too small a gain")
            }
            Why::NotSustained => {
                write!(f, "{model} would cost {best} in place of {own}, but only of late")
            }
            Why::Dwelling => {
                write!(f, "{model} would cost {best} in place of {own}, right after a change")
            }
            Why::Gain => write!(f, "{model}: it costs {best} in place of {own}"),
            Why::Urgent => {
                write!(f, "{model} at once: it costs {best}, and the model in use fails")
            }
            Why::Nothing => write!(f, "no model that suits is known to get through here"),
        }
    }
}
