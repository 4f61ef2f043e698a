//! Counters of one direction of a link.

use crate::Impairment;
use std::sync::Arc;
use units::{Instant, Span};

/// Counters over some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames that entered the direction.
    pub frames: u64,
    /// Their bytes, including the link header.
    pub bytes: u64,
    /// Frames, including duplicates, that left the link with a delay: neither lost nor
    /// dropped. Counted at the end of serialisation, so a frame still in a queue counts in
    /// `frames` but not yet here.
    pub passed: u64,
    /// Lost frames.
    pub lost: u64,
    /// Frames dropped by a full queue or by the queue's discipline.
    pub overflow: u64,
    /// Frames dropped because the link was down.
    pub outage: u64,
    /// Frames that a shared channel did not carry: collision, or no access.
    pub denied: u64,
    /// Those of `denied` without access: the channel was always busy. Not recorded per interval.
    pub no_access: u64,
    /// Those of `denied` for which a LoRa gateway had no demodulator. Not recorded per interval.
    pub no_demodulator: u64,
    /// Those of `denied` during which a LoRa gateway sent. Not recorded per interval.
    pub half_duplex: u64,
    /// Frames that were not received because the signal was too weak, for the distance or by a
    /// table of losses between nodes.
    pub weak_signal: u64,
    /// Frames dropped because their packet was longer than the path's MTU.
    pub too_long: u64,
    /// Received data that is not a valid frame of this link. Not included in `frames`.
    pub rejected: u64,
    /// Retransmissions and collisions on a CSMA channel. Not recorded per interval.
    pub retried: u64,
    /// See `retried`.
    pub collided: u64,
    /// Frames with a flipped bit.
    pub corrupted: u64,
    /// Duplicates created.
    pub duplicated: u64,
    /// Frames that overtook others.
    pub reordered: u64,
    /// Sum of the times from the end of serialisation to release over the frames that
    /// passed.
    pub delay_sum: Span,
    /// The longest such time.
    pub delay_max: Span,
    /// Bytes serialised, as on the link's wire.
    pub wire_bytes: u64,
    /// Transmission time of the link.
    pub busy: Span,
    /// Time for which the link's station sent and received on a CSMA channel, for it or not.
    /// Uplink only, and not recorded per interval.
    pub radio_sending: Span,
    /// See `radio_sending`.
    pub radio_receiving: Span,
    /// Frames delivered, and the sum of their lateness. Downlink only.
    pub released: u64,
    /// See `released`.
    pub late_sum: Span,
}

impl Totals {
    /// Frames subject to a loss decision: those that passed and those that were lost.
    pub fn at_risk(&self) -> u64 {
        self.passed + self.lost
    }

    /// Difference from `before`. The longest delay remains that of the whole time.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            frames: self.frames - before.frames,
            bytes: self.bytes - before.bytes,
            passed: self.passed - before.passed,
            lost: self.lost - before.lost,
            overflow: self.overflow - before.overflow,
            outage: self.outage - before.outage,
            denied: self.denied - before.denied,
            no_access: self.no_access - before.no_access,
            no_demodulator: self.no_demodulator - before.no_demodulator,
            half_duplex: self.half_duplex - before.half_duplex,
            weak_signal: self.weak_signal - before.weak_signal,
            too_long: self.too_long - before.too_long,
            retried: self.retried - before.retried,
            collided: self.collided - before.collided,
            rejected: self.rejected - before.rejected,
            corrupted: self.corrupted - before.corrupted,
            duplicated: self.duplicated - before.duplicated,
            reordered: self.reordered - before.reordered,
            delay_sum: self.delay_sum - before.delay_sum,
            delay_max: self.delay_max,
            wire_bytes: self.wire_bytes - before.wire_bytes,
            busy: self.busy - before.busy,
            radio_sending: self.radio_sending - before.radio_sending,
            radio_receiving: self.radio_receiving - before.radio_receiving,
            released: self.released - before.released,
            late_sum: self.late_sum - before.late_sum,
        }
    }
}

/// Settings and counters of a direction over an interval with constant settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Start of the interval.
    pub from: Instant,
    /// End of the interval.
    pub to: Instant,
    /// Configured settings; during a ramp, those at the end of the interval.
    pub configured: Arc<Impairment>,
    /// Whether the settings changed during the interval, as on a ramp.
    pub changing: bool,
    /// Measured counters.
    pub measured: Totals,
}

/// Counters of a direction, and its intervals so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub totals: Totals,
    pub intervals: Vec<Interval>,
    /// Start of the current interval and the totals then: stored separately from the
    /// counters updated per frame.
    cut: Box<(Instant, Totals)>,
}

impl Record {
    /// Impairments begin.
    pub fn begin(&mut self, now: Instant) {
        self.cut.0 = now;
    }

    /// Ends an interval with the settings `config`, `changing` or not. An interval without
    /// frames is not recorded.
    pub fn end_interval(&mut self, config: &Arc<Impairment>, changing: bool, now: Instant) {
        let (from, before) = *self.cut;
        if self.totals != before {
            let (configured, measured) = (config.clone(), self.totals.since(&before));
            self.intervals.push(Interval { from, to: now, configured, changing, measured });
        }
        *self.cut = (now, self.totals);
    }
}
