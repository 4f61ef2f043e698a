//! Corruption: frames with one flipped bit.

use crate::correlated::Correlated;
use crate::decisions::{Arrival, Decision};
use crate::keys::{Contradictions, Key, Keys, Kind, Quantity, share_text};
use crate::stage::{ChannelWait, Stage};
use crate::{Frame, Impairment};
use units::{Purpose, Ratio};

/// Share of frames with one flipped bit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Corrupt {
    /// Share of frames.
    pub share: Ratio,
    /// Correlation of successive decisions.
    pub correlation: Ratio,
}

impl Stage for Corrupt {
    const KEYS: &'static [Key] = &[
        Key::new("corrupt", Kind::Share, "Share of frames with one flipped bit."),
        Key::new(
            "corrupt_correlation",
            Kind::Share,
            "Correlation of a corruption decision with the previous one.",
        ),
    ];
    const ORDER: u8 = 5;
    type Flow = Correlated;

    fn read(keys: &Keys) -> Result<Self, String> {
        let share = keys.read_or_default("corrupt")?;
        Ok(Self { share, correlation: keys.read_or_default("corrupt_correlation")? })
    }

    fn write(&self, keys: &mut Keys) {
        keys.put("corrupt", &self.share);
        keys.put("corrupt_correlation", &self.correlation);
    }

    fn check(keys: &Keys, _: ChannelWait, found: &mut Contradictions) {
        let text = "a correlation of `corrupt` without `corrupt`";
        found.add_without(keys, "corrupt_correlation", "corrupt", text);
    }

    fn check_netem(_: &Keys, _: &mut Contradictions) {}

    fn text(&self, _: &Impairment) -> Option<String> {
        share_text("corrupt", self.share, self.correlation)
    }

    fn is_none(&self) -> bool {
        self.share.fraction() == 0.0
    }

    fn quantity(&mut self, key: &str) -> Option<Quantity<'_>> {
        (key == "corrupt").then_some(Quantity::Share(&mut self.share))
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
        if flow.takes(frame, Purpose::Corrupt, self.share) {
            let bit = frame.draw.uniform(Purpose::Bit, frame.index);
            decision.corrupt = Some((bit * 4_294_967_296.0) as u32);
        }
    }
}

/// `frame` with one bit flipped, at `place` / 2^32 of its length.
pub(crate) fn with_flipped_bit(frame: &Frame, place: u32) -> Frame {
    let mut bytes = frame.to_vec();
    let bit = (u64::from(place) * (8 * bytes.len() as u64)) >> 32;
    if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
        *byte ^= 1 << (bit % 8);
    }
    bytes.into()
}
