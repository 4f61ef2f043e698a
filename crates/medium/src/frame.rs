//! Frames on a segment.

use crate::Segments;
use std::borrow::Cow;
use std::rc::Rc;

/// One frame as on the wire, or consecutive segments of a super-frame that travel together.
/// Each segment counts as a frame, with a separate length and impairment decision.
#[derive(Debug, Clone)]
pub enum Frame {
    /// One frame, including the link header.
    Whole(Rc<[u8]>),
    /// Several frames that the sender left unsegmented.
    Segments(Segments),
}

impl Frame {
    /// Number of wire frames, at least one.
    pub fn count(&self) -> usize {
        match self {
            Self::Whole(_) => 1,
            Self::Segments(segments) => segments.count(),
        }
    }

    /// Bytes on the wire, including link headers.
    pub fn size(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Segments(segments) => segments.size(),
        }
    }

    /// Length of the first frame; no other is longer.
    pub fn first_size(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Segments(segments) => segments.first_size(),
        }
    }

    /// Bytes that begin with the frames' common headers: link addresses and IP addresses.
    pub fn head(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Segments(segments) => segments.super_frame(),
        }
    }

    /// The first frame as on the wire.
    pub fn first(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Whole(bytes) => Cow::Borrowed(bytes),
            Self::Segments(segments) => Cow::Owned(segments.first()),
        }
    }

    /// The first frame with one bit flipped, at `place` / 2^32 of its length.
    pub(crate) fn with_flipped_bit(&self, place: u32) -> Self {
        let mut bytes = self.first().into_owned();
        let bit = (u64::from(place) * (8 * bytes.len() as u64)) >> 32;
        if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
        Self::Whole(bytes.into())
    }

    /// Appends `next` if it directly follows in the same super-frame.
    pub(crate) fn extend(&mut self, next: &Self) -> bool {
        match (self, next) {
            (Self::Segments(segments), Self::Segments(next)) => segments.extend(next),
            _ => false,
        }
    }
}

impl From<&[u8]> for Frame {
    fn from(bytes: &[u8]) -> Self {
        Self::Whole(bytes.into())
    }
}

impl From<Rc<[u8]>> for Frame {
    fn from(bytes: Rc<[u8]>) -> Self {
        Self::Whole(bytes)
    }
}

impl From<Segments> for Frame {
    fn from(segments: Segments) -> Self {
        Self::Segments(segments)
    }
}
