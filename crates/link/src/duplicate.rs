//! Duplication of frames.

use crate::decisions::{Arrival, Decision};
use crate::frame_share::{Effect, FrameShare};
use crate::keys::{Key, Kind};
use units::Purpose;

/// Share of frames that are duplicated.
pub type Duplicate = FrameShare<Duplication>;

/// A frame is sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Duplication;

impl Effect for Duplication {
    const KEYS: &'static [Key; 2] = &[
        Key::new(
            "duplicate",
            Kind::Share,
            "Share of duplicated frames; the copy has independent loss and delay. Default: 0 %.",
        ),
        Key::new(
            "duplicate_correlation",
            Kind::Share,
            "Correlation of successive duplication decisions. Default: 0 %.",
        ),
    ];
    const ORDER: u8 = 1;
    const PURPOSE: Purpose = Purpose::Duplicate;

    fn happen(_: &Arrival<'_>, decision: &mut Decision) {
        decision.duplicated = true;
    }
}
