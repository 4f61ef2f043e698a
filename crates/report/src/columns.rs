//! Reads columns of a parquet file by name, without arrow.

use crate::Error;
use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// An open file of flat columns.
pub(crate) struct Columns {
    path: PathBuf,
    file: SerializedFileReader<File>,
}

/// The name of a column in tables of earlier versions.
fn earlier_name(name: &str) -> String {
    name.replace("_configured_", "_asked_").replace("_measured_", "_got_")
}

/// Number of values read at a time.
const BATCH: usize = 8192;

impl Columns {
    /// Opens a file and reads its metadata.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        // Tables have no limit of size: they grow with the run.
        let file = input::open(path, input::ANY_SIZE)
            .map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let file =
            catch_panics(path, || SerializedFileReader::new(file).map_err(|e| e.to_string()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// A numeric column of any width; nulls are `None`.
    pub(crate) fn numbers(&self, name: &str) -> Result<Vec<Option<f64>>, Error> {
        self.column(name, |reader, out| match reader {
            ColumnReader::Int32ColumnReader(r) => take(r, out, |&v| f64::from(v)),
            ColumnReader::Int64ColumnReader(r) => take(r, out, |&v| v as f64),
            ColumnReader::FloatColumnReader(r) => take(r, out, |&v| f64::from(v)),
            ColumnReader::DoubleColumnReader(r) => take(r, out, |&v| v),
            _ => Err("it does not contain numbers".to_owned()),
        })
    }

    /// Whether the file has a column of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        let schema = self.file.metadata().file_metadata().schema_descr();
        schema.columns().iter().any(|column| column.name() == name)
    }

    /// A text column; nulls are empty.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>, Error> {
        let texts = self.column(name, |reader, out| match reader {
            ColumnReader::ByteArrayColumnReader(r) => {
                take(r, out, |v| String::from_utf8_lossy(v.data()).into_owned())
            }
            _ => Err("it does not contain text".to_owned()),
        })?;
        Ok(texts.into_iter().map(Option::unwrap_or_default).collect())
    }

    // Read by name, so that columns that later versions add do not matter.
    fn column<T>(
        &self,
        name: &str,
        take: impl Fn(ColumnReader, &mut Vec<Option<T>>) -> Result<(), String>,
    ) -> Result<Vec<Option<T>>, Error> {
        let wrong = |what: String| Error::Table {
            path: self.path.clone(),
            what: format!("column {name}: {what}"),
        };
        let schema = self.file.metadata().file_metadata().schema_descr();
        let position =
            |name: &str| schema.columns().iter().position(|column| column.name() == name);
        // A table has either the present name or the earlier one.
        let place = position(name).or_else(|| position(&earlier_name(name)));
        let place = place.ok_or_else(|| wrong("it is missing".to_owned()))?;
        let column = schema.column(place);
        // Nested columns have several values for a row, which `take` would count as rows.
        if column.max_rep_level() > 0 || column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY {
            return Err(wrong("it is not a flat column".to_owned()));
        }
        let mut values = Vec::new();
        for group in 0..self.file.num_row_groups() {
            catch_panics(&self.path, || {
                let group = self.file.get_row_group(group).map_err(|e| e.to_string())?;
                let reader = group.get_column_reader(place).map_err(|e| e.to_string())?;
                take(reader, &mut values)
            })?;
        }
        Ok(values)
    }
}

fn take<D: DataType, T>(
    mut reader: ColumnReaderImpl<D>,
    out: &mut Vec<Option<T>>,
    make: impl Fn(&D::T) -> T,
) -> Result<(), String> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    loop {
        values.clear();
        levels.clear();
        let read = reader.read_records(BATCH, Some(&mut levels), None, &mut values);
        let (records, _, _) = read.map_err(|e| e.to_string())?;
        if records == 0 {
            return Ok(());
        }
        let mut values = values.iter();
        // A required column has no definition levels: there are no nulls.
        if levels.is_empty() {
            out.extend(values.map(|v| Some(make(v))));
        } else {
            // Nulls have a level and no value.
            out.extend(levels.iter().map(|&l| if l > 0 { values.next().map(&make) } else { None }));
        }
    }
}

/// Turns panics of the decoder into errors: damaged files have made it panic.
fn catch_panics<T>(path: &Path, read: impl FnOnce() -> Result<T, String>) -> Result<T, Error> {
    let wrong = |what| Error::Table { path: path.to_owned(), what };
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(wrong),
        Err(_) => Err(wrong("its bytes are damaged".to_owned())),
    }
}
