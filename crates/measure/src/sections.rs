//! Sections of exchanges: their times and frames.

use crate::tables::{Column, TableError, write};
use record::event::Section;
use std::path::Path;
use std::sync::Arc;

/// One section of one exchange. Times are in ns since the run's start; bytes are those of frames at
/// the driving node, link header included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SectionRow {
    /// The exchange's number.
    pub message: u64,
    /// The name of its workload.
    pub interaction: Arc<str>,
    /// The driving node, where frames were counted.
    pub node: Arc<str>,
    /// The section.
    pub section: Section,
    /// Bytes of payload of the exchange.
    pub payload_bytes: u32,
    /// Start time.
    pub begin_ns: i64,
    /// End time.
    pub end_ns: i64,
    /// Bytes that the node sent.
    pub out_bytes: u64,
    /// Bytes that it received.
    pub in_bytes: u64,
    /// Frames that it sent.
    pub out_frames: u64,
    /// Frames that it received.
    pub in_frames: u64,
    /// Whether the exchange failed.
    pub failed: bool,
}

impl SectionRow {
    /// Bytes in both directions.
    pub fn bytes(&self) -> u64 {
        self.out_bytes + self.in_bytes
    }
}

/// Writes `sections.parquet`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_sections(path: &Path, rows: &[SectionRow]) -> Result<(), TableError> {
    let text = |of: fn(&SectionRow) -> &str| {
        Column::Text(rows.iter().map(|row| of(row).to_owned()).collect())
    };
    let whole = |of: fn(&SectionRow) -> u64| Column::Whole(rows.iter().map(of).collect());
    let columns = vec![
        ("message", whole(|r| r.message)),
        ("interaction", text(|r| &r.interaction)),
        ("node", text(|r| &r.node)),
        ("section", Column::Text(rows.iter().map(|r| r.section.to_string()).collect())),
        ("payload_bytes", Column::Short(rows.iter().map(|r| r.payload_bytes).collect())),
        ("begin_ns", Column::Signed(rows.iter().map(|r| r.begin_ns).collect())),
        ("end_ns", Column::Signed(rows.iter().map(|r| r.end_ns).collect())),
        ("out_bytes", whole(|r| r.out_bytes)),
        ("in_bytes", whole(|r| r.in_bytes)),
        ("out_frames", whole(|r| r.out_frames)),
        ("in_frames", whole(|r| r.in_frames)),
        ("failed", Column::Short(rows.iter().map(|r| u32::from(r.failed)).collect())),
    ];
    write(path, columns)
}
