//! The table of values that programs printed.

use crate::row_code::{Get, Put, Row};
use crate::row_table::RowTable;
use crate::tables::{Column, Columns, TableError, stream};
use std::io;
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

impl Row for ProgramValue {
    const BYTES: usize = 7 * 8;

    fn put(&self, to: &mut Put<'_>) {
        let names = [&self.program, &self.node, &self.metric, &self.unit];
        names.into_iter().for_each(|name| to.text(name));
        to.whole(self.number);
        to.maybe(self.time_ns);
        to.real(self.value);
    }

    fn get(from: &mut Get<'_>) -> io::Result<Self> {
        Ok(Self {
            program: from.text()?,
            node: from.text()?,
            metric: from.text()?,
            unit: from.text()?,
            number: from.whole(),
            time_ns: from.maybe(),
            value: from.real(),
        })
    }
}

/// Writes `metrics.parquet`.
///
/// # Errors
/// When rows cannot be read, or the file cannot be written.
pub fn write_program_values(path: &Path, rows: &RowTable<ProgramValue>) -> Result<(), TableError> {
    stream(path, rows.iter(), columns)
}

fn columns(rows: &[ProgramValue]) -> Columns {
    let text = |of: fn(&ProgramValue) -> &str| {
        Column::Text(rows.iter().map(|row| of(row).to_owned()).collect())
    };
    vec![
        ("program", text(|row| &row.program)),
        ("node", text(|row| &row.node)),
        ("metric", text(|row| &row.metric)),
        ("number", Column::Whole(rows.iter().map(|row| row.number).collect())),
        ("time_ns", Column::Maybe(rows.iter().map(|row| row.time_ns).collect())),
        ("value", Column::Real(rows.iter().map(|row| row.value).collect())),
        ("unit", text(|row| &row.unit)),
    ]
}
