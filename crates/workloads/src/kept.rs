//! A file whose last bytes stay in memory while the disk is full.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Span;

/// Most bytes in memory: hours of events of a program.
const MOST: usize = 64 << 20;
/// Bytes in memory at which a first attempt without space is repeated.
const AGAIN: usize = 1 << 20;
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
    /// Bytes in memory at which to try again; 0 unless the last attempt found no space. Each time
    /// twice as many: with a used quota, btrfs blocks each write for seconds, in which the program
    /// would send nothing.
    again: usize,
}

impl Kept {
    /// Writes on at the file's position.
    pub fn new(file: File) -> Self {
        Self(Arc::new(Mutex::new(Contents { file, rest: Vec::new(), again: 0 })))
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
        if contents.rest.len() < contents.again {
            return Ok(());
        }
        match contents.write() {
            Err(error) if is_full(&error) && contents.rest.len() <= MOST => {
                // At the limit, before which it is not an error.
                contents.again = (2 * contents.rest.len()).clamp(AGAIN, MOST + 1);
                Ok(())
            }
            written => {
                contents.again = 0;
                written
            }
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
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "", "tried again with each event");
        kept.end(Span::ZERO).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\nsecond\nthird\n");
        std::fs::remove_file(&path).unwrap();
    }

    /// What failed before: after one attempt without space, events stayed in memory until the end.
    #[test]
    fn a_disk_that_has_space_again_is_used_during_the_run() {
        let mut kept = Kept::new(File::options().write(true).open("/dev/full").unwrap());
        kept.write_all(&vec![1; 3 * AGAIN]).unwrap();
        let path = std::env::temp_dir().join(format!("thingbed-again-{}", std::process::id()));
        kept.contents().file = File::create(&path).unwrap();
        let mut written = 3 * AGAIN;
        while written < 7 * AGAIN {
            kept.write_all(&[1; 1_000]).unwrap();
            written += 1_000;
            assert!(kept.contents().rest.len() <= 6 * AGAIN + 1_000);
        }
        assert_eq!(kept.contents().rest.len(), 0);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), written as u64);
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
