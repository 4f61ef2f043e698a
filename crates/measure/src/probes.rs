//! Results of contention probes: excess of each response time over the service time.

use crate::tables::{Column, TableError, write};
use std::path::Path;
use std::sync::Arc;

/// One request of a probe. Times are in ns since the run's start.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeRow {
    /// The name of its workload.
    pub probe: Arc<str>,
    /// The node that it ran on.
    pub node: Arc<str>,
    /// The core that it probed.
    pub core: u32,
    /// `sleep` or `busy`.
    pub mode: Arc<str>,
    /// Scheduled send time.
    pub intended_ns: i64,
    /// Actual send time.
    pub sent_ns: i64,
    /// Time of the answer; `None` if it was too late.
    pub answered_ns: Option<i64>,
    /// The normalised deviation (R - S) / S of the response time from the service time.
    pub deviation: f64,
}

/// Writes `probes.parquet`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_probes(path: &Path, rows: &[ProbeRow]) -> Result<(), TableError> {
    let text = |of: fn(&ProbeRow) -> &str| {
        Column::Text(rows.iter().map(|row| of(row).to_owned()).collect())
    };
    let columns = vec![
        ("probe", text(|r| &r.probe)),
        ("node", text(|r| &r.node)),
        ("core", Column::Short(rows.iter().map(|r| r.core).collect())),
        ("mode", text(|r| &r.mode)),
        ("intended_ns", Column::Signed(rows.iter().map(|r| r.intended_ns).collect())),
        ("sent_ns", Column::Signed(rows.iter().map(|r| r.sent_ns).collect())),
        ("answered_ns", Column::Maybe(rows.iter().map(|r| r.answered_ns).collect())),
        ("deviation", Column::Real(rows.iter().map(|r| r.deviation).collect())),
    ];
    write(path, columns)
}
