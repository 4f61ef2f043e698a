//! Writes the run folder's tables as Parquet.

use crate::links::LinkRow;
use crate::message::{Message, MessageTable};
use crate::tolerance::Tolerances;
use crate::usage::UsageRow;
use journal::Draft;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::Span;

/// Why a table could not be written.
#[derive(Debug, thiserror::Error)]
#[error("could not write the table {path}: {why}")]
pub struct TableError {
    path: PathBuf,
    why: String,
}

impl TableError {
    pub(crate) fn new(path: &Path, why: String) -> Self {
        Self { path: path.to_owned(), why }
    }

    /// Whether there was no space: see [`journal::is_full`]. The Parquet writer passes on only the text of an error.
    pub fn is_full(&self) -> bool {
        journal::FULL.iter().any(|errno| self.is(*errno))
    }

    /// Whether removing other files makes space for it: not if its own size is limited.
    pub fn needs_space(&self) -> bool {
        self.is_full() && !self.is(libc::EFBIG)
    }

    fn is(&self, errno: i32) -> bool {
        self.why.contains(&io::Error::from_raw_os_error(errno).to_string())
    }
}

/// One column's values.
pub(crate) enum Column {
    Text(Vec<String>),
    Whole(Vec<u64>),
    Short(Vec<u32>),
    Signed(Vec<i64>),
    Maybe(Vec<Option<i64>>),
    Real(Vec<f64>),
}

/// Columns with their names.
pub(crate) type Columns = Vec<(&'static str, Column)>;

/// Rows of a row group that is written at once.
const GROUP: usize = 16_384;

/// Writes `messages.parquet`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_messages(path: &Path, rows: &MessageTable) -> Result<(), TableError> {
    stream(path, rows.iter(), message_columns)
}

fn message_columns(rows: &[Message]) -> Columns {
    let text =
        |of: fn(&Message) -> &str| Column::Text(rows.iter().map(|m| of(m).to_owned()).collect());
    let maybe = |of: fn(&Message) -> Option<i64>| Column::Maybe(rows.iter().map(of).collect());
    vec![
        ("message", Column::Whole(rows.iter().map(|m| m.message).collect())),
        ("interaction", text(|m| &m.interaction)),
        ("sender", text(|m| &m.sender)),
        ("peer", text(|m| &m.peer)),
        ("intended_ns", Column::Signed(rows.iter().map(|m| m.intended_ns).collect())),
        ("sent_ns", maybe(|m| m.sent_ns)),
        ("received_ns", maybe(|m| m.received_ns)),
        ("reply_sent_ns", maybe(|m| m.reply_sent_ns)),
        ("reply_received_ns", maybe(|m| m.reply_received_ns)),
        ("acknowledged_ns", maybe(|m| m.acknowledged_ns)),
        ("duplicates", Column::Short(rows.iter().map(|m| m.duplicates).collect())),
        ("bytes", Column::Short(rows.iter().map(|m| m.bytes).collect())),
        ("held_ns", Column::Signed(rows.iter().map(|m| m.held_ns).collect())),
        ("warmup", Column::Short(rows.iter().map(|m| u32::from(m.warmup)).collect())),
        ("failure", text(|m| m.failed.as_ref().map_or("", |failed| failed.reason.text()))),
        ("detail", text(|m| m.failed.as_ref().map_or("", |failed| &failed.detail))),
    ]
}

/// Writes `links.parquet` or `intervals.parquet`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_links(
    path: &Path,
    rows: impl Iterator<Item = io::Result<LinkRow>>,
    tolerances: &Tolerances,
) -> Result<(), TableError> {
    stream(path, rows, |rows| link_columns(rows, tolerances))
}

