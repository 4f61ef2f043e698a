//! The sender of a LoRa radio: the time on air of each packet, and the duty cycle of its sub-band.
//!
//! 1. A frame has its Ethernet header and the link's `overhead` on the air: `overhead: -29 B` leaves 13 B
//!    of LoRaWAN in place of the headers of Ethernet, IPv4 and UDP, which SCHC (RFC 9011) elides.
//! 2. The time on air is that of the Semtech SX1276 data sheet (4.1.1.7) and application note AN1200.13,
//!    with an explicit header and a checksum: a preamble of `preamble` + 4.25 symbols, 8 symbols, and
//!    `coding_rate` + 4 symbols for each started 4 x (SF - 2 DE) bits. DE, the optimisation for low
//!    data rates, is on if a symbol takes more than 16 ms.
//! 3. With a `duty_period` the sub-band has a budget of time on air of `duty_cycle` x `duty_period`, full
//!    at the start, which refills evenly; a packet waits until the budget covers it. ETSI EN 300 220
//!    observes an hour, and LoRaMac-node keeps such credits from version 4.5 on.
//! 4. Without it, a packet of T on air is followed by a pause of T x (1 / `duty_cycle` - 1), as LoRaWAN
//!    1.0.x requires in 7.1.1.1.
//! 5. One packet at a time, in the order of arrival.

mod spec;
#[cfg(test)]
mod tests;

pub(crate) use spec::LORA;
pub use spec::{Bandwidth, CodingRate, LoraSpec};

use units::Instant;

/// State of one sender.
#[derive(Debug, Clone)]
pub struct Lora {
    spec: LoraSpec,
    /// End of the last packet.
    free_at: Instant,
    /// When the pause ends, or the budget is full.
    full_at: Instant,
}

impl Lora {
    /// An idle sender with a full budget. `spec` must have passed [`LoraSpec::check`].
    pub fn new(spec: LoraSpec) -> Self {
        Self { spec, free_at: Instant::START, full_at: Instant::START }
    }

    /// Sends a packet of `bytes` on air that is ready at `now`; returns the time of its last bit. `now`
    /// must not decrease.
    pub fn send(&mut self, bytes: u64, now: Instant) -> Instant {
        let on_air = self.spec.time_on_air(bytes);
        let used = self.spec.share(on_air);
        let allowed = match (self.spec.duty_cycle, self.spec.duty_period) {
            (None, _) => Instant::START,
            (Some(_), None) => self.full_at,
            // A packet that is longer than the whole budget is sent when the budget is full.
            (Some(_), Some(period)) => {
                // A virtual schedule: `full_at` is when the budget is full again, so it covers the
                // packet as soon as all debts refill within one period.
                let after = (self.full_at + used).since_start().as_ns();
                let after = after.saturating_sub(period.as_ns());
                Instant::from_ns(after).min(self.full_at)
            }
        };
        let starts = now.max(self.free_at).max(allowed);
        self.full_at = self.full_at.max(starts) + used;
        self.free_at = starts + on_air;
        self.free_at
    }
}
