//! The frame with the first fragment of a datagram of 6LoWPAN.

use crate::dissect::{Address, Head, Parts, What};
use crate::reader::{Direction, Packet};

/// The frame with the first fragment of a datagram, until the datagram is complete.
#[derive(Debug)]
pub(super) struct First {
    pub(super) point: usize,
    pub(super) direction: Direction,
    /// Of the frame, in B.
    pub(super) length: u32,
    /// Transport payload in the frame, in B.
    pub(super) carried: u32,
    /// Whether the frame was captured here first.
    pub(super) counts: bool,
    pub(super) addresses: Option<[Address; 2]>,
    pub(super) head: Head,
}

impl First {
    /// The frame, as far as it is still to count.
    pub(super) fn frame(&self, at: u64, what: What) -> (Packet<'static>, Parts<'static>) {
        let Self { point, direction, length, addresses, .. } = *self;
        let parts = Parts { addresses, what, ..Parts::default() };
        (Packet { point, at, length, direction, data: &[] }, parts)
    }
}
