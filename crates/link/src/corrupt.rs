//! Corruption: frames with one flipped bit.

use crate::Frame;
use crate::decisions::{Arrival, Decision};
use crate::frame_share::{Effect, FrameShare};
use crate::keys::{Key, Kind};
use units::Purpose;

/// Share of frames with one flipped bit.
pub type Corrupt = FrameShare<Corruption>;

/// One bit of a frame is flipped.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Corruption;

impl Effect for Corruption {
    const KEYS: &'static [Key; 2] = &[
        Key::new(
            "corrupt",
            Kind::Share,
            "Share of frames with one flipped bit at a random position. Default: 0 %.",
        ),
        Key::new(
            "corrupt_correlation",
            Kind::Share,
            "Correlation of successive corruption decisions. Default: 0 %.",
        ),
    ];
    const ORDER: u8 = 5;
    const PURPOSE: Purpose = Purpose::Corrupt;

    fn happen(frame: &Arrival<'_>, decision: &mut Decision) {
        let bit = frame.draw.uniform(Purpose::Bit, frame.index);
        decision.corrupt = Some((bit * 4_294_967_296.0) as u32);
    }
}

/// `frame` with one bit flipped, at `place` / 2^32 of its length.
pub(crate) fn with_flipped_bit(frame: &Frame, place: u32) -> Frame {
    // A copy: other receivers of a multicast share the frame's bytes.
    let mut bytes = frame.to_vec();
    let bit = (u64::from(place) * (8 * bytes.len() as u64)) >> 32;
    if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
        *byte ^= 1 << (bit % 8);
    }
    bytes.into()
}
