//! Results of contention probes: excess of each response time over the service time.

use crate::row_code::{Get, Put, Row};
use crate::row_table::RowTable;
use crate::tables::{Column, Columns, TableError, stream};
use std::io;
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

impl Row for ProbeRow {
    const BYTES: usize = 7 * 8 + 4;

    fn put(&self, to: &mut Put<'_>) {
        [&self.probe, &self.node, &self.mode].into_iter().for_each(|name| to.text(name));
        to.short(self.core);
        to.signed(self.intended_ns);
        to.signed(self.sent_ns);
        to.maybe(self.answered_ns);
        to.real(self.deviation);
    }

    fn get(from: &mut Get<'_>) -> io::Result<Self> {
        Ok(Self {
            probe: from.text()?,
            node: from.text()?,
            mode: from.text()?,
            core: from.short(),
            intended_ns: from.signed(),
            sent_ns: from.signed(),
            answered_ns: from.maybe(),
            deviation: from.real(),
        })
    }
}

/// Writes `probes.parquet`.
///
/// # Errors
/// When rows cannot be read, or the file cannot be written.
pub fn write_probes(path: &Path, rows: &RowTable<ProbeRow>) -> Result<(), TableError> {
    stream(path, rows.iter(), columns)
}

fn columns(rows: &[ProbeRow]) -> Columns {
    let text = |of: fn(&ProbeRow) -> &str| {
        Column::Text(rows.iter().map(|row| of(row).to_owned()).collect())
    };
    vec![
        ("probe", text(|r| &r.probe)),
        ("node", text(|r| &r.node)),
        ("core", Column::Short(rows.iter().map(|r| r.core).collect())),
        ("mode", text(|r| &r.mode)),
        ("intended_ns", Column::Signed(rows.iter().map(|r| r.intended_ns).collect())),
        ("sent_ns", Column::Signed(rows.iter().map(|r| r.sent_ns).collect())),
        ("answered_ns", Column::Maybe(rows.iter().map(|r| r.answered_ns).collect())),
        ("deviation", Column::Real(rows.iter().map(|r| r.deviation).collect())),
    ]
}