fn link_columns(rows: &[LinkRow], tolerances: &Tolerances) -> Columns {
    let text = |of: fn(&LinkRow) -> &str| {
        Column::Text(rows.iter().map(|row| of(row).to_owned()).collect())
    };
    let whole = |of: fn(&LinkRow) -> u64| Column::Whole(rows.iter().map(of).collect());
    let real = |of: fn(&LinkRow) -> f64| Column::Real(rows.iter().map(of).collect());
    let tolerance = |of: &dyn Fn(&LinkRow) -> f64| Column::Real(rows.iter().map(of).collect());
    let kept = rows.iter().map(|row| u64::from(tolerances.deviation(row).is_none()));
    vec![
        ("node", text(|r| &r.node)),
        ("direction", text(|r| r.direction)),
        ("interface", text(|r| &r.interface)),
        ("network", text(|r| &r.network)),
        ("backend", text(|r| if r.by_netem { "netem" } else { "medium" })),
        ("start_s", real(|r| r.start_s)),
        ("end_s", real(|r| r.end_s)),
        ("frames", whole(|r| r.measured.frames)),
        ("bytes", whole(|r| r.measured.bytes)),
        ("lost", whole(|r| r.measured.lost)),
        ("overflow", whole(|r| r.measured.overflow)),
        ("outage", whole(|r| r.measured.outage)),
        ("denied", whole(|r| r.measured.denied)),
        ("no_access", whole(|r| r.measured.no_access)),
        ("no_demodulator", whole(|r| r.measured.no_demodulator)),
        ("half_duplex", whole(|r| r.measured.half_duplex)),
        ("weak_signal", whole(|r| r.measured.weak_signal)),
        ("too_long", whole(|r| r.measured.too_long)),
        ("rejected", whole(|r| r.measured.rejected)),
        ("corrupted", whole(|r| r.measured.corrupted)),
        ("duplicated", whole(|r| r.measured.duplicated)),
        ("reordered", whole(|r| r.measured.reordered)),
        ("retried", whole(|r| r.measured.retried)),
        ("collided", whole(|r| r.measured.collided)),
        ("radio_sending_ms", real(|r| r.measured.radio_sending.as_ms())),
        ("radio_receiving_ms", real(|r| r.measured.radio_receiving.as_ms())),
        ("delay_configured_ms", real(|r| r.delay_configured_ms())),
        ("delay_measured_ms_mean", real(|r| r.delay_measured_ms())),
        ("delay_measured_ms_max", real(|r| r.measured.delay_max.as_ms())),
        ("delay_tolerance_ms", tolerance(&|r| tolerances.delay_ms(r))),
        ("jitter_configured_ms", real(|r| r.configured.delay.jitter.as_ms())),
        ("loss_configured_pct", real(|r| r.loss_configured_pct())),
        ("loss_measured_pct", real(|r| r.loss_measured_pct())),
        ("loss_tolerance_pct", tolerance(&|r| tolerances.loss_pct(r))),
        ("rate_configured_bit_s", real(|r| r.rate_configured_bit_s())),
        ("rate_measured_bit_s", real(|r| r.rate_measured_bit_s())),
        ("changing", whole(|r| u64::from(r.changing))),
        ("kept", Column::Whole(kept.collect())),
    ]
}

/// Writes `nodes.parquet`; `off` is the time of a node's second in which it was off or paused.
///
/// # Errors
/// When the file cannot be written.
pub fn write_nodes(
    path: &Path,
    rows: impl Iterator<Item = io::Result<UsageRow>>,
    off: impl Fn(&str, u32) -> Span,
) -> Result<(), TableError> {
    let with_off = |row: UsageRow| {
        let off = off(&row.node, row.second);
        (row, off)
    };
    stream(path, rows.map(|row| row.map(with_off)), node_columns)
}

