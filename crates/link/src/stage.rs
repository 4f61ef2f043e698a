//! A stage: one impairment of a link. Its keys, their meaning and checks, its text, and what it
//! does to a frame are in one file. The experiment file's reader, live changes, timetables,
//! ramps, the JSON Schema and the text of a plan are derived from it.

use crate::decisions::{Arrival, Decision};
use crate::keys::{Contradictions, Key, Keys, Quantity};
use std::fmt::Debug;
use std::path::Path;
use units::{Draw, Span};

/// What frames of a direction wait for, in addition to the link's own rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelWait {
    /// Nothing.
    No,
    /// A shared channel, which sets the rate.
    Shared,
    /// A shared channel, after the link's own rate.
    Cell,
}

/// One impairment. The default has no effect.
///
/// A stage that decides about frames at random does so in [`Self::decide`]; its state for each
/// flow is a [`Self::Flow`]. Stages of a queue or of time (queue, transmission, slots, outages)
/// have a state machine that the link pipe runs.
pub(crate) trait Stage: Debug + Clone + PartialEq + Default {
    /// Keys in the experiment file, in the order of its documentation.
    const KEYS: &'static [Key];
    /// Place in the order in which a frame passes the stages, for texts.
    const ORDER: u8;
    /// Models of which a link has one: the key of each, and the keys that belong only to it. A
    /// change that names one removes the others.
    const MODELS: &'static [&'static [&'static str]] = &[];
    /// State of one flow.
    type Flow: Debug + Clone + Default;

    /// The settings from keys.
    ///
    /// # Errors
    /// If a value has the wrong type, or a required key is missing.
    fn read(keys: &Keys) -> Result<Self, String>;
    /// Writes the keys that differ from the defaults; [`Self::read`] reads them back.
    fn write(&self, keys: &mut Keys);
    /// Reports contradictions in the keys of a link, and keys without effect.
    fn check(keys: &Keys, wait: ChannelWait, found: &mut Contradictions);
    /// Reports keys that do not suit frames of up to `longest` bytes.
    fn check_longest(_keys: &Keys, _longest: u64, _found: &mut Contradictions) {}
    /// Reports what the kernel's netem lacks: the feature, and the fix.
    fn check_netem(keys: &Keys, found: &mut Contradictions);
    /// The text for people; `None` without effect. `is_scheduled`: the link has a rate, a trace or
    /// grants, so that frames queue.
    fn text(&self, is_scheduled: bool) -> Option<String>;
    /// Whether frames pass as without the stage.
    fn is_none(&self) -> bool;

    /// Reads the files that the settings name, relative to `base`.
    fn load(&mut self, _base: &Path, _found: &mut Contradictions) {}
    /// Takes over the content of files that `before` has loaded.
    fn keep_loaded(&mut self, _before: &Self) {}
    /// The value of a key that can be ramped and rounded.
    fn quantity(&mut self, _key: &str) -> Option<Quantity<'_>> {
        None
    }
    /// Minimum delay of a frame that is not undelayed by another stage.
    fn least_delay(&self) -> Span {
        Span::ZERO
    }
    /// Whether some frames pass without delay.
    fn may_undelay(&self) -> bool {
        false
    }
    /// Long-term share of frames lost.
    fn mean_loss(&self) -> f64 {
        0.0
    }

    /// Whether a decision about a frame is not the same for all.
    fn is_random(&self) -> bool {
        false
    }
    /// Whether decisions depend on the flow's earlier frames.
    fn has_state(&self) -> bool {
        false
    }
    /// The state of a new flow.
    fn flow(&self) -> Self::Flow {
        Self::Flow::default()
    }
    /// Applies these settings instead of `before` to a flow. A model keeps its state unless it is
    /// replaced by another one.
    fn change_flow(&self, flow: &mut Self::Flow, before: &Self) {
        if self != before {
            *flow = self.flow();
        }
    }
    /// Adds the decision about a frame.
    fn decide(&self, _flow: &mut Self::Flow, _frame: &Arrival<'_>, _decision: &mut Decision) {}
    /// Sets the frame's delay, after all other decisions.
    fn decide_delay(&self, _flow: &mut Self::Flow, _frame: &Arrival<'_>, _made: &mut Decision) {}
    /// Adds the decision about the duplicate of frame `index`, independent of the original.
    fn decide_copy(&self, _draw: Draw, _index: u64, _decision: &mut Decision) {}
}
