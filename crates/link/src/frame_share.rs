//! Stages that affect a share of frames at random, each independently or with correlation.

use crate::correlated::Correlated;
use crate::decisions::{Arrival, Decision};
use crate::keys::{Contradictions, Key, Keys, Quantity, share_text};
use crate::stage::{ChannelWait, Stage};
use std::fmt::Debug;
use std::marker::PhantomData;
use units::{Purpose, Ratio};

/// What happens to the share of frames.
pub(crate) trait Effect: Debug + Clone + PartialEq + Default {
    /// The keys of the share and of its correlation.
    const KEYS: &'static [Key; 2];
    /// Name of the share's key.
    const SHARE: &'static str = Self::KEYS[0].name;
    /// Name of the correlation's key.
    const CORRELATION: &'static str = Self::KEYS[1].name;
    /// As [`Stage::ORDER`].
    const ORDER: u8;
    /// The random stream that selects the frames.
    const PURPOSE: Purpose;

    /// Adds it to the decision about a frame.
    fn happen(frame: &Arrival<'_>, decision: &mut Decision);
}

/// Share of frames to which `E` happens.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FrameShare<E> {
    /// Share of frames.
    pub share: Ratio,
    /// Correlation of successive decisions.
    pub correlation: Ratio,
    effect: PhantomData<E>,
}

impl<E: Effect> Stage for FrameShare<E> {
    const KEYS: &'static [Key] = E::KEYS;
    const ORDER: u8 = E::ORDER;
    type Flow = Correlated;

    fn read(keys: &Keys) -> Result<Self, String> {
        let share = keys.read_or_default(E::SHARE)?;
        let correlation = keys.read_or_default(E::CORRELATION)?;
        Ok(Self { share, correlation, effect: PhantomData })
    }

    fn write(&self, keys: &mut Keys) {
        keys.put(E::SHARE, &self.share);
        keys.put(E::CORRELATION, &self.correlation);
    }

    fn check(keys: &Keys, _: ChannelWait, found: &mut Contradictions) {
        let text = format!("a correlation of `{0}` without `{0}`", E::SHARE);
        found.add_without(keys, E::CORRELATION, E::SHARE, &text);
    }

    fn check_netem(_: &Keys, _: &mut Contradictions) {}

    fn text(&self, _is_scheduled: bool) -> Option<String> {
        share_text(E::SHARE, self.share, self.correlation)
    }

    fn is_none(&self) -> bool {
        self.share.fraction() == 0.0
    }

    fn quantity(&mut self, key: &str) -> Option<Quantity<'_>> {
        (key == E::SHARE).then_some(Quantity::Share(&mut self.share))
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
        // The state is that of the correlation only, so a change of the share keeps it.
        if self.correlation != before.correlation {
            *flow = self.flow();
        }
    }

    fn decide(&self, flow: &mut Correlated, frame: &Arrival<'_>, decision: &mut Decision) {
        if flow.takes(frame, E::PURPOSE, self.share) {
            E::happen(frame, decision);
        }
    }
}