fn node_columns(rows: &[(UsageRow, Span)]) -> Columns {
    let each = || rows.iter().map(|(row, _)| row);
    let ms = |of: fn(&UsageRow) -> Span| Column::Real(each().map(|row| of(row).as_ms()).collect());
    let whole = |of: fn(&UsageRow) -> u64| Column::Whole(each().map(of).collect());
    vec![
        ("node", Column::Text(each().map(|r| r.node.to_string()).collect())),
        ("second", Column::Short(each().map(|r| r.second).collect())),
        ("cpu_user_ms", ms(|r| r.used.user)),
        ("cpu_system_ms", ms(|r| r.used.system)),
        ("throttled_ms", ms(|r| r.used.throttled)),
        ("memory_bytes", whole(|r| r.used.memory)),
        ("memory_peak_bytes", whole(|r| r.used.memory_peak)),
        ("voluntary_switches", whole(|r| r.used.voluntary)),
        ("involuntary_switches", whole(|r| r.used.involuntary)),
        ("tx_frames", whole(|r| r.carried.tx[0])),
        ("tx_bytes", whole(|r| r.carried.tx[1])),
        ("rx_frames", whole(|r| r.carried.rx[0])),
        ("rx_bytes", whole(|r| r.carried.rx[1])),
        ("disk_read_bytes", whole(|r| r.used.disk_read)),
        ("disk_written_bytes", whole(|r| r.used.disk_written)),
        ("off_ms", Column::Real(rows.iter().map(|(_, off)| off.as_ms()).collect())),
    ]
}

/// Writes a table in constant memory.
pub(crate) fn stream<T>(
    path: &Path,
    mut rows: impl Iterator<Item = io::Result<T>>,
    columns: impl Fn(&[T]) -> Columns,
) -> Result<(), TableError> {
    let mut table = Rows::begin(path, &columns(&[]))?;
    loop {
        let group: io::Result<Vec<T>> = rows.by_ref().take(GROUP).collect();
        let group = group.map_err(|error| TableError::new(path, error.to_string()))?;
        if group.is_empty() {
            return table.end();
        }
        table.write(columns(&group))?;
    }
}

pub(crate) fn write(path: &Path, columns: Columns) -> Result<(), TableError> {
    let mut rows = Rows::begin(path, &columns)?;
    rows.write(columns)?;
    rows.end()
}

/// A table that is written in batches. It has its name when it is complete and on the disk.
pub(crate) struct Rows {
    path: PathBuf,
    draft: Draft,
    writer: SerializedFileWriter<File>,
}

