//! Links, one row per direction: configured against measured.

use crate::Error;
use crate::columns::Columns;
use std::path::Path;

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkRow {
    /// Node at the end of the link.
    pub node: String,
    /// `up`: from the node into the network; `down`: to the node.
    pub direction: String,
    /// Frames that arrived at the link.
    pub frames: f64,
    /// Frames lost by the loss impairment.
    pub lost: f64,
    /// Frames dropped because the queue was full.
    pub overflow: f64,
    /// Frames dropped because the link was down.
    pub outage: f64,
    /// Frames dropped on a contended channel: collisions, or no channel access.
    pub contention: f64,
    /// Of these, those that LoRa gateways could not receive: without a demodulator, or while they sent.
    pub gateway_busy: f64,
    /// Frames dropped because the signal was too weak at the receiver.
    pub weak_signal: f64,
    /// Frames dropped because their packet was longer than the path's MTU.
    pub too_long: f64,
    /// Configured mean delay, ms; `None` if it changed during the run.
    pub delay_configured_ms: Option<f64>,
    /// Measured mean delay, ms.
    pub delay_measured_ms: Option<f64>,
    /// Measured maximum delay, ms.
    pub delay_max_ms: Option<f64>,
    /// Configured loss, percent; `None` if it changed during the run.
    pub loss_configured_pct: Option<f64>,
    /// Measured loss, percent.
    pub loss_measured_pct: Option<f64>,
    /// Configured rate, bit/s; 0 means no limit.
    pub rate_configured_bit_s: f64,
}

impl LinkRow {
    /// Deviation of the loss from the configuration, in standard deviations of independent frame
    /// losses. Loss by train varies more.
    pub fn loss_deviations(&self) -> Option<f64> {
        let configured = self.loss_configured_pct? / 100.0;
        let drawn = self.drawn();
        let spread = (drawn * configured * (1.0 - configured)).sqrt();
        // A configured loss of 0 or 100 % has no spread.
        (spread > 0.0).then(|| (self.lost - drawn * configured) / spread)
    }

    /// Frames with a random loss decision: those that were not dropped before for another reason.
    pub fn drawn(&self) -> f64 {
        let by_channel = self.contention + self.weak_signal;
        let dropped = self.overflow + self.outage + by_channel + self.too_long;
        (self.frames - dropped).max(0.0)
    }

    /// Measured minus configured mean delay, ms.
    pub fn delay_excess_ms(&self) -> Option<f64> {
        Some(self.delay_measured_ms? - self.delay_configured_ms?)
    }
}

/// Reads `links.parquet`.
pub(crate) fn read(path: &Path) -> Result<Vec<LinkRow>, Error> {
    let columns = Columns::open(path)?;
    let nodes = columns.texts("node")?;
    let directions = columns.texts("direction")?;
    let names = [
        "frames",
        "lost",
        "overflow",
        "delay_configured_ms",
        "delay_measured_ms_mean",
        "delay_measured_ms_max",
        "loss_configured_pct",
        "loss_measured_pct",
        "rate_configured_bit_s",
    ];
    let numbers = names.iter().map(|name| columns.numbers(name)).collect::<Result<Vec<_>, _>>()?;
    // An idle link has no mean: NaN or null.
    let at = |column: usize, row: usize| {
        numbers[column].get(row).copied().flatten().filter(|value| value.is_finite())
    };
    // If the configuration changed during the run, there is no single value to compare with. Runs
    // of earlier versions do not have this column.
    let changing = columns.numbers("changing").unwrap_or_default();
    let steady = |row: usize| changing.get(row).copied().flatten() != Some(1.0);
    // Neither do they have all causes of drops.
    let causes = ["outage", "denied", "no_demodulator", "half_duplex", "weak_signal", "too_long"];
    let [outage, contention, no_demodulator, half_duplex, weak_signal, too_long] =
        causes.map(|name| columns.numbers(name).unwrap_or_default());
    let drops =
        |column: &[Option<f64>], row: usize| column.get(row).copied().flatten().unwrap_or(0.0);
    // Thingbed does not measure the delays of netem links.
    let backends = columns.texts("backend").unwrap_or_default();
    let measured = |row: usize| backends.get(row).is_none_or(|backend| backend != "netem");
    let rows = nodes.into_iter().zip(directions).enumerate();
    Ok(rows
        .map(|(row, (node, direction))| LinkRow {
            node,
            direction,
            frames: at(0, row).unwrap_or(0.0),
            lost: at(1, row).unwrap_or(0.0),
            overflow: at(2, row).unwrap_or(0.0),
            outage: drops(&outage, row),
            contention: drops(&contention, row),
            gateway_busy: drops(&no_demodulator, row) + drops(&half_duplex, row),
            weak_signal: drops(&weak_signal, row),
            too_long: drops(&too_long, row),
            delay_configured_ms: at(3, row).filter(|_| steady(row)),
            delay_measured_ms: at(4, row).filter(|_| measured(row)),
            delay_max_ms: at(5, row).filter(|_| measured(row)),
            loss_configured_pct: at(6, row).filter(|_| steady(row)),
            loss_measured_pct: at(7, row),
            rate_configured_bit_s: at(8, row).unwrap_or(0.0),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_judged_by_the_frames_that_were_drawn_for() {
        let row = LinkRow {
            frames: 110.0,
            overflow: 10.0,
            lost: 60.0,
            loss_configured_pct: Some(50.0),
            ..LinkRow::default()
        };
        assert_eq!(row.loss_deviations(), Some(2.0));
        // Frames that were dropped for other reasons have no loss decision either.
        let (outage, contention, weak_signal) = (20.0, 30.0, 50.0);
        let dropped = LinkRow { frames: 210.0, outage, contention, weak_signal, ..row.clone() };
        assert_eq!(dropped.loss_deviations(), Some(2.0));
        assert_eq!(LinkRow { loss_configured_pct: Some(0.0), ..row }.loss_deviations(), None);
    }
}
