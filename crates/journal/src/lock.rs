//! The lock of a folder: one process at a time writes it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Name of the lock of a folder.
pub const LOCK: &str = ".lock";
/// `O_NOFOLLOW`, so that a symbolic link in its place is an error.
const NO_FOLLOW: i32 = 0o400_000;
/// Longest text about the holder, in bytes.
const HOLDER: u64 = 256;

/// A lock by `flock`, which the kernel releases when the process ends, however it ends. On NFS,
/// Linux passes it to the server (`flock(2)`), so that it holds between machines, unless the mount
/// has `local_lock`.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    _file: File,
}

/// Why a folder could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("{holder}")]
    Held {
        /// The process and its machine, e.g. `process 12 on host-1`.
        holder: String,
    },
    /// The file system has no locks.
    #[error("the file system of {path} has no locks: {source}")]
    Unsupported {
        /// The lock file.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The file could not be created.
    #[error("could not lock {path}: {source}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
}

impl Lock {
    /// Takes the lock file `path`, and creates it if needed.
    ///
    /// # Errors
    /// When another process has it, and its name.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).custom_flags(NO_FOLLOW);
            let mut file = options.open(path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(LockError::Held { holder: holder(&mut file) });
                }
                Err(TryLockError::Error(source)) => {
                    return Err(LockError::Unsupported { path: path.to_owned(), source });
                }
            }
            // Its last holder may have removed it after it was opened here.
            let own = file.metadata().map_err(failed)?;
            let is_current = fs::metadata(path)
                .is_ok_and(|now| (now.dev(), now.ino()) == (own.dev(), own.ino()));
            if !is_current {
                continue;
            }
            file.set_len(0).and_then(|()| writeln!(file, "{}", this_process())).map_err(failed)?;
            return Ok(Self { path: path.to_owned(), _file: file });
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn this_process() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("process {} on {}", std::process::id(), host.trim())
}

/// Who has the lock, without control characters.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(HOLDER).read_to_string(&mut text));
    let text = text.lines().next().unwrap_or_default().replace(char::is_control, "");
    match read {
        Ok(_) if !text.is_empty() => text,
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_it_and_the_other_learns_who() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOCK);
        let lock = Lock::take(&path).unwrap();
        let error = Lock::take(&path).unwrap_err();
        let own = format!("process {} on ", std::process::id());
        assert!(
            matches!(&error, LockError::Held { holder } if holder.starts_with(&own)),
            "{error}"
        );
        drop(lock);
        assert!(!path.exists());
        Lock::take(&path).unwrap();
    }

    #[test]
    fn the_file_of_a_killed_process_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOCK);
        fs::write(&path, "process 1 on a-machine-of-the-past, with a longer text\n").unwrap();
        let lock = Lock::take(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", this_process()));
        drop(lock);
    }

    #[test]
    fn a_link_is_refused_and_a_foreign_text_is_printed_without_its_controls() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join(LOCK), dir.path().join("other"));
        fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(matches!(Lock::take(&path), Err(LockError::Io { .. })));
        assert_eq!(fs::read(&other).unwrap(), b"kept");
        let file = OpenOptions::new().read(true).write(true).open(&other).unwrap();
        file.try_lock().unwrap();
        fs::write(&other, "\x1b[31mx\nsecond").unwrap();
        let error = Lock::take(&other).unwrap_err().to_string();
        assert_eq!(error, "[31mx");
    }
}
