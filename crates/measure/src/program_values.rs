//! The table of values that programs printed.

use crate::tables::{Column, TableError, write};
use std::path::Path;
use std::sync::Arc;

/// One value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramValue {
    /// The command, or the group whose program it is.
    pub program: Arc<str>,
    /// The node.
    pub node: Arc<str>,
    /// The metric.
    pub metric: Arc<str>,
    /// Number of the value among those of this program on this node, from 0.
    pub number: u64,
    /// When the collector received it, in ns from offset 0; `None` for output, which has no times.
    pub time_ns: Option<i64>,
    /// The value, in `unit`.
    pub value: f64,
    /// Its unit; may be empty.
    pub unit: Arc<str>,
}

/// Writes `metrics.parquet`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_program_values(path: &Path, rows: &[ProgramValue]) -> Result<(), TableError> {
    let text = |of: fn(&ProgramValue) -> &str| {
        Column::Text(rows.iter().map(|row| of(row).to_owned()).collect())
    };
    let columns = vec![
        ("program", text(|row| &row.program)),
        ("node", text(|row| &row.node)),
        ("metric", text(|row| &row.metric)),
        ("number", Column::Whole(rows.iter().map(|row| row.number).collect())),
        ("time_ns", Column::Maybe(rows.iter().map(|row| row.time_ns).collect())),
        ("value", Column::Real(rows.iter().map(|row| row.value).collect())),
        ("unit", text(|row| &row.unit)),
    ];
    write(path, columns)
}
