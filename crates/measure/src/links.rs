//! What was asked of links against what they did.

use medium::{Impairment, Totals};
use std::sync::Arc;

/// One direction of one link over some time.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkRow {
    /// The node's name.
    pub node: String,
    /// The interface's name in the node.
    pub interface: String,
    /// The network's name.
    pub network: String,
    /// `up` from the node, `down` to it.
    pub direction: &'static str,
    /// Seconds since offset 0.
    pub start_s: f64,
    /// See `start_s`.
    pub end_s: f64,
    /// What was asked.
    pub asked: Arc<Impairment>,
    /// Whether that changed meanwhile, as on a ramp: then nothing can be held
    /// against it.
    pub changing: bool,
    /// What was done, from the medium's own record of each frame.
    pub got: Totals,
    /// Whether the kernel's netem did it: then `got` is from its counts, and nobody
    /// measured the delay.
    pub by_netem: bool,
    /// Whether a channel with acknowledgements sends lost frames again, so that fewer are
    /// lost than the configured share of the times on air.
    pub sends_again: bool,
}

impl LinkRow {
    /// Mean delay asked for, in ms.
    pub fn delay_asked_ms(&self) -> f64 {
        self.asked.mean_delay_ns() / 1e6
    }

    /// Mean delay given after serialisation, the medium's lateness included, in
    /// ms; as asked where nothing passed or nobody measured it.
    pub fn delay_got_ms(&self) -> f64 {
        match self.got.passed {
            _ if self.by_netem => self.delay_asked_ms(),
            0 => self.delay_asked_ms(),
            passed => (self.got.delay_sum as f64 / passed as f64 + self.lateness_ns()) / 1e6,
        }
    }

    /// How much later than planned the medium released its frames, in ns on average.
    pub(crate) fn lateness_ns(&self) -> f64 {
        self.got.late_sum as f64 / self.got.released.max(1) as f64
    }

    /// Loss asked for, in percent.
    pub fn loss_asked_pct(&self) -> f64 {
        100.0 * self.asked.mean_loss()
    }

    /// Frames lost, in percent of those that left the queue.
    pub fn loss_got_pct(&self) -> f64 {
        100.0 * self.got.lost as f64 / self.got.at_risk().max(1) as f64
    }

    /// Rate asked for in bit/s, 0 for none.
    pub fn rate_asked_bit_s(&self) -> f64 {
        match (&self.asked.trace, self.asked.rate) {
            (Some(trace), _) => trace.mean_bit_s(),
            (None, rate) => rate.map_or(0.0, |rate| rate.bit_s() as f64),
        }
    }

    /// Bits sent in the time in which the link was sending; 0 when it never was.
    pub fn rate_got_bit_s(&self) -> f64 {
        match self.got.busy {
            0 => 0.0,
            busy => self.got.wire_bytes as f64 * 8e9 / busy as f64,
        }
    }
}
