//! Link measurements by interval: configured against measured.

use crate::Error;
use crate::columns::Columns;
use std::path::Path;

/// One direction of a link in one interval.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IntervalRow {
    /// Node at the end of the link.
    pub node: String,
    /// Interface of the node.
    pub interface: String,
    /// `up`: from the node into the network; `down`: to the node.
    pub direction: String,
    /// Start of the interval, in seconds since offset 0.
    pub start_s: f64,
    /// End of the interval, in seconds since offset 0.
    pub end_s: f64,
    /// Bytes that arrived at the link.
    pub bytes: f64,
    /// Frames that left the queue and could be lost.
    pub at_risk: f64,
    /// Frames lost.
    pub lost: f64,
    /// Mean delay, ms: configured, measured, tolerance.
    pub delay_ms: [f64; 3],
    /// Loss, percent: configured, measured, tolerance.
    pub loss_pct: [f64; 3],
    /// Rate, bit/s: configured, measured.
    pub rate_bit_s: [f64; 2],
    /// Whether the link is within tolerance.
    pub kept: bool,
}

/// Reads `intervals.parquet`.
pub(crate) fn read(path: &Path) -> Result<Vec<IntervalRow>, Error> {
    let columns = Columns::open(path)?;
    let (nodes, interfaces) = (columns.texts("node")?, columns.texts("interface")?);
    let directions = columns.texts("direction")?;
    let names = [
        "start_s",
        "end_s",
        "frames",
        "duplicated",
        "overflow",
        "outage",
        "denied",
        "lost",
        "delay_configured_ms",
        "delay_measured_ms_mean",
        "delay_tolerance_ms",
        "loss_configured_pct",
        "loss_measured_pct",
        "loss_tolerance_pct",
        "rate_configured_bit_s",
        "rate_measured_bit_s",
        "kept",
        "bytes",
    ];
    let numbers = names.iter().map(|name| columns.numbers(name)).collect::<Result<Vec<_>, _>>()?;
    // Runs of earlier versions do not have these columns.
    let later = ["weak_signal", "too_long"].map(|name| columns.numbers(name).unwrap_or_default());
    let later = |row: usize| {
        let at = |column: &Vec<Option<f64>>| column.get(row).copied().flatten().unwrap_or(0.0);
        later.iter().map(at).sum::<f64>()
    };
    let rows = nodes.into_iter().zip(interfaces).zip(directions).enumerate();
    Ok(rows
        .map(|(row, ((node, interface), direction))| {
            let at = |column: usize| {
                let value = numbers[column].get(row).copied().flatten();
                // An idle interval has no mean: NaN or null.
                value.filter(|value| value.is_finite()).unwrap_or(0.0)
            };
            IntervalRow {
                node,
                interface,
                direction,
                start_s: at(0),
                end_s: at(1),
                // Frames and their duplicates, without those that a full queue, an outage, a
                // channel, a weak signal or the path's MTU dropped before the loss.
                at_risk: at(2) + at(3) - at(4) - at(5) - at(6) - later(row),
                lost: at(7),
                delay_ms: [at(8), at(9), at(10)],
                loss_pct: [at(11), at(12), at(13)],
                rate_bit_s: [at(14), at(15)],
                kept: at(16) != 0.0,
                bytes: at(17),
            }
        })
        .collect())
}
