//! The sender of a cellular link: a queue served in time blocks that the network grants.
//!
//! One mechanism for GPRS and EDGE, UMTS, LTE, NB-IoT and 5G, for one direction of one
//! device:
//!
//! 1. Time consists of blocks of `tti`; the first starts at `offset`. A block carries
//!    `transport_block` x `efficiency` bytes. Capacity that the frames queued at its start
//!    do not use is lost.
//! 2. A frame counts as its IP packet (its length minus the link header) plus `overhead`.
//!    Frames fill blocks in order of arrival. A frame may begin in the middle of a block,
//!    or end there, if it was queued when the block began. It is delivered at the end of
//!    the block with its last byte.
//! 3. A sender without a grant requests one when a frame arrives. It receives the grant
//!    `cycle` later, or `delay` after the next multiple of `request_period`. It sends from
//!    the first block that begins then.
//! 4. This first grant covers `initial` bytes. A frame that exceeds the remaining bytes
//!    waits, with all frames behind it, for a second grant. That grant comes `cycle`, or
//!    `delay`, after the first grant, or after the frame if it arrived later. The second
//!    grant has no limit: the network now knows the queue.
//! 5. When the queue is empty, the sender keeps an unlimited grant for `hold` after the end
//!    of its last block. Frames that arrive by then need no cycle.
//!
//! In the file of link profiles, `grant.cycle` for NB-IoT and the fitted LTE is the time
//! between blocks of a sender with a separate grant per block: write it as `tti`.
//!
//! Pure: takes lengths and times, returns times.

use units::{Instant, Span};
mod spec;

#[cfg(test)]
mod tests;

pub(crate) use spec::GRANT;
pub use spec::GrantSpec;

/// Bytes of an emulated frame that are not sent by radio: its Ethernet header.
pub(crate) const LINK_HEADER: usize = 14;

/// State of one sender.
#[derive(Debug, Clone)]
pub struct Grant {
    spec: GrantSpec,
    /// Capacity of a block in 1/1000 byte.
    /// Whole bytes would round off what `efficiency` leaves, in each block.
    capacity: u64,
    /// Start of the last block with data, if any.
    block: Option<Instant>,
    /// Remaining capacity of that block in 1/1000 byte.
    left: u64,
    /// Remaining bytes of the first grant in 1/1000 byte, while it is valid.
    limit: Option<u64>,
    /// Time of the first grant.
    granted: Instant,
}

impl Grant {
    /// An idle sender without a grant. `spec` must have passed [`GrantSpec::check`].
    pub fn new(spec: GrantSpec) -> Self {
        // Avoids a division by 0 with an unchecked spec.
        let capacity = spec.capacity().max(1);
        Self { spec, capacity, block: None, left: 0, limit: None, granted: Instant::START }
    }

    /// Arrival time behind the radio of a frame of `len` bytes, including the link header,
    /// that is queued at `now`. `now` must not decrease between calls.
    pub fn send(&mut self, len: usize, now: Instant) -> Instant {
        let packet = len.saturating_sub(LINK_HEADER) as u64;
        let bytes = packet.saturating_add(self.spec.overhead.get()).saturating_mul(1_000).max(1);
        let tti = self.spec.tti;
        let mut block = match self.block {
            // Queued before that block begins, so it may use what the block has left (rule 2).
            Some(block) if now <= block => block,
            Some(block) if now < block + tti => {
                // That block has already begun; this frame starts in the next one.
                self.left = 0;
                block
            }
            last => self.begin(last.map(|block| block + tti), now),
        };
        match self.limit {
            Some(limit) if bytes <= limit => self.limit = Some(limit - bytes),
            Some(_) => block = self.second(block, now),
            None => {}
        }
        block = self.fill(block, bytes);
        self.block = Some(block);
        block + tti
    }

    /// The first block for a frame that finds an empty queue; `ended` is the end of the
    /// last used block.
    fn begin(&mut self, ended: Option<Instant>, now: Instant) -> Instant {
        let hold = self.spec.hold.unwrap_or_default();
        let held = ended.is_some_and(|ended| now - ended <= hold);
        self.left = self.capacity;
        if held || !self.spec.asks() {
            self.limit = None;
            return self.boundary(now);
        }
        self.limit = self.spec.initial.map(|initial| initial.get().saturating_mul(1_000));
        let requested = self.spec.request_period.map_or(now, |period| self.next(now, period));
        self.granted = requested + self.answer();
        self.boundary(self.granted)
    }

    /// The block for a frame at `now` that the first grant does not cover; `block` is the
    /// last used block of that grant.
    fn second(&mut self, block: Instant, now: Instant) -> Instant {
        self.limit = None;
        let granted = self.granted.max(now) + self.answer();
        let second = self.boundary(granted);
        // Blocks of the first grant reach beyond the second one: nothing has to wait.
        if second <= block {
            return block;
        }
        self.left = self.capacity;
        second
    }

    /// Time from a request to its grant.
    fn answer(&self) -> Span {
        self.spec.cycle.or(self.spec.delay).unwrap_or_default()
    }

    /// Puts `bytes`/1000 bytes into `block` and the following blocks; returns the last one
    /// used.
    fn fill(&mut self, block: Instant, bytes: u64) -> Instant {
        if bytes <= self.left {
            self.left -= bytes;
            return block;
        }
        let over = bytes - self.left;
        let blocks = over.div_ceil(self.capacity);
        self.left = blocks.saturating_mul(self.capacity) - over;
        block + self.spec.tti * blocks
    }

    /// The first start of a block at or after `at`.
    fn boundary(&self, at: Instant) -> Instant {
        self.next(at, self.spec.tti)
    }

    /// The first multiple of `period` at or after `at`, counted from `offset`.
    fn next(&self, at: Instant, period: Span) -> Instant {
        let first = Instant::START + self.spec.offset;
        // Avoids a division by 0 with an unchecked spec.
        let period = period.max(Span::from_ns(1));
        let periods = (at - first).as_ns().div_ceil(period.as_ns());
        first + period * periods
    }
}
