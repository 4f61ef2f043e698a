//! The rows of all messages of a run, in constant memory.

use crate::message::{Failed, Message};
use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of rows that stay in memory, 11 MB: most runs need no file.
const IN_MEMORY: usize = 65_536;
/// Number of rows that are read at once.
const CHUNK: usize = 1_024;
/// Bytes of a row in the file.
const ROW: usize = 96;
/// `None` in the file.
const NONE: i64 = i64::MIN;

/// Rows that can be changed by their index. The first ones are in memory, the others in a file
/// without a name, which is gone with the process. Rows that a full disk does not take stay in
/// memory.
#[derive(Debug)]
pub struct MessageTable {
    folder: PathBuf,
    first: Vec<Message>,
    most: usize,
    /// `None` before it is needed, and if it cannot be created.
    file: Option<File>,
    /// Number of rows behind `first`.
    further: usize,
    /// Rows behind `first` that are not in the file.
    refused: HashMap<usize, Message>,
    names: Dictionary<Arc<str>>,
    failures: Dictionary<Failed>,
}

impl MessageTable {
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
            names: Dictionary::default(),
            failures: Dictionary::default(),
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
    pub fn push(&mut self, row: Message) {
        if self.first.len() < self.most {
            self.first.push(row);
            return;
        }
        if self.further == 0 {
            // Without it, further rows stay in memory.
            self.file = create(&self.folder).ok();
        }
        self.put(self.further, row);
        self.further += 1;
    }

    /// Changes the row `index`.
    ///
    /// # Errors
    /// When it cannot be read.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn update(&mut self, index: usize, change: impl FnOnce(&mut Message)) -> io::Result<()> {
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
        let mut bytes = [0; ROW];
        self.read(&mut bytes, place)?;
        let mut row = self.decode(&bytes);
        change(&mut row);
        self.put(place, row);
        Ok(())
    }

    /// All rows in order, in constant memory.
    pub fn iter(&self) -> impl Iterator<Item = io::Result<Message>> + '_ {
        self.chunks().flat_map(|chunk| self.chunk(chunk))
    }

    /// All rows from last to first.
    pub fn backwards(&self) -> impl Iterator<Item = io::Result<Message>> + '_ {
        self.chunks().rev().flat_map(|chunk| self.chunk(chunk).into_iter().rev())
    }

    /// The first row of each chunk.
    fn chunks(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        (0..self.len()).step_by(CHUNK)
    }

    /// The rows of a chunk, or an error in place of those that cannot be read.
    fn chunk(&self, from: usize) -> Vec<io::Result<Message>> {
        let to = (from + CHUNK).min(self.len());
        let of_first = self.first.iter().skip(from).take(to - from).cloned().map(Ok);
        let mut rows: Vec<_> = of_first.collect();
        let begin = from.max(self.first.len()) - self.first.len();
        let end = to.max(self.first.len()) - self.first.len();
        let mut bytes = vec![0; (end - begin) * ROW];
        let is_read = self.read(&mut bytes, begin);
        for (place, bytes) in (begin..end).zip(bytes.as_chunks::<ROW>().0) {
            rows.push(match (self.refused.get(&place), &is_read) {
                (Some(row), _) => Ok(row.clone()),
                (None, Ok(())) => Ok(self.decode(bytes)),
                (None, Err(error)) => Err(io::Error::new(error.kind(), error.to_string())),
            });
        }
        rows
    }

    /// Stores a row behind the first ones.
    fn put(&mut self, place: usize, row: Message) {
        let bytes = self.encode(&row);
        let file = self.file.as_ref();
        let is_stored =
            file.is_some_and(|file| file.write_all_at(&bytes, (place * ROW) as u64).is_ok());
        if is_stored {
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
            match file.read_at(&mut bytes[done..], (place * ROW + done) as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn encode(&mut self, row: &Message) -> [u8; ROW] {
        let failed = row.failed.as_ref().map_or(0, |failed| 1 + self.failures.number(failed));
        let shorts = [
            self.names.number(&row.interaction),
            self.names.number(&row.sender),
            self.names.number(&row.peer),
            failed,
            row.duplicates,
            row.bytes,
            u32::from(row.one_way),
            u32::from(row.warmup),
        ];
        let times = [
            row.message as i64,
            row.intended_ns,
            row.held_ns,
            row.sent_ns.unwrap_or(NONE),
            row.received_ns.unwrap_or(NONE),
            row.reply_sent_ns.unwrap_or(NONE),
            row.reply_received_ns.unwrap_or(NONE),
            row.acknowledged_ns.unwrap_or(NONE),
        ];
        let mut bytes = [0; ROW];
        // Eight numbers of 4 B, then eight of 8 B: ROW in all.
        let (for_shorts, for_times) = bytes.split_at_mut(32);
        for (to, short) in for_shorts.as_chunks_mut().0.iter_mut().zip(shorts) {
            // The machine's byte order suffices, since the file never leaves this process.
            *to = short.to_ne_bytes();
        }
        for (to, time) in for_times.as_chunks_mut().0.iter_mut().zip(times) {
            *to = time.to_ne_bytes();
        }
        bytes
    }

    fn decode(&self, bytes: &[u8; ROW]) -> Message {
        let (shorts, times) = bytes.split_at(32);
        let short = |i: usize| u32::from_ne_bytes(shorts.as_chunks().0[i]);
        let time = |i: usize| i64::from_ne_bytes(times.as_chunks().0[i]);
        let maybe = |i: usize| Some(time(i)).filter(|ns| *ns != NONE);
        let failed = short(3).checked_sub(1).map(|number| Box::new(self.failures.get(number)));
        Message {
            message: time(0) as u64,
            interaction: self.names.get(short(0)),
            sender: self.names.get(short(1)),
            peer: self.names.get(short(2)),
            intended_ns: time(1),
            held_ns: time(2),
            sent_ns: maybe(3),
            received_ns: maybe(4),
            reply_sent_ns: maybe(5),
            reply_received_ns: maybe(6),
            acknowledged_ns: maybe(7),
            one_way: short(6) == 1,
            warmup: short(7) == 1,
            failed,
            duplicates: short(4),
            bytes: short(5),
        }
    }
}

impl Extend<Message> for MessageTable {
    fn extend<I: IntoIterator<Item = Message>>(&mut self, rows: I) {
        rows.into_iter().for_each(|row| self.push(row));
    }
}

/// A new file without a name in `folder`.
fn create(folder: &Path) -> io::Result<File> {
    let path = folder.join(".messages.rows");
    // That of a process that was killed between the next two calls.
    let _ = std::fs::remove_file(&path);
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Values by number: a run has few different ones.
#[derive(Debug)]
struct Dictionary<T> {
    values: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T> Default for Dictionary<T> {
    fn default() -> Self {
        Self { values: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Clone + Default + Eq + Hash> Dictionary<T> {
    fn number(&mut self, value: &T) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = self.values.len() as u32;
        self.values.push(value.clone());
        self.numbers.insert(value.clone(), number);
        number
    }

    fn get(&self, number: u32) -> T {
        self.values.get(number as usize).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::event::FailureReason;

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
}
