//! Quota of programs' output: a program that prints without end must not fill the disk.
//!
//! A log that grows beyond the quota loses its middle: its blocks are freed while the program goes
//! on writing at the end, so the program is neither blocked nor slowed down. When the bed ends, the
//! hole is replaced by a line that says what is missing.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum size of a log on the disk, between two looks at it: standard output and standard error of
/// a program have one each. 400,000 lines.
pub(crate) const QUOTA: u64 = 64 << 20;
/// Part of the quota that keeps the beginning, where programs report their settings and first
/// errors.
pub(crate) const HEAD: u64 = 16 << 20;
/// Part of the quota that is left when the middle goes: the latest output.
const TAIL: u64 = 32 << 20;
/// File systems free whole blocks.
const BLOCK: u64 = 4096;
/// Time between two looks. A program writes a few hundred MB meanwhile at most.
const PERIOD: Duration = Duration::from_millis(250);

/// A log that lost its middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shortened {
    pub log: PathBuf,
    /// Missing bytes.
    pub bytes: u64,
}

/// Watches the logs of a bed, in a thread.
#[derive(Debug)]
pub(crate) struct Outputs {
    new: Sender<Watched>,
    thread: JoinHandle<Vec<Watched>>,
}

/// A log.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    file: File,
    /// End of the hole, which begins at [`HEAD`].
    hole: u64,
}

impl Outputs {
    /// Starts watching.
    ///
    /// # Errors
    /// If the thread does not start.
    pub fn start() -> io::Result<Self> {
        let (new, logs) = channel();
        let thread = std::thread::Builder::new().name("output".to_owned());
        let thread = thread.spawn(move || watch(&logs, QUOTA))?;
        Ok(Self { new, thread })
    }

    /// Watches a log; `file` can be read and written.
    pub fn watch(&self, path: &Path, file: File) {
        let watched = Watched { path: path.to_owned(), file, hole: HEAD };
        // Fails only after the thread has panicked: then logs have no quota.
        let _ = self.new.send(watched);
    }

    /// Stops watching, after the programs have ended. Returns the logs that lost something.
    pub fn end(self) -> Vec<Shortened> {
        drop(self.new);
        let logs = self.thread.join().unwrap_or_default();
        logs.into_iter().filter_map(Watched::close).collect()
    }
}

/// Looks at all logs from time to time, until there can be no more.
fn watch(new: &Receiver<Watched>, quota: u64) -> Vec<Watched> {
    let mut logs: Vec<Watched> = Vec::new();
    loop {
        match new.recv_timeout(PERIOD) {
            // A program that starts again continues its log.
            Ok(log) => match logs.iter_mut().find(|known| known.path == log.path) {
                Some(known) => known.file = log.file,
                None => logs.push(log),
            },
            Err(RecvTimeoutError::Timeout) => logs.iter_mut().for_each(|log| log.look(quota)),
            Err(RecvTimeoutError::Disconnected) => {
                logs.iter_mut().for_each(|log| log.look(quota));
                return logs;
            }
        }
    }
}

impl Watched {
    /// Frees the middle of a log that is too large.
    fn look(&mut self, quota: u64) {
        let Ok(found) = self.file.metadata() else { return };
        let Some(hole) = excess(found.len(), self.hole, quota) else { return };
        let (start, length) = (hole.start as libc::off_t, (hole.end - hole.start) as libc::off_t);
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a plain system call on an open file.
        if unsafe { libc::fallocate(self.file.as_raw_fd(), mode, start, length) } == 0 {
            self.hole = hole.end;
        } else if self.file.set_len(HEAD).is_ok() {
            // File systems without holes: only the beginning stays.
            self.hole = HEAD.max(found.len());
        }
    }

