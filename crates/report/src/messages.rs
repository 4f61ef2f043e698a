//! Messages, one row each.

use crate::Error;
use crate::columns::Columns;
use std::path::Path;

/// Times of a message, in ns from the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MessageTimes {
    /// Scheduled time of sending.
    pub intended_ns: Option<f64>,
    /// Time of receipt at the other side.
    pub received_ns: Option<f64>,
    /// Time of receipt of the answer.
    pub reply_received_ns: Option<f64>,
}

impl MessageTimes {
    /// Scheduled sending to receipt, ms.
    pub fn one_way_ms(&self) -> Option<f64> {
        Some((self.received_ns? - self.intended_ns?) / 1e6)
    }

    /// Scheduled sending to receipt of the answer, ms.
    pub fn round_trip_ms(&self) -> Option<f64> {
        Some((self.reply_received_ns? - self.intended_ns?) / 1e6)
    }
}

/// Reads `messages.parquet`, without warm-up messages.
pub(crate) fn read(path: &Path) -> Result<Vec<MessageTimes>, Error> {
    let columns = Columns::open(path)?;
    let intended = columns.numbers("intended_ns")?;
    let received = columns.numbers("received_ns")?;
    let replies = columns.numbers("reply_received_ns")?;
    // Runs of earlier versions have no warm-up column.
    let warmup = match columns.has("warmup") {
        true => columns.numbers("warmup")?,
        false => vec![None; intended.len()],
    };
    let rows = intended.into_iter().zip(received).zip(replies).zip(warmup);
    Ok(rows
        .filter(|(_, warmup)| warmup.is_none_or(|warmup| warmup == 0.0))
        .map(|(((intended_ns, received_ns), reply_received_ns), _)| MessageTimes {
            intended_ns,
            received_ns,
            reply_received_ns,
        })
        .collect())
}
