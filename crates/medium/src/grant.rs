//! The sender of a cellular link: a queue that is served in blocks of time, once
//! the network has granted them.
//!
//! One mechanism for GPRS and EDGE, UMTS, LTE, NB-IoT and 5G, one direction of
//! one device:
//!
//! 1. Time is cut into blocks of `tti`, the first at `offset`. A block carries
//!    `transport_block` x `efficiency` bytes; what is left of it when the queue
//!    is empty at its start is lost.
//! 2. A frame counts its IP packet, so its length less the link header, plus
//!    `overhead`. Frames are put into blocks one behind the other in the order
//!    in which they came; one may begin in the middle of a block, or end there,
//!    if it was there when the block began. It is delivered when the block with
//!    its last byte ends.
//! 3. A sender without a grant asks when a frame comes, and is granted `cycle`
//!    later, or at the next multiple of `request_period` and `delay` after. It
//!    sends from the first block that begins then.
//! 4. This first grant is for `initial` bytes. A frame that exceeds what is left of
//!    them waits, with all behind it, for a second grant, which comes `cycle`, or
//!    `delay`, after the first, or after the frame if that came later; without
//!    limit, for the network now knows the queue.
//! 5. With the queue empty the sender stays granted, without limit, for `hold`
//!    after the end of its last block. Frames that come by then need no cycle.
//!
//! What the file of link profiles calls `grant.cycle` for NB-IoT and the fitted
//! LTE is the time from one block to the next of a sender that is granted each
//! by itself: write it as `tti`.
//!
//! Pure: lengths and times in, times out.

mod spec;

#[cfg(test)]
mod tests;

pub use spec::GrantSpec;

use crate::Instant;

/// Bytes of an emulated frame that are not on the radio: its Ethernet header.
pub(crate) const LINK_HEADER: usize = 14;

/// The state of one sender.
#[derive(Debug, Clone)]
pub struct Grant {
    spec: GrantSpec,
    /// Thousandths of a byte in a block.
    capacity: u64,
    /// Start of the last block that carries something, if any did yet.
    block: Option<Instant>,
    /// Thousandths of a byte that block can still take.
    left: u64,
    /// Thousandths of a byte that the first grant still covers, while it holds.
    limit: Option<u64>,
    /// When the first grant came.
    granted: Instant,
}

impl Grant {
    /// An idle sender without a grant. `spec` is taken to have passed
    /// [`GrantSpec::check`].
    pub fn new(spec: GrantSpec) -> Self {
        // So that a spec nobody checked stands still instead of dividing by 0.
        let capacity = spec.capacity().max(1);
        Self { spec, capacity, block: None, left: 0, limit: None, granted: 0 }
    }

    /// When a frame of `len` bytes, link header included, that comes at `now`
    /// has arrived at the other side of the radio. `now` must not decrease
    /// between calls.
    pub fn send(&mut self, len: usize, now: Instant) -> Instant {
        let packet = len.saturating_sub(LINK_HEADER) as u64;
        let bytes = packet.saturating_add(self.spec.overhead.get()).saturating_mul(1_000).max(1);
        let tti = self.spec.tti.as_ns();
        let mut block = match self.block {
            Some(block) if now <= block => block,
            Some(block) if now < block.saturating_add(tti) => {
                // On its way already; the queue's next one is this frame's first.
                self.left = 0;
                block
            }
            last => self.begin(last.map(|block| block.saturating_add(tti)), now),
        };
        match self.limit {
            Some(limit) if bytes <= limit => self.limit = Some(limit - bytes),
            Some(_) => block = self.second(block, now),
            None => {}
        }
        block = self.fill(block, bytes);
        self.block = Some(block);
        block.saturating_add(tti)
    }

    /// The first block for a frame that finds the queue empty; `ended` is when
    /// the last one before did.
    fn begin(&mut self, ended: Option<Instant>, now: Instant) -> Instant {
        let hold = self.spec.hold.map_or(0, |hold| hold.as_ns());
        let held = ended.is_some_and(|ended| now - ended <= hold);
        self.left = self.capacity;
        if held || !self.spec.asks() {
            self.limit = None;
            return self.boundary(now);
        }
        self.limit = self.spec.initial.map(|initial| initial.get().saturating_mul(1_000));
        let asked = self.spec.request_period.map_or(now, |period| self.next(now, period.as_ns()));
        self.granted = asked.saturating_add(self.answer());
        self.boundary(self.granted)
    }

    /// Where a frame of `now` goes that the first grant has no room for; `block` is
    /// the last of that grant which is used.
    fn second(&mut self, block: Instant, now: Instant) -> Instant {
        self.limit = None;
        let granted = self.granted.max(now).saturating_add(self.answer());
        let second = self.boundary(granted);
        if second <= block {
            return block;
        }
        self.left = self.capacity;
        second
    }

    /// From a request to its grant.
    fn answer(&self) -> u64 {
        self.spec.cycle.or(self.spec.delay).map_or(0, |answer| answer.as_ns())
    }

    /// Puts `bytes` thousandths into `block` and the ones behind it; the last.
    fn fill(&mut self, block: Instant, bytes: u64) -> Instant {
        if bytes <= self.left {
            self.left -= bytes;
            return block;
        }
        let over = bytes - self.left;
        let blocks = over.div_ceil(self.capacity);
        self.left = blocks.saturating_mul(self.capacity) - over;
        block.saturating_add(blocks.saturating_mul(self.spec.tti.as_ns()))
    }

    /// The first start of a block at or after `at`.
    fn boundary(&self, at: Instant) -> Instant {
        self.next(at, self.spec.tti.as_ns())
    }

    /// The first multiple of `period` at or after `at`, counted from `offset`.
    fn next(&self, at: Instant, period: u64) -> Instant {
        let (offset, period) = (self.spec.offset.as_ns(), period.max(1));
        let periods = at.saturating_sub(offset).div_ceil(period);
        offset.saturating_add(periods.saturating_mul(period))
    }
}
