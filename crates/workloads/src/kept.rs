//! A file whose last bytes stay in memory while the disk is full.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Span;

/// Most bytes in memory: hours of events of a program.
const MOST: usize = 64 << 20;
/// Time between two attempts to write.
const RETRY: Span = Span::from_ms(100);

/// A handle of the file. A quota that other programs have used up, or a full disk, fails no write
/// before [`MOST`] bytes wait for space.
#[derive(Debug, Clone)]
pub(crate) struct Kept(Arc<Mutex<Contents>>);

#[derive(Debug)]
struct Contents {
    file: File,
    /// What the disk has not taken yet.
    rest: Vec<u8>,
    /// Whether the last attempt found no space. Then only the end tries again: with a used quota,
    /// btrfs blocks each write for seconds, in which the program would send nothing.
    is_full: bool,
}

impl Kept {
    /// Writes on at the file's position.
    pub fn new(file: File) -> Self {
        Self(Arc::new(Mutex::new(Contents { file, rest: Vec::new(), is_full: false })))
    }

    /// Writes all, and waits for space for up to `limit`.
    ///
    /// # Errors
    /// If there is no space by then, or the file cannot be written.
    pub fn end(&self, limit: Span) -> io::Result<()> {
        let mut contents = self.contents();
        let deadline = clock::now() + limit;
        loop {
            match contents.write() {
                Err(error) if is_full(&error) && clock::now() < deadline => {
                    // btrfs counts freed space of a quota as used until then.
                    // SAFETY: a plain system call on an open file.
                    unsafe { libc::syncfs(contents.file.as_raw_fd()) };
                    clock::sleep_until(clock::now() + RETRY);
                }
                written => return written,
            }
        }
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.contents().rest.extend_from_slice(bytes);
        self.flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut contents = self.contents();
        if contents.is_full && contents.rest.len() <= MOST {
            return Ok(());
        }
        match contents.write() {
            Err(error) if is_full(&error) && contents.rest.len() <= MOST => {
                contents.is_full = true;
                Ok(())
            }
            written => written,
        }
    }
}

impl Contents {
    fn write(&mut self) -> io::Result<()> {
        let mut written = 0;
        let result = loop {
            match self.file.write(&self.rest[written..]) {
                Ok(0) => break Ok(()),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.rest.drain(..written);
        result
    }
}

/// Whether there may be space later. A limit of file sizes (`EFBIG`) stays.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What failed before: a program ended at the first write that a quota did not take.
    #[test]
    fn what_a_full_disk_does_not_take_is_written_later() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut kept = Kept::new(full);
        kept.write_all(b"first\n").unwrap();
        kept.write_all(b"second\n").unwrap();
        kept.flush().unwrap();
        let error = kept.end(Span::from_ms(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let path = std::env::temp_dir().join(format!("thingbed-kept-{}", std::process::id()));
        kept.contents().file = File::create(&path).unwrap();
        kept.write_all(b"third\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "", "tried again during the run");
        kept.end(Span::ZERO).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\nsecond\nthird\n");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn memory_is_limited_and_other_errors_are_errors() {
        let mut kept = Kept::new(File::options().write(true).open("/dev/full").unwrap());
        kept.write_all(&vec![0; MOST]).unwrap();
        assert_eq!(kept.write_all(b"1").unwrap_err().kind(), io::ErrorKind::StorageFull);
        let mut closed = Kept::new(File::open("/dev/null").unwrap());
        assert!(closed.write_all(b"1").is_err(), "opened to read only");
    }
}
