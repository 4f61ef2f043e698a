//! Quota of programs' output: a program that prints without end must not fill the disk.
//!
//! A log that grows beyond the quota loses its middle: its blocks are freed while the program goes
//! on writing at the end, so the program is neither blocked nor slowed down. When the bed ends, the
//! hole is replaced by a line that says what is missing.

use super::disk_guard::DiskGuard;
use measure::Auxiliary;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Default of the maximum size of a log on the disk, between two looks at it.
pub(crate) const QUOTA: u64 = experiment::OUTPUT_LIMIT;
/// Maximum size when the disk is full.
const SMALL: u64 = 256 << 10;
/// Part of the quota that keeps the beginning, where programs report their settings and first
/// errors.
const HEAD: u64 = 4;
/// Part of the quota that is left when the middle goes: the latest output.
const TAIL: u64 = 2;
/// The beginning that a log with the default quota keeps.
pub(crate) const BEGINNING: u64 = QUOTA / HEAD;
/// File systems free whole blocks.
const BLOCK: u64 = 4096;
/// Time between two looks. A program writes a few hundred MB meanwhile at most.
/// Ten looks a second: decision 61.
const PERIOD: Duration = Duration::from_millis(100);

/// A log that lost its middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shortened {
    pub log: PathBuf,
    /// Missing bytes.
    pub bytes: u64,
}

/// The logs of a bed.
#[derive(Debug)]
pub(crate) struct Outputs {
    new: Sender<Watched>,
    watcher: Watcher,
}

#[derive(Debug)]
enum Watcher {
    /// Looks at them while programs run.
    Thread(JoinHandle<Vec<Watched>>),
    /// Nothing looks at them before the end.
    None(Receiver<Watched>),
}

/// A log.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// `None` after it was removed: then its space becomes free when its program ends.
    file: Option<File>,
    /// Maximum size in bytes.
    quota: u64,
    /// The part that is gone; empty until something is.
    hole: Range<u64>,
}

impl Outputs {
    /// Starts watching, also the disk if there is a guard.
    ///
    /// # Errors
    /// If the thread does not start.
    pub fn start(guard: Option<DiskGuard>) -> io::Result<Self> {
        let (new, logs) = channel();
        let thread = std::thread::Builder::new().name("output".to_owned());
        let thread = thread.spawn(move || watch(&logs, guard.as_ref()))?;
        Ok(Self { new, watcher: Watcher::Thread(thread) })
    }

    /// Shortens logs only at the end: in virtual time, a thread that looks at them would take time
    /// from the programs. Until then they are limited by the guest's disk.
    pub fn at_the_end() -> Self {
        let (new, logs) = channel();
        Self { new, watcher: Watcher::None(logs) }
    }

    /// Watches a log; `file` can be read and written.
    pub fn watch(&self, path: &Path, file: File, quota: u64) {
        let watched = Watched { path: path.to_owned(), file: Some(file), quota, hole: 0..0 };
        // Fails only after the thread has panicked: then logs have no quota.
        let _ = self.new.send(watched);
    }

    /// Stops watching, after the programs have ended. Returns the logs that lost something.
    pub fn end(self) -> Vec<Shortened> {
        drop(self.new);
        let logs = match self.watcher {
            Watcher::Thread(thread) => thread.join().unwrap_or_default(),
            Watcher::None(new) => {
                let mut logs = Vec::new();
                new.try_iter().for_each(|log| add(&mut logs, log));
                logs.iter_mut().for_each(Watched::mark_excess);
                logs
            }
        };
        logs.into_iter().filter_map(Watched::close).collect()
    }
}

/// Adds a log. A program that starts again continues its log.
fn add(logs: &mut Vec<Watched>, log: Watched) {
    match logs.iter_mut().find(|known| known.path == log.path) {
        Some(known) => known.file = log.file,
        None => logs.push(log),
    }
}

