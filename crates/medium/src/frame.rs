//! What travels over a segment.

use crate::Segments;
use std::borrow::Cow;
use std::rc::Rc;

/// A frame as a wire has it, or segments of a super-frame that go the same way
/// together: so many frames, each with a length and a fate of its own.
#[derive(Debug, Clone)]
pub enum Frame {
    /// One frame, link header included.
    Whole(Rc<[u8]>),
    /// Many, that their sender left uncut.
    Segments(Segments),
}

impl Frame {
    /// How many frames of a wire it is; at least one.
    pub fn count(&self) -> usize {
        match self {
            Self::Whole(_) => 1,
            Self::Segments(segments) => segments.count(),
        }
    }

    /// Their bytes on the wire, link headers included.
    pub fn size(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Segments(segments) => segments.size(),
        }
    }

    /// The length of the first, which none of the others exceeds.
    pub fn first_size(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Segments(segments) => segments.first_size(),
        }
    }

    /// Bytes that begin with the headers that they have in common: link addresses
    /// and those of IP.
    pub fn head(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Segments(segments) => segments.super_frame(),
        }
    }

    /// The first as a wire has it.
    pub fn first(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Whole(bytes) => Cow::Borrowed(bytes),
            Self::Segments(segments) => Cow::Owned(segments.first()),
        }
    }

    /// The first with one bit turned over, at `place` of 2^32 parts of its length.
    pub(crate) fn turned_over(&self, place: u32) -> Self {
        let mut bytes = self.first().into_owned();
        let bit = (u64::from(place) * (8 * bytes.len() as u64)) >> 32;
        if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
        Self::Whole(bytes.into())
    }

    /// Takes `next` to it if that follows it in a super-frame.
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
