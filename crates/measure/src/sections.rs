//! Sections of exchanges: their times and frames.

use crate::row_code::{Get, Put, Row};
use crate::row_table::RowTable;
use crate::tables::{Column, Columns, TableError, stream};
use record::event::Section;
use std::io;
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
    /// Whether a receiver answered, so that the exchange counts in statistics. Not in the table.
    pub answered: bool,
    /// Whether the exchange only warms up its connection. Not in the table.
    pub warmup: bool,
}

impl SectionRow {
    /// Bytes in both directions.
    pub fn bytes(&self) -> u64 {
        self.out_bytes + self.in_bytes
    }
}

impl Row for SectionRow {
    const BYTES: usize = 10 * 8 + 4 + 3;

    fn put(&self, to: &mut Put<'_>) {
        to.text(&self.interaction);
        to.text(&self.node);
        to.whole(number(self.section));
        to.whole(self.message);
        to.signed(self.begin_ns);
        to.signed(self.end_ns);
        let counts = [self.out_bytes, self.in_bytes, self.out_frames, self.in_frames];
        counts.into_iter().for_each(|count| to.whole(count));
        to.short(self.payload_bytes);
        to.flag(self.failed);
        to.flag(self.answered);
        to.flag(self.warmup);
    }

    fn get(from: &mut Get<'_>) -> io::Result<Self> {
        Ok(Self {
            interaction: from.text()?,
            node: from.text()?,
            section: section(from.whole()),
            message: from.whole(),
            begin_ns: from.signed(),
            end_ns: from.signed(),
            out_bytes: from.whole(),
            in_bytes: from.whole(),
            out_frames: from.whole(),
            in_frames: from.whole(),
            payload_bytes: from.short(),
            failed: from.flag(),
            answered: from.flag(),
            warmup: from.flag(),
        })
    }
}

/// The sections by number in the file; a block has its number behind them.
const SECTIONS: [Section; 6] = [
    Section::All,
    Section::TransportConnect,
    Section::ProtocolConnect,
    Section::Payload,
    Section::ProtocolClose,
    Section::TransportClose,
];

fn number(section: Section) -> u64 {
    if let Section::Block(block) = section {
        return SECTIONS.len() as u64 + u64::from(block);
    }
    SECTIONS.iter().position(|known| *known == section).unwrap_or_default() as u64
}

fn section(number: u64) -> Section {
    let block = || Section::Block((number as usize - SECTIONS.len()) as u32);
    SECTIONS.get(number as usize).copied().unwrap_or_else(block)
}

/// Writes `sections.parquet`.
///
/// # Errors
/// When rows cannot be read, or the file cannot be written.
pub fn write_sections(path: &Path, rows: &RowTable<SectionRow>) -> Result<(), TableError> {
    stream(path, rows.iter(), columns)
}

fn columns(rows: &[SectionRow]) -> Columns {
    let text = |of: fn(&SectionRow) -> &str| {
        Column::Text(rows.iter().map(|row| of(row).to_owned()).collect())
    };
    let whole = |of: fn(&SectionRow) -> u64| Column::Whole(rows.iter().map(of).collect());
    vec![
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
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_section_has_one_number() {
        let blocks = [0, 1, 7, u32::MAX].map(Section::Block);
        for own in SECTIONS.into_iter().chain(blocks) {
            assert_eq!(section(number(own)), own);
        }
        let numbers: std::collections::BTreeSet<u64> =
            SECTIONS.into_iter().chain(blocks).map(number).collect();
        assert_eq!(numbers.len(), 10);
    }
}
