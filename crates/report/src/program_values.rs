//! Values of programs' metrics, one row each.

use crate::Error;
use crate::columns::Columns;
use std::path::Path;

/// One value of a metric.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgramValueRow {
    /// The command, or the group whose program it is.
    pub program: String,
    /// The node.
    pub node: String,
    /// The metric.
    pub metric: String,
    /// Time of receipt in seconds since offset 0; `None` for values in output, which have no times.
    pub time_s: Option<f64>,
    /// The value, in `unit`.
    pub value: f64,
    /// Its unit; may be empty.
    pub unit: String,
}

/// Reads `metrics.parquet`, without values that are not numbers.
pub(crate) fn read(path: &Path) -> Result<Vec<ProgramValueRow>, Error> {
    let columns = Columns::open(path)?;
    let (programs, nodes) = (columns.texts("program")?, columns.texts("node")?);
    let (metrics, units) = (columns.texts("metric")?, columns.texts("unit")?);
    let (times, values) = (columns.numbers("time_ns")?, columns.numbers("value")?);
    let texts = programs.into_iter().zip(nodes).zip(metrics.into_iter().zip(units));
    let rows = texts.zip(times.into_iter().zip(values));
    Ok(rows
        .filter_map(|(((program, node), (metric, unit)), (time_ns, value))| {
            let value = value.filter(|value| value.is_finite())?;
            let time_s = time_ns.map(|ns| ns / 1e9);
            Some(ProgramValueRow { program, node, metric, time_s, value, unit })
        })
        .collect())
}
