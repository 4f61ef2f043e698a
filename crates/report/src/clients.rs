//! Clients of brokers, one row each.

use crate::Error;
use crate::columns::Columns;
use std::path::Path;

/// One client of a broker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClientRow {
    /// Node of the client.
    pub client: String,
    /// Whether it publishes.
    pub publishes: bool,
    /// Whether it subscribes.
    pub subscribes: bool,
    /// Time when the broker first accepted it, in seconds since offset 0.
    pub connected_s: Option<f64>,
}

/// Reads `clients.parquet`.
pub(crate) fn read(path: &Path) -> Result<Vec<ClientRow>, Error> {
    let columns = Columns::open(path)?;
    let clients = columns.texts("client")?;
    let publishes = columns.numbers("publishes")?;
    let subscribes = columns.numbers("subscribes")?;
    let connected = columns.numbers("connected_ns")?;
    let rows = clients.into_iter().zip(publishes.into_iter().zip(subscribes)).zip(connected);
    let is = |value: Option<f64>| value.is_some_and(|value| value != 0.0);
    Ok(rows
        .map(|((client, (publishes, subscribes)), connected_ns)| ClientRow {
            client,
            publishes: is(publishes),
            subscribes: is(subscribes),
            connected_s: connected_ns.map(|ns| ns / 1e9),
        })
        .collect())
}