/// Looks at the disk and all logs from time to time, until there can be no more.
fn watch(new: &Receiver<Watched>, guard: Option<&DiskGuard>) -> Vec<Watched> {
    let mut logs: Vec<Watched> = Vec::new();
    let look = |logs: &mut Vec<Watched>| {
        guard.inspect(|guard| guard.look());
        let is_full = guard.is_some_and(|guard| guard.disk().is_given_up(Auxiliary::Output));
        let most = if is_full { SMALL } else { u64::MAX };
        logs.iter_mut().for_each(|log| log.look(most));
    };
    loop {
        match new.recv_timeout(PERIOD) {
            Ok(log) => add(&mut logs, log),
            Err(RecvTimeoutError::Timeout) => look(&mut logs),
            Err(RecvTimeoutError::Disconnected) => {
                look(&mut logs);
                return logs;
            }
        }
    }
}

impl Watched {
    /// Frees the middle of a log that is larger than its quota, or than `most`.
    fn look(&mut self, most: u64) {
        // It stays small once the disk was full, also if space becomes free later.
        self.quota = self.quota.min(most);
        let Some(file) = &self.file else { return };
        let Ok(found) = file.metadata() else { return };
        let Some(hole) = excess(found.len(), &self.hole, self.quota) else { return };
        let (start, length) = (hole.start as libc::off_t, (hole.end - hole.start) as libc::off_t);
        // The size stays, so that the program's position stays at the end.
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a plain system call on an open file.
        if unsafe { libc::fallocate(file.as_raw_fd(), mode, start, length) } == 0 {
            self.hole = hole;
            return;
        }
        match file.set_len(hole.start) {
            // File systems without holes: only the beginning stays.
            Ok(()) => self.hole = hole.start..found.len(),
            // btrfs cuts no file when a quota is used up, but it removes files.
            Err(error) if journal::is_full(&error) => self.remove(found.len()),
            Err(_) => {}
        }
    }

    /// Removes the file, whose program goes on.
    fn remove(&mut self, length: u64) {
        if std::fs::remove_file(&self.path).is_ok() {
            // An open description would keep its space.
            self.file = None;
            self.hole = 0..length;
        }
    }

    /// Names what exceeds the quota after the programs have ended, also on file systems without
    /// holes: nothing writes behind it any more.
    fn mark_excess(&mut self) {
        let found = self.file.as_ref().and_then(|file| file.metadata().ok());
        let length = found.map_or(0, |found| found.len());
        if let Some(hole) = excess(length, &self.hole, self.quota) {
            self.hole = hole;
        }
    }

    /// Replaces the hole by a line; `None` if there is none.
    fn close(mut self) -> Option<Shortened> {
        let bytes = self.hole.end - self.hole.start;
        if bytes == 0 {
            return None;
        }
        let quota = self.quota >> 10;
        let text =
            format!("\n[Thingbed dropped {bytes} B of output here: a log keeps {quota} KiB]\n");
        // A log that cannot be rewritten keeps its hole.
        let _ = match self.file.take() {
            Some(file) => self.replace_hole(file, text.as_bytes()),
            None => std::fs::write(&self.path, &text),
        };
        Some(Shortened { log: self.path, bytes })
    }

    fn replace_hole(&self, mut file: File, text: &[u8]) -> io::Result<()> {
        let length = file.metadata()?.len();
        // In memory, because it is at most as large as the quota.
        let mut tail = vec![0; length.saturating_sub(self.hole.end) as usize];
        file.read_exact_at(&mut tail, self.hole.end.min(length))?;
        file.set_len(self.hole.start)?;
        file.seek(SeekFrom::Start(self.hole.start))?;
        file.write_all(text)?;
        file.write_all(&tail)
    }
}