    /// Replaces the hole by a line; `None` if there is none.
    fn close(mut self) -> Option<Shortened> {
        let bytes = self.hole - HEAD;
        if bytes == 0 {
            return None;
        }
        let text = format!(
            "\n[Thingbed dropped {bytes} B of output here: a log keeps {} MiB]\n",
            QUOTA >> 20
        );
        // A log that cannot be rewritten keeps its hole.
        let _ = self.replace_hole(text.as_bytes());
        Some(Shortened { log: self.path, bytes })
    }

    fn replace_hole(&mut self, text: &[u8]) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let mut tail = vec![0; length.saturating_sub(self.hole) as usize];
        self.file.read_exact_at(&mut tail, self.hole.min(length))?;
        self.file.set_len(HEAD)?;
        self.file.seek(SeekFrom::Start(HEAD))?;
        self.file.write_all(text)?;
        self.file.write_all(&tail)
    }
}

/// The part to free of a log with this length and with a hole up to `hole`; `None` if it fits.
fn excess(length: u64, hole: u64, quota: u64) -> Option<Range<u64>> {
    let kept = HEAD + length.saturating_sub(hole);
    if length <= hole || kept <= quota {
        return None;
    }
    let end = (length - TAIL.min(length)) / BLOCK * BLOCK;
    (end > hole).then_some(HEAD..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_log_within_the_quota_stays_whole() {
        assert_eq!(excess(QUOTA, HEAD, QUOTA), None);
        assert_eq!(excess(0, HEAD, QUOTA), None);
        let over = QUOTA + 5;
        assert_eq!(excess(over, HEAD, QUOTA), Some(HEAD..(over - TAIL) / BLOCK * BLOCK));
        // Later only what is after the hole counts.
        let hole = 1_000 * QUOTA;
        assert_eq!(excess(hole + QUOTA - HEAD, hole, QUOTA), None);
        assert!(excess(hole + QUOTA - HEAD + 1, hole, QUOTA).is_some_and(|at| at.end > hole));
    }

    /// What failed before: a program could fill the disk with its output.
    #[test]
    fn a_log_without_end_keeps_its_beginning_and_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.run.out");
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).open(&path).unwrap();
        let mut program = File::options().append(true).open(&path).unwrap();
        let mut log = Watched { path: path.clone(), file, hole: HEAD };
        let block = [b'x'; 1 << 20];
        program.write_all(b"first\n").unwrap();
        for _ in 0..120 {
            program.write_all(&block).unwrap();
            log.look(QUOTA);
            let on_disk = path.metadata().unwrap().blocks() * 512;
            assert!(on_disk <= QUOTA + (2 << 20), "{on_disk} B");
        }
        program.write_all(b"last\n").unwrap();
        let printed = path.metadata().unwrap().len();
        let shortened = log.close().unwrap();
        let text = std::fs::read(&path).unwrap();
        assert!(text.starts_with(b"first\n") && text.ends_with(b"last\n"));
        let line = format!("\n[Thingbed dropped {} B of output here", shortened.bytes);
        assert!(text[HEAD as usize..].starts_with(line.as_bytes()));
        assert!((text.len() as u64) < QUOTA && !text.contains(&0));
        let rest = text[HEAD as usize + 1..].iter().position(|byte| *byte == b'\n').unwrap() as u64;
        assert_eq!(text.len() as u64 - rest - 2 + shortened.bytes, printed);
    }

    #[test]
    fn logs_are_watched_until_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let outputs = Outputs::start().unwrap();
        for name in ["large", "small"] {
            let path = dir.path().join(name);
            let file = File::create_new(&path).unwrap();
            // Sparse: only its length counts.
            file.set_len(if name == "large" { 10 * QUOTA } else { 5 }).unwrap();
            outputs.watch(&path, File::options().read(true).write(true).open(&path).unwrap());
        }
        let shortened = outputs.end();
        assert_eq!(shortened.len(), 1);
        assert_eq!(shortened[0].log, dir.path().join("large"));
        assert_eq!(shortened[0].bytes, 10 * QUOTA - TAIL - HEAD);
    }
}
