//! Duplication of frames.

use crate::Impairment;
use crate::correlated::Correlated;
use crate::decisions::{Arrival, Decision};
use crate::keys::{Contradictions, Key, Keys, Kind, Quantity, share_text};
use crate::stage::{ChannelWait, Stage};
use units::{Purpose, Ratio};

/// Share of frames that are duplicated.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Duplicate {
    /// Share of frames.
    pub share: Ratio,
    /// Correlation of successive decisions.
    pub correlation: Ratio,
}

impl Stage for Duplicate {
    const KEYS: &'static [Key] = &[
        Key::new("duplicate", Kind::Share, "Share of frames that are duplicated."),
        Key::new(
            "duplicate_correlation",
            Kind::Share,
            "Correlation of a duplication decision with the previous one.",
        ),
    ];
    const ORDER: u8 = 1;
    type Flow = Correlated;

    fn read(keys: &Keys) -> Result<Self, String> {
        let share = keys.read_or_default("duplicate")?;
        Ok(Self { share, correlation: keys.read_or_default("duplicate_correlation")? })
    }

    fn write(&self, keys: &mut Keys) {
        keys.put("duplicate", &self.share);
        keys.put("duplicate_correlation", &self.correlation);
    }

    fn check(keys: &Keys, _: ChannelWait, found: &mut Contradictions) {
        let text = "a correlation of `duplicate` without `duplicate`";
        found.add_without(keys, "duplicate_correlation", "duplicate", text);
    }

    fn check_netem(_: &Keys, _: &mut Contradictions) {}

    fn text(&self, _: &Impairment) -> Option<String> {
        share_text("duplicate", self.share, self.correlation)
    }

    fn is_none(&self) -> bool {
        self.share.fraction() == 0.0
    }

    fn quantity(&mut self, key: &str) -> Option<Quantity<'_>> {
        (key == "duplicate").then_some(Quantity::Share(&mut self.share))
    }

    fn is_random(&self) -> bool {
        !self.is_none()
    }

    fn has_state(&self) -> bool {
        self.correlation.fraction() > 0.0
    }

    fn flow(&self) -> Correlated {
        Correlated::new(self.correlation)
    }

    fn change_flow(&self, flow: &mut Correlated, before: &Self) {
        if self.correlation != before.correlation {
            *flow = self.flow();
        }
    }

    fn decide(&self, flow: &mut Correlated, frame: &Arrival<'_>, decision: &mut Decision) {
        decision.duplicated = flow.takes(frame, Purpose::Duplicate, self.share);
    }
}