/// The part to free of a log with this length and this hole; `None` if it fits.
fn excess(length: u64, hole: &Range<u64>, quota: u64) -> Option<Range<u64>> {
    let kept = hole.start + length.saturating_sub(hole.end);
    // Behind the hole there is nothing that could go.
    if length <= hole.end || kept <= quota {
        return None;
    }
    let head = quota / HEAD / BLOCK * BLOCK;
    // What is gone stays gone: a hole grows, and never moves away from its begin.
    let start = if hole.is_empty() { head } else { head.min(hole.start) };
    let end = (length - (quota / TAIL).min(length)) / BLOCK * BLOCK;
    (end > hole.end.max(start)).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// The beginning and the end that a log with the default quota keeps.
    const FIRST: u64 = BEGINNING;
    const LAST: u64 = QUOTA / TAIL;

    #[test]
    fn a_log_within_the_quota_stays_whole() {
        assert_eq!(excess(QUOTA, &(0..0), QUOTA), None);
        assert_eq!(excess(0, &(0..0), QUOTA), None);
        let over = QUOTA + 5;
        let first = FIRST..(over - LAST) / BLOCK * BLOCK;
        assert_eq!(excess(over, &(0..0), QUOTA), Some(first));
        // Later only what is after the hole counts.
        let hole = FIRST..1_000 * QUOTA;
        assert_eq!(excess(hole.end + QUOTA - FIRST, &hole, QUOTA), None);
        let larger = excess(hole.end + QUOTA - FIRST + 1, &hole, QUOTA);
        assert!(larger.is_some_and(|at| at.start == FIRST && at.end > hole.end));
    }

    #[test]
    fn a_smaller_quota_takes_more_of_the_beginning() {
        let hole = FIRST..1_000 * QUOTA;
        let length = hole.end + (1 << 20);
        let larger = excess(length, &hole, SMALL).unwrap();
        assert_eq!((larger.start, larger.end), (SMALL / HEAD, length - SMALL / TAIL));
        assert_eq!(excess(length, &larger, SMALL), None);
    }

    /// What failed before: a program could fill the disk with its output.
    #[test]
    fn a_log_without_end_keeps_its_beginning_and_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.run.out");
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).open(&path).unwrap();
        let mut program = File::options().append(true).open(&path).unwrap();
        let mut log = Watched { path: path.clone(), file: Some(file), quota: QUOTA, hole: 0..0 };
        let block = [b'x'; 1 << 20];
        program.write_all(b"first\n").unwrap();
        for _ in 0..120 {
            program.write_all(&block).unwrap();
            log.look(u64::MAX);
            let on_disk = path.metadata().unwrap().blocks() * 512;
            assert!(on_disk <= QUOTA + (2 << 20), "{on_disk} B");
        }
        program.write_all(b"last\n").unwrap();
        let printed = path.metadata().unwrap().len();
        let shortened = log.close().unwrap();
        let text = std::fs::read(&path).unwrap();
        assert!(text.starts_with(b"first\n") && text.ends_with(b"last\n"));
        let line = format!("\n[Thingbed dropped {} B of output here", shortened.bytes);
        assert!(text[FIRST as usize..].starts_with(line.as_bytes()));
        assert!((text.len() as u64) < QUOTA && !text.contains(&0));
        let rest =
            text[FIRST as usize + 1..].iter().position(|byte| *byte == b'\n').unwrap() as u64;
        assert_eq!(text.len() as u64 - rest - 2 + shortened.bytes, printed);
    }

    #[test]
    fn logs_are_watched_until_the_end_and_each_has_its_quota() {
        for outputs in [Outputs::start(None).unwrap(), Outputs::at_the_end()] {
            keeps_quotas(outputs);
        }
    }

    fn keeps_quotas(outputs: Outputs) {
        let dir = tempfile::tempdir().unwrap();
        for (name, length, quota) in
            [("large", 10 * QUOTA, QUOTA), ("small", 5, QUOTA), ("limited", QUOTA, 1 << 20)]
        {
            let path = dir.path().join(name);
            let file = File::create_new(&path).unwrap();
            // Sparse: only its length counts.
            file.set_len(length).unwrap();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            outputs.watch(&path, file, quota);
        }
        let shortened = outputs.end();
        let found = |name: &str| shortened.iter().find(|log| log.log == dir.path().join(name));
        assert_eq!(shortened.len(), 2);
        assert_eq!(found("large").unwrap().bytes, 10 * QUOTA - LAST - FIRST);
        assert_eq!(found("limited").unwrap().bytes, QUOTA - (3 << 18));
    }

    use proptest::prelude::*;

    proptest! {
        /// Looks at any times, with quotas that get smaller, leave within the quota what is in the
        /// file, and never give back what is gone.
        #[test]
        fn no_log_stays_larger_than_its_quota(
            quota in 2..64_u64,
            steps in prop::collection::vec((0..200_u64 * BLOCK, prop::option::of(1..64_u64)), 1..30),
        ) {
            let (mut quota, mut length, mut hole) = (quota * 4 * BLOCK, 0, 0..0);
            for (written, smaller) in steps {
                length += written;
                quota = quota.min(smaller.unwrap_or(64) * 4 * BLOCK);
                if let Some(larger) = excess(length, &hole, quota) {
                    prop_assert!(hole.is_empty() || larger.start <= hole.start);
                    prop_assert!(larger.end > hole.end && larger.end <= length);
                    prop_assert_eq!((larger.start % BLOCK, larger.end % BLOCK), (0, 0));
                    hole = larger;
                    // The end of the output, and less than a block more.
                    let tail = length - hole.end;
                    prop_assert!((quota / TAIL..quota / TAIL + BLOCK).contains(&tail), "{tail}");
                }
                let kept = hole.start + length - hole.end;
                prop_assert!(kept <= quota, "{kept} B of {quota} with {hole:?} of {length}");
            }
        }
    }

    #[test]
    fn a_program_that_starts_again_continues_its_log_and_the_hole_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.run.out");
        let open =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let (quota, mut logs) = (16 * BLOCK, Vec::new());
        let watched =
            || Watched { path: path.clone(), file: Some(open().unwrap()), quota, hole: 0..0 };
        add(&mut logs, watched());
        let mut program = File::options().append(true).open(&path).unwrap();
        program.write_all(&vec![b'a'; 40 * BLOCK as usize]).unwrap();
        logs[0].look(u64::MAX);
        let hole = logs[0].hole.clone();
        assert!(!hole.is_empty());
        add(&mut logs, watched());
        assert_eq!((logs.len(), logs[0].hole.clone()), (1, hole));
        program.write_all(&vec![b'b'; 40 * BLOCK as usize]).unwrap();
        logs[0].look(u64::MAX);
        let shortened = logs.remove(0).close().unwrap();
        assert!(shortened.bytes >= (80 - 16) * BLOCK, "{shortened:?}");
        let text = std::fs::read(&path).unwrap();
        assert!(text.starts_with(b"aaaa") && text.ends_with(b"bbbb") && !text.contains(&0));
    }

    /// Where nothing can be cut, as on btrfs with a used quota.
    #[test]
    fn a_removed_log_says_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut program = File::create(&path).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut log = Watched { path: path.clone(), file: Some(file), quota: SMALL, hole: 0..0 };
        program.write_all(&[b'x'; 1000]).unwrap();
        log.remove(1000);
        assert!(!path.exists() && log.file.is_none(), "the space is free when the program ends");
        program.write_all(&[b'x'; 500]).unwrap();
        log.look(u64::MAX);
        assert_eq!(log.close().map(|log| log.bytes), Some(1000));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("\n[Thingbed dropped 1000 B of output here"), "{text}");
    }

    /// A log that its program has cut itself.
    #[test]
    fn a_log_that_is_shorter_than_its_hole_keeps_what_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "short").unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let log =
            Watched { path: path.clone(), file: Some(file), quota: 1 << 20, hole: 8_192..16_384 };
        assert_eq!(log.close().map(|log| log.bytes), Some(8_192));
        let text = std::fs::read(&path).unwrap();
        assert!(text.starts_with(b"short") && text.len() > 8_192);
    }
}
