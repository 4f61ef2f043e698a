//! Clients of a broker: when each joined, and how often it lost its connection.

use crate::tables::{Column, TableError, write};
use std::path::Path;
use std::sync::Arc;

/// One client. Times are in ns since the run's start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientRow {
    /// The name of its workload.
    pub interaction: Arc<str>,
    /// Its node.
    pub client: Arc<str>,
    /// Whether it publishes.
    pub publishes: bool,
    /// Whether it subscribes.
    pub subscribes: bool,
    /// Scheduled join time; `None` if before the start.
    pub joins_ns: Option<i64>,
    /// When the broker first accepted it; `None` if never.
    pub connected_ns: Option<i64>,
    /// Number of times that the broker accepted it.
    pub connections: u32,
    /// Number of lost connections.
    pub lost: u32,
}

/// Writes `clients.parquet`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_clients(path: &Path, rows: &[ClientRow]) -> Result<(), TableError> {
    let short = |of: fn(&ClientRow) -> u32| Column::Short(rows.iter().map(of).collect());
    let columns = vec![
        ("interaction", Column::Text(rows.iter().map(|r| r.interaction.to_string()).collect())),
        ("client", Column::Text(rows.iter().map(|r| r.client.to_string()).collect())),
        ("publishes", short(|r| u32::from(r.publishes))),
        ("subscribes", short(|r| u32::from(r.subscribes))),
        ("joins_ns", Column::Maybe(rows.iter().map(|r| r.joins_ns).collect())),
        ("connected_ns", Column::Maybe(rows.iter().map(|r| r.connected_ns).collect())),
        ("connections", short(|r| r.connections)),
        ("lost", short(|r| r.lost)),
    ];
    write(path, columns)
}
