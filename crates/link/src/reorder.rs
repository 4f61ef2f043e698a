//! Reordering: frames that are not delayed, and so overtake others.

use crate::correlated::Correlated;
use crate::decisions::{Arrival, Decision};
use crate::keys::{Contradictions, Key, Keys, Kind, Quantity, share_text};
use crate::stage::{ChannelWait, Stage};
use units::{Purpose, Ratio, Span};

/// Least `gap`: with 1, each frame may overtake.
const LEAST_GAP: u32 = 1;

/// Share of frames that are not delayed, by tc-netem's rule: after `gap - 1` delayed frames, each
/// frame overtakes with the configured probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// Share of the candidates.
    pub share: Ratio,
    /// Correlation of the decisions about successive candidates.
    pub correlation: Ratio,
    /// Every `gap`-th frame is a candidate; 1 allows any.
    pub gap: u32,
}

/// State of one flow.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReorderFlow {
    draws: Correlated,
    /// Frames delayed since the last one that overtook.
    delayed: u32,
}

impl Default for Reorder {
    fn default() -> Self {
        Self { share: Ratio::default(), correlation: Ratio::default(), gap: 1 }
    }
}

impl Reorder {
    /// Long-term share of frames that overtake.
    pub fn mean_share(&self) -> f64 {
        // After `gap - 1` delayed frames, each frame overtakes with that probability.
        let share = self.share.fraction();
        share / (1.0 + f64::from(self.gap.max(1) - 1) * share)
    }
}

impl Stage for Reorder {
    const KEYS: &'static [Key] = &[
        Key::new(
            "reorder",
            Kind::Share,
            "Share of frames that skip the delay and so overtake others. Needs a `delay`. \
             Default: 0 %.",
        ),
        Key::new(
            "reorder_correlation",
            Kind::Share,
            "Correlation of successive reordering decisions. Default: 0 %.",
        ),
        Key::new(
            "gap",
            Kind::Count { least: LEAST_GAP, most: u32::MAX },
            "A frame may overtake only after `gap` - 1 delayed frames. Range: 1 or more. Default: \
             1.",
        ),
    ];
    const ORDER: u8 = 7;
    type Flow = ReorderFlow;

    fn read(keys: &Keys) -> Result<Self, String> {
        let share = keys.read_or_default("reorder")?;
        let correlation = keys.read_or_default("reorder_correlation")?;
        Ok(Self { share, correlation, gap: keys.read("gap")?.unwrap_or(1) })
    }

    fn write(&self, keys: &mut Keys) {
        keys.put("reorder", &self.share);
        keys.put("reorder_correlation", &self.correlation);
        if self.gap != 1 {
            keys.insert("gap", &self.gap);
        }
    }

    fn check(keys: &Keys, _: ChannelWait, found: &mut Contradictions) {
        if keys.has("reorder") && keys.get::<Span>("delay").unwrap_or_default() == Span::ZERO {
            let text = "`reorder` needs a `delay`: reordered frames are those without delay";
            found.add("reorder", text, "add a `delay`");
        }
        if keys.get::<u32>("gap").is_some_and(|gap| gap < LEAST_GAP) {
            found.add("gap", "a gap of 0 frames", "use 1 or more; 1 reorders any frame");
        }
        found.add_without(keys, "gap", "reorder", "a `gap` of `reorder` without `reorder`");
        let text = "a correlation of `reorder` without `reorder`";
        found.add_without(keys, "reorder_correlation", "reorder", text);
    }

    fn check_netem(_: &Keys, _: &mut Contradictions) {}

    fn text(&self, _is_scheduled: bool) -> Option<String> {
        let gap = if self.gap > 1 { format!(", gap {}", self.gap) } else { String::new() };
        Some(share_text("reorder", self.share, self.correlation)? + &gap)
    }

    fn is_none(&self) -> bool {
        self.share.fraction() == 0.0
    }

    fn quantity(&mut self, key: &str) -> Option<Quantity<'_>> {
        (key == "reorder").then_some(Quantity::Share(&mut self.share))
    }

    fn may_undelay(&self) -> bool {
        !self.is_none()
    }

    fn is_random(&self) -> bool {
        !self.is_none()
    }

    fn has_state(&self) -> bool {
        !self.is_none()
    }

    fn flow(&self) -> ReorderFlow {
        ReorderFlow { draws: Correlated::new(self.correlation), delayed: 0 }
    }

    fn change_flow(&self, flow: &mut ReorderFlow, before: &Self) {
        if self.correlation != before.correlation {
            // The number of delayed frames stays: it does not depend on the correlation.
            flow.draws = Correlated::new(self.correlation);
        }
    }

    fn decide(&self, flow: &mut ReorderFlow, frame: &Arrival<'_>, decision: &mut Decision) {
        if self.is_none() {
            return;
        }
        // Only candidates draw, as in tc-netem: with a correlation, the numbers of the frames between
        // two candidates would weaken it, and change the share.
        decision.overtakes = flow.delayed >= self.gap.saturating_sub(1)
            && flow.draws.takes(frame, Purpose::Reorder, self.share);
        flow.delayed = if decision.overtakes { 0 } else { flow.delayed.saturating_add(1) };
    }
}
