//! The rows of a table of a run, in constant memory.

use crate::row_code::{Get, Put, Row, Texts};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Number of rows that stay in memory, about 10 MB: most runs need no file.
const IN_MEMORY: usize = 65_536;
/// Number of rows that are read at once.
const CHUNK: usize = 1_024;

/// Rows that can be changed by their index. The first ones are in memory, the others in a file
/// without a name, which is gone with the process. Rows that a full disk does not take stay in
/// memory.
#[derive(Debug)]
pub struct RowTable<R> {
    folder: PathBuf,
    first: Vec<R>,
    most: usize,
    /// `None` before it is needed, and if it cannot be created.
    file: Option<File>,
    /// Number of rows behind `first`.
    further: usize,
    /// Rows behind `first` that are not in the file.
    refused: HashMap<usize, R>,
    texts: Texts,
    /// The bytes of the row that is written.
    bytes: Vec<u8>,
}

impl<R: Row> RowTable<R> {
    /// An empty table, with its file in `folder`.
    pub fn new(folder: &Path) -> Self {
        Self::with_limit(folder, IN_MEMORY)
    }

    fn with_limit(folder: &Path, most: usize) -> Self {
        Self {
            folder: folder.to_owned(),
            first: Vec::new(),
            most,
            file: None,
            further: 0,
            refused: HashMap::new(),
            texts: Texts::default(),
            bytes: Vec::new(),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.first.len() + self.further
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a row.
    pub fn push(&mut self, row: R) {
        if self.first.len() < self.most {
            self.first.push(row);
            return;
        }
        if self.further == 0 {
            // Without it, further rows stay in memory.
            self.file = journal::nameless(&self.folder).ok();
        }
        self.put(self.further, row);
        self.further += 1;
    }

    /// The row `index`; `None` if there is no such row.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn get(&self, index: usize) -> io::Result<Option<R>> {
        let Some(place) = index.checked_sub(self.first.len()) else {
            return Ok(self.first.get(index).cloned());
        };
        if place >= self.further {
            return Ok(None);
        }
        self.chunk(index, index + 1).pop().transpose()
    }

    /// Changes the row `index`.
    ///
    /// # Errors
    /// When it cannot be read.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn update(&mut self, index: usize, change: impl FnOnce(&mut R)) -> io::Result<()> {
        if let Some(row) = self.first.get_mut(index) {
            change(row);
            return Ok(());
        }
        let place = index - self.first.len();
        assert!(place < self.further, "row {index} of {}", self.len());
        if let Some(row) = self.refused.get_mut(&place) {
            change(row);
            return Ok(());
        }
        let mut bytes = vec![0; R::BYTES];
        self.read(&mut bytes, place)?;
        let mut row = R::get(&mut Get { bytes: &bytes, texts: &self.texts })?;
        change(&mut row);
        self.put(place, row);
        Ok(())
    }

