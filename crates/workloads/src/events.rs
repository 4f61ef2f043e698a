//! Events files: what this program saw, for the runner.

use crate::error::Error;
use crate::kept::Kept;
use record::event::{MessageEvent, Writer};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use units::{Instant, Span};

/// A file of events of one type.
#[derive(Debug)]
pub struct EventsFile<T> {
    path: PathBuf,
    writer: Writer<T, Kept>,
    /// The file that `writer` writes.
    kept: Kept,
}

/// Maximum time to wait for space at the end. On a full disk the runner gives programs 60 s
/// (`FULL_DISK` in `runner/src/controller/stop.rs`).
const WAIT: Span = Span::from_s(50);

impl<T: Serialize + Default> EventsFile<T> {
    /// Creates or truncates the file and writes its head. An empty file keeps the space that the
    /// runner allocated for it, which truncating would free.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let open = || -> io::Result<File> {
            let file = File::options().write(true).create(true).truncate(false).open(path)?;
            if file.metadata()?.len() > 0 {
                file.set_len(0)?;
            }
            Ok(file)
        };
        let opened = open().and_then(|file| {
            let kept = Kept::new(file);
            Ok((Writer::new(kept.clone())?, kept))
        });
        Self::of(path, opened)
    }

    /// Continues the file of an earlier process, or creates it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(path: &Path) -> Result<Self, Error> {
        let open = || {
            let mut file =
                File::options().create(true).truncate(false).read(true).write(true).open(path)?;
            let is_new = whole_lines(&mut file)? == 0;
            let kept = Kept::new(file);
            let writer = match is_new {
                true => Writer::new(kept.clone())?,
                false => Writer::resume(kept.clone()),
            };
            Ok((writer, kept))
        };
        Self::of(path, open())
    }

    fn of(path: &Path, opened: io::Result<(Writer<T, Kept>, Kept)>) -> Result<Self, Error> {
        let failed = |source| Error::Events { path: path.into(), source };
        let (writer, kept) = opened.map_err(failed)?;
        Ok(Self { path: path.into(), writer, kept })
    }

    /// Buffers events until the next flush.
    ///
    /// # Errors
    /// The buffer is full and the file cannot be written.
    pub fn push(&mut self, event: &T) -> Result<(), Error> {
        let pushed = self.writer.push(event);
        self.written(pushed)
    }

    /// Writes the buffered events, so that they survive a killed program. Those that a full disk or a
    /// quota does not take stay in memory until the flush: the runner makes space.
    ///
    /// # Errors
    /// The file cannot be written, or too much is in memory.
    pub fn save(&mut self) -> Result<(), Error> {
        let saved = self.writer.flush();
        self.written(saved)
    }

    /// Writes all events at the end; waits for space for up to 50 s.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.save()?;
        let ended = self.kept.end(WAIT);
        self.written(ended)
    }

    fn written(&self, result: io::Result<()>) -> Result<(), Error> {
        result.map_err(|source| Error::Events { path: self.path.clone(), source })
    }
}

/// Removes the line that a killed process did not finish; returns the new length. The file's position
/// is its end then.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    // Longer than any line.
    const TAIL: u64 = 256 * 1024;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let end = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end as u64 + 1);
    file.set_len(from + end)?;
    file.seek(SeekFrom::End(0))
}

/// A file of message events, batched into few system calls.
#[derive(Debug)]
pub struct MessageEvents<'a, E> {
    file: EventsFile<MessageEvent<'a, E>>,
    oldest: Option<Instant>,
}

impl<'a, E: Serialize + Default> MessageEvents<'a, E> {
    /// See [`EventsFile::create`].
    pub fn create(path: &Path) -> Result<Self, Error> {
        Ok(Self { file: EventsFile::create(path)?, oldest: None })
    }

    /// Buffers an event until the next flush.
    pub fn record(&mut self, event: &MessageEvent<'a, E>) -> Result<(), Error> {
        self.oldest.get_or_insert(Instant::from_ns(event.time_ns));
        self.file.push(event)
    }

    /// Time of the oldest buffered event.
    pub fn oldest(&self) -> Option<Instant> {
        self.oldest
    }

    /// See [`EventsFile::save`].
    pub fn save(&mut self) -> Result<(), Error> {
        match self.oldest.take() {
            Some(_) => self.file.save(),
            None => Ok(()),
        }
    }

    /// See [`EventsFile::flush`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.oldest = None;
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::event::{SinkEvent, read};

    #[test]
    fn events_are_in_the_file_after_a_flush() {
        let path = std::env::temp_dir().join(format!("thingbed-events-{}.csv", std::process::id()));
        let mut events = MessageEvents::<SinkEvent>::create(&path).unwrap();
        let received = MessageEvent { time_ns: 25, ..MessageEvent::default() };
        events.record(&received).unwrap();
        let replied = MessageEvent { event: SinkEvent::ReplySent, time_ns: 30, ..received.clone() };
        events.record(&replied).unwrap();
        assert_eq!(events.oldest(), Some(Instant::from_ns(25)));
        let of = |path: &Path| read::<MessageEvent<'_, SinkEvent>>(&std::fs::read(path).unwrap());
        assert_eq!(of(&path).unwrap(), []);
        events.flush().unwrap();
        assert_eq!(events.oldest(), None);
        assert_eq!(of(&path).unwrap(), [received, replied]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_goes_on_after_its_last_whole_line() {
        let path = std::env::temp_dir().join(format!("thingbed-append-{}.csv", std::process::id()));
        let row = |time_ns| MessageEvent::<SinkEvent> { time_ns, ..MessageEvent::default() };
        for (time_ns, cut) in [(1, 0), (2, 5), (3, 0)] {
            let mut events = EventsFile::append(&path).unwrap();
            events.push(&row(time_ns)).unwrap();
            events.flush().unwrap();
            let text = std::fs::read(&path).unwrap();
            std::fs::write(&path, &text[..text.len() - cut]).unwrap();
        }
        let found = read::<MessageEvent<'_, SinkEvent>>(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(found, [row(1), row(3)]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn names_the_folder_that_is_not_there() {
        let error = EventsFile::<MessageEvent<'_, SinkEvent>>::create(Path::new("/nowhere/e.csv"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("/nowhere/e.csv"), "{error}");
    }
}
