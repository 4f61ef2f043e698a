//! Configured against measured impairments of links.

use link::{Impairment, Scheduler, Totals};
use std::sync::Arc;

/// One direction of one link over an interval.
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
    /// The configuration.
    pub configured: Arc<Impairment>,
    /// Whether the configuration changed in the interval, as on a ramp: then there is nothing to
    /// compare with.
    pub changing: bool,
    /// The measured values, from the medium's own record of each frame.
    pub measured: Totals,
    /// Whether the kernel's netem impaired it: then `measured` is from its counters, and the delay was
    /// not measured.
    pub by_netem: bool,
    /// Whether a channel with acknowledgements retransmits lost frames, or sends packets as several
    /// frames, so that the loss of packets is not the configured one per transmission.
    pub sends_again: bool,
}

impl LinkRow {
    /// Configured mean delay, in ms.
    pub fn delay_configured_ms(&self) -> f64 {
        self.configured.mean_delay_ns() / 1e6
    }

    /// Measured mean delay after serialisation, the medium's lateness included, in ms; the
    /// configured one if no frame passed or it was not measured.
    pub fn delay_measured_ms(&self) -> f64 {
        match self.measured.passed {
            _ if self.by_netem => self.delay_configured_ms(),
            0 => self.delay_configured_ms(),
            passed => {
                (self.measured.delay_sum.as_ns() as f64 / passed as f64 + self.lateness_ns()) / 1e6
            }
        }
    }

    /// Mean lateness of the medium's frames, in ns.
    pub(crate) fn lateness_ns(&self) -> f64 {
        self.measured.late_sum.as_ns() as f64 / self.measured.released.max(1) as f64
    }

    /// Configured loss, in percent.
    pub fn loss_configured_pct(&self) -> f64 {
        100.0 * self.configured.mean_loss()
    }

    /// Measured loss, in percent of the frames that left the queue.
    pub fn loss_measured_pct(&self) -> f64 {
        100.0 * self.measured.lost as f64 / self.measured.at_risk().max(1) as f64
    }

    /// Configured rate in bit/s, 0 for none.
    pub fn rate_configured_bit_s(&self) -> f64 {
        match &self.configured.transmission.scheduler {
            Some(Scheduler::Trace(trace)) => trace.mean_bit_s(),
            Some(Scheduler::Cellular(trace)) => trace.mean_bit_s(),
            Some(Scheduler::Rate { rate, .. }) => rate.bit_s() as f64,
            Some(Scheduler::Grant(_) | Scheduler::Lora(_)) | None => 0.0,
        }
    }

    /// Measured rate while the link was sending, in bit/s; 0 if it never was.
    pub fn rate_measured_bit_s(&self) -> f64 {
        match self.measured.busy.as_ns() {
            0 => 0.0,
            busy => self.measured.wire_bytes as f64 * 8e9 / busy as f64,
        }
    }
}