impl Rows {
    /// Creates the file with these columns.
    pub fn begin(path: &Path, columns: &[(&'static str, Column)]) -> Result<Self, TableError> {
        let failed = |why: String| TableError::new(path, why);
        let draft = Draft::create(path).map_err(|error| failed(error.to_string()))?;
        let file = draft.file().try_clone().map_err(|error| failed(error.to_string()))?;
        let writer = writer(file, columns).map_err(|error| failed(error.to_string()))?;
        Ok(Self { path: path.to_owned(), draft, writer })
    }

    /// Adds rows.
    pub fn write(&mut self, columns: Vec<(&'static str, Column)>) -> Result<(), TableError> {
        write_group(&mut self.writer, columns)
            .map_err(|error| TableError::new(&self.path, error.to_string()))
    }

    /// Closes the file and gives it its name.
    pub fn end(self) -> Result<(), TableError> {
        let Self { path, draft, writer } = self;
        let closed = writer.close().map_err(|error| error.to_string());
        let ended = closed.and_then(|_| draft.commit().map_err(|error| error.to_string()));
        ended.map_err(|why| TableError::new(&path, why))
    }
}

fn write_group(
    writer: &mut SerializedFileWriter<File>,
    columns: Vec<(&'static str, Column)>,
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for (_, column) in columns {
        write_column(&mut group, column)?;
    }
    group.close().map(drop)
}

fn writer(
    file: File,
    columns: &[(&'static str, Column)],
) -> Result<SerializedFileWriter<File>, ParquetError> {
    let fields: String = columns
        .iter()
        .map(|(name, column)| match column {
            Column::Text(_) => format!("REQUIRED BYTE_ARRAY {name} (STRING);"),
            Column::Whole(_) => format!("REQUIRED INT64 {name} (INTEGER(64,false));"),
            Column::Short(_) => format!("REQUIRED INT32 {name} (INTEGER(32,false));"),
            Column::Signed(_) => format!("REQUIRED INT64 {name};"),
            Column::Maybe(_) => format!("OPTIONAL INT64 {name};"),
            Column::Real(_) => format!("REQUIRED DOUBLE {name};"),
        })
        .collect();
    let schema = Arc::new(parse_message_type(&format!("message rows {{ {fields} }}"))?);
    let compressed =
        WriterProperties::builder().set_compression(parquet::basic::Compression::SNAPPY).build();
    SerializedFileWriter::new(file, schema, Arc::new(compressed))
}

fn write_column(
    group: &mut SerializedRowGroupWriter<'_, File>,
    column: Column,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("more columns than the schema has".to_owned());
    let mut writer = group.next_column()?.ok_or_else(missing)?;
    match column {
        Column::Text(values) => {
            let values: Vec<_> =
                values.into_iter().map(|text| ByteArray::from(text.into_bytes())).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        }
        Column::Whole(values) => {
            // Parquet has unsigned numbers only as annotations of signed ones; the bits are the
            // same.
            let values: Vec<_> = values.into_iter().map(|value| value as i64).collect();
            writer.typed::<Int64Type>().write_batch(&values, None, None)?;
        }
        Column::Short(values) => {
            let values: Vec<_> = values.into_iter().map(|value| value as i32).collect();
            writer.typed::<Int32Type>().write_batch(&values, None, None)?;
        }
        Column::Signed(values) => {
            writer.typed::<Int64Type>().write_batch(&values, None, None)?;
        }
        Column::Maybe(values) => {
            // Definition levels: 1 for a value, 0 for none. Only values that exist are stored.
            let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
            let values: Vec<_> = values.into_iter().flatten().collect();
            writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
        }
        Column::Real(values) => {
            writer.typed::<DoubleType>().write_batch(&values, None, None)?;
        }
    }
    writer.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn messages_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("messages.parquet");
        let rows = [
            Message { peer: "meter-1".into(), sent_ns: Some(5), ..Message::default() },
            Message { message: 1, peer: "meter-2".into(), ..Message::default() },
        ];
        let mut table = MessageTable::new(dir.path());
        table.extend(rows);
        write_messages(&path, &table).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let read: Vec<_> = reader.get_row_iter(None).unwrap().map(|r| r.unwrap()).collect();
        assert_eq!(read.len(), 2);
        assert_eq!(
            read[1].to_string(),
            "{message: 1, interaction: \"\", sender: \"\", peer: \"meter-2\", intended_ns: 0, \
             sent_ns: null, received_ns: null, reply_sent_ns: null, reply_received_ns: null, \
             acknowledged_ns: null, duplicates: 0, bytes: 0, held_ns: 0, warmup: 0, failure: \"\", \
             detail: \"\"}"
        );
    }

    #[test]
    fn empty_tables_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("links.parquet");
        write_links(&path, std::iter::empty(), &Tolerances::of(&[])).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.get_row_iter(None).unwrap().count(), 0);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let columns = || vec![("n", Column::Whole((0..100_000).collect()))];
        let full = File::options().write(true).open("/dev/full").unwrap();
        let written = writer(full, &columns())
            .and_then(|mut writer| write_group(&mut writer, columns()).map(|()| writer))
            .and_then(SerializedFileWriter::close);
        let error = written.unwrap_err().to_string();
        assert!(TableError::new(Path::new("t"), error).is_full());
        let other = |errno| {
            let error = io::Error::from_raw_os_error(errno).to_string();
            let error = TableError::new(Path::new("t"), error);
            (error.is_full(), error.needs_space())
        };
        assert_eq!(other(libc::EDQUOT), (true, true));
        assert_eq!(other(libc::EFBIG), (true, false));
        assert_eq!(other(libc::EIO), (false, false));
    }

    #[test]
    fn a_table_that_is_not_complete_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let mut rows = Rows::begin(&path, &[("n", Column::Whole(Vec::new()))]).unwrap();
        rows.write(vec![("n", Column::Whole(vec![1]))]).unwrap();
        assert!(!path.exists());
        rows.end().unwrap();
        assert!(path.exists());
    }
}
