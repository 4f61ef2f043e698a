//! Resource usage of each node per second.

use crate::Error;
use crate::columns::Columns;
use std::path::Path;

/// A node's usage in one second of the run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageRow {
    /// The node.
    pub node: String,
    /// Second, counted from the start of sampling.
    pub second: u32,
    /// CPU time in that second, ms; user and system.
    pub cpu_ms: f64,
    /// Memory in use at the end of the second.
    pub memory_bytes: f64,
}

/// Reads `nodes.parquet`.
pub(crate) fn read(path: &Path) -> Result<Vec<UsageRow>, Error> {
    let columns = Columns::open(path)?;
    let nodes = columns.texts("node")?;
    let seconds = columns.numbers("second")?;
    let user = columns.numbers("cpu_user_ms")?;
    let system = columns.numbers("cpu_system_ms")?;
    // Folders of earlier versions have resident memory instead.
    let memory = columns.numbers("memory_bytes").or_else(|_| columns.numbers("rss_bytes"))?;
    let rows = nodes.into_iter().zip(seconds).zip(user.into_iter().zip(system)).zip(memory);
    Ok(rows
        .filter_map(|(((node, second), (user, system)), memory)| {
            Some(UsageRow {
                node,
                second: second? as u32,
                cpu_ms: user.unwrap_or(0.0) + system.unwrap_or(0.0),
                memory_bytes: memory.unwrap_or(0.0),
            })
        })
        .collect())
}