    /// All rows in order, in constant memory.
    pub fn iter(&self) -> impl Iterator<Item = io::Result<R>> + '_ {
        self.chunks().flat_map(|from| self.chunk(from, from + CHUNK))
    }

    /// All rows from last to first.
    pub fn backwards(&self) -> impl Iterator<Item = io::Result<R>> + '_ {
        self.chunks().rev().flat_map(|from| self.chunk(from, from + CHUNK).into_iter().rev())
    }

    /// The first row of each chunk.
    fn chunks(&self) -> impl DoubleEndedIterator<Item = usize> + use<R> {
        (0..self.len()).step_by(CHUNK)
    }

    /// The rows from `from` to before `to`, or an error in place of those that cannot be read.
    fn chunk(&self, from: usize, to: usize) -> Vec<io::Result<R>> {
        let to = to.min(self.len());
        let of_first = self.first.iter().skip(from).take(to - from).cloned().map(Ok);
        let mut rows: Vec<_> = of_first.collect();
        let begin = from.max(self.first.len()) - self.first.len();
        let end = to.max(self.first.len()) - self.first.len();
        let mut bytes = vec![0; (end - begin) * R::BYTES];
        let is_read = self.read(&mut bytes, begin);
        for (place, bytes) in (begin..end).zip(bytes.chunks_exact(R::BYTES)) {
            rows.push(match (self.refused.get(&place), &is_read) {
                (Some(row), _) => Ok(row.clone()),
                (None, Ok(())) => R::get(&mut Get { bytes, texts: &self.texts }),
                (None, Err(error)) => Err(io::Error::new(error.kind(), error.to_string())),
            });
        }
        rows
    }

    /// Stores a row behind the first ones.
    fn put(&mut self, place: usize, row: R) {
        if self.texts.is_full() {
            self.texts.spill_to(&self.folder);
        }
        self.bytes.clear();
        row.put(&mut Put { bytes: &mut self.bytes, texts: &mut self.texts });
        debug_assert_eq!(self.bytes.len(), R::BYTES, "fields and size of a row differ");
        let offset = (place * R::BYTES) as u64;
        let file = self.file.as_ref();
        if file.is_some_and(|file| file.write_all_at(&self.bytes, offset).is_ok()) {
            // The disk may have refused an earlier version of the row.
            self.refused.remove(&place);
        } else {
            self.refused.insert(place, row);
        }
    }

    /// Reads rows of the file from `place` on. Bytes behind its end, of refused rows, stay as they are.
    fn read(&self, bytes: &mut [u8], place: usize) -> io::Result<()> {
        let (Some(file), mut done) = (&self.file, 0) else { return Ok(()) };
        while done < bytes.len() {
            match file.read_at(&mut bytes[done..], (place * R::BYTES + done) as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<R: Row> Extend<R> for RowTable<R> {
    fn extend<I: IntoIterator<Item = R>>(&mut self, rows: I) {
        rows.into_iter().for_each(|row| self.push(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Failed, Message};
    use crate::{ProbeRow, ProgramValue, SectionRow};
    use record::event::{FailureReason, Section};

    type MessageTable = RowTable<Message>;

    /// Rows with different values in all fields.
    fn row(number: u64) -> Message {
        let time =
            |kind: u64| (!(number + kind).is_multiple_of(3)).then_some((number * 10 + kind) as i64);
        Message {
            message: number,
            interaction: format!("i-{}", number % 2).into(),
            sender: format!("node-{}", number % 5).into(),
            peer: format!("node-{}", number % 7).into(),
            intended_ns: number as i64 - 5,
            sent_ns: time(1),
            received_ns: time(2),
            reply_sent_ns: time(3),
            reply_received_ns: time(4),
            acknowledged_ns: time(5),
            one_way: number.is_multiple_of(2),
            warmup: number.is_multiple_of(3),
            held_ns: number as i64 * 3,
            failed: (number.is_multiple_of(4)).then(|| {
                let detail = format!("detail {}", number % 8);
                Box::new(Failed { reason: FailureReason::Timeout, detail })
            }),
            duplicates: number as u32 % 6,
            bytes: u32::MAX - number as u32,
        }
    }

    fn all(rows: impl Iterator<Item = io::Result<Message>>) -> Vec<Message> {
        rows.map(Result::unwrap).collect()
    }

    /// Pushes and changes rows, and compares with a vector.
    fn compare(mut table: MessageTable) -> MessageTable {
        let mut rows: Vec<Message> = (0..5_000).map(row).collect();
        table.extend(rows.iter().cloned());
        for place in (0..rows.len()).rev().step_by(3).chain([0, 4_999]) {
            let change = |row: &mut Message| {
                row.received_ns = Some(-7);
                row.duplicates += 1;
                row.failed = None;
            };
            change(&mut rows[place]);
            table.update(place, change).unwrap();
        }
        assert_eq!(table.len(), rows.len());
        assert_eq!(all(table.iter()), rows);
        rows.reverse();
        assert_eq!(all(table.backwards()), rows);
        table
    }

    #[test]
    fn rows_are_the_same_wherever_they_are() {
        let dir = tempfile::tempdir().unwrap();
        for most in [0, 1, CHUNK - 1, CHUNK, 3_000, 10_000] {
            let table = compare(MessageTable::with_limit(dir.path(), most));
            assert_eq!(table.first.len(), most.min(5_000));
            assert!(table.refused.is_empty());
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "a file has a name");
        }
        assert!(MessageTable::new(dir.path()).is_empty());
    }

    #[test]
    fn rows_that_a_full_disk_does_not_take_stay_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let table = compare(MessageTable::with_limit(&dir.path().join("none"), 10));
        assert_eq!(table.refused.len(), 4_990, "there is no such folder");
        // The disk gets full after some rows, and later there is space again.
        let mut table = MessageTable::with_limit(dir.path(), 0);
        let mut rows: Vec<Message> = (0..3_000).map(row).collect();
        table.extend(rows[..1_000].iter().cloned());
        let full = File::options().read(true).write(true).open("/dev/full").unwrap();
        let file = table.file.replace(full);
        table.extend(rows[1_000..2_000].iter().cloned());
        table.file = file;
        table.extend(rows[2_000..].iter().cloned());
        assert_eq!(table.refused.len(), 1_000);
        rows[1_500].bytes = 0;
        table.update(1_500, |row| row.bytes = 0).unwrap();
        assert_eq!(all(table.iter()), rows);
    }

    #[test]
    fn any_row_is_read_as_it_was_written() {
        fn check<R: Row + PartialEq + std::fmt::Debug>(rows: &[R]) {
            let dir = tempfile::tempdir().unwrap();
            let mut table = RowTable::with_limit(dir.path(), 0);
            table.extend(rows.iter().cloned());
            assert_eq!(table.iter().map(Result::unwrap).collect::<Vec<_>>(), rows);
            for (index, row) in rows.iter().enumerate() {
                assert_eq!(table.get(index).unwrap().as_ref(), Some(row));
            }
            assert_eq!(table.get(rows.len()).unwrap(), None);
        }
        check(&(0..50).map(row).collect::<Vec<_>>());
        let section = |number: u64| SectionRow {
            message: number,
            interaction: "x".into(),
            node: format!("n-{}", number % 3).into(),
            section: [Section::Payload, Section::Block(number as u32)][number as usize % 2],
            payload_bytes: number as u32 * 2,
            begin_ns: -(number as i64),
            end_ns: number as i64 + 1,
            out_bytes: u64::MAX - number,
            in_bytes: number + 3,
            out_frames: number + 4,
            in_frames: number + 5,
            failed: number.is_multiple_of(3),
            answered: number.is_multiple_of(2),
            warmup: number.is_multiple_of(5),
        };
        check(&(0..50).map(section).collect::<Vec<_>>());
        let probe = |number: u32| ProbeRow {
            probe: "p".into(),
            node: format!("n-{}", number % 3).into(),
            core: number % 4,
            mode: ["busy", "sleep"][number as usize % 2].into(),
            intended_ns: i64::from(number),
            sent_ns: i64::from(number) + 1,
            answered_ns: (!number.is_multiple_of(3)).then_some(7),
            deviation: f64::from(number) / 7.0,
        };
        check(&(0..50).map(probe).collect::<Vec<_>>());
        let value = |number: u32| ProgramValue {
            program: "p".into(),
            node: format!("n-{}", number % 3).into(),
            metric: "m".into(),
            number: number.into(),
            time_ns: (!number.is_multiple_of(2)).then_some(-5),
            value: f64::from(number) / 3.0,
            unit: "ms".into(),
        };
        check(&(0..50).map(value).collect::<Vec<_>>());
    }

    /// A server may send a different error text each time.
    #[test]
    fn texts_that_all_differ_are_not_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let mut table = MessageTable::with_limit(dir.path(), 0);
        let of = |number: u64| {
            let detail = format!("error {number} of the server ä");
            let failed = Failed { reason: FailureReason::Status, detail };
            Message { message: number, failed: Some(Box::new(failed)), ..Message::default() }
        };
        table.extend((0..20_000).map(of));
        assert!(table.texts.held() < 5_000, "{}", table.texts.held());
        for (row, number) in table.iter().zip(0..) {
            assert_eq!(row.unwrap(), of(number));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "a file has a name");
    }
}
