//! Durable writes: temporary name, sync, rename, sync of the folder.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The end of a draft's name.
const DRAFT: &[u8] = b".draft";
/// Longest name of a file, in bytes (NAME_MAX of Linux).
const LONGEST: usize = 255;

/// A file that is being written. It gets its name with [`Draft::commit`]; without that, it is
/// removed.
///
/// Only one process at a time may write a file: hold the [`crate::Lock`] of the folder.
#[derive(Debug)]
pub struct Draft {
    file: File,
    path: PathBuf,
    draft: PathBuf,
    is_committed: bool,
}

impl Draft {
    /// Creates the file under a temporary name, `.NAME.draft` in the folder of `path`; `NAME` without
    /// its end if the whole would be longer than 255 B. Replaces the draft of a killed process.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let own = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.as_bytes();
        let kept = own.len().min(LONGEST - DRAFT.len() - 1);
        let name = OsString::from_vec([b".", &own[..kept], DRAFT].concat());
        let draft = path.with_file_name(name);
        // A rename would replace a device, e.g. /dev/null, or the target of a symbolic link.
        if fs::symlink_metadata(path).is_ok_and(|old| !old.is_file()) {
            let text = format!("{} exists and is not a regular file", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        // `create_new` follows no symbolic link that somebody put there.
        let _ = fs::remove_file(&draft);
        let file = File::create_new(&draft)?;
        Ok(Self { file, path: path.to_owned(), draft, is_committed: false })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Waits until all bytes are on the disk, then gives the file its name and waits for that, too.
    /// After a crash, the file is the old or the new one, never a part.
    ///
    /// # Errors
    /// When the disk is full or failed; the earlier file of that name remains.
    pub fn commit(mut self) -> io::Result<()> {
        sync_file(&self.file)?;
        fs::rename(&self.draft, &self.path)?;
        self.is_committed = true;
        sync(self.path.parent().unwrap_or(Path::new("")))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_committed {
            let _ = fs::remove_file(&self.draft);
        }
    }
}

/// Writes a whole file durably.
///
/// # Errors
/// See [`Draft`].
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let draft = Draft::create(path)?;
    draft.file().write_all(bytes.as_ref())?;
    draft.commit()
}

/// Copies a file durably.
///
/// # Errors
/// When `from` cannot be read; else see [`Draft`].
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let draft = Draft::create(to)?;
    io::copy(&mut File::open(from)?, &mut draft.file())?;
    draft.commit()
}

/// Waits until a file's bytes, or the names in a folder, are on the disk.
///
/// # Errors
/// When it cannot be opened, or the disk failed.
pub fn sync(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    sync_file(&File::open(path)?)
}

/// Some file systems cannot sync, or cannot sync folders (FUSE, shared folders of virtual
/// machines): they are as durable as they are.
fn sync_file(file: &File) -> io::Result<()> {
    match file.sync_all() {
        Err(error) if is_unsupported(&error) => Ok(()),
        synced => synced,
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        write(&path, "old").unwrap();
        let draft = Draft::create(&path).unwrap();
        draft.file().write_all(b"ne").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        draft.file().write_all(b"w").unwrap();
        draft.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["run.json"]);
    }

    #[test]
    fn an_abandoned_draft_leaves_nothing_and_that_of_a_killed_process_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let draft = Draft::create(&path).unwrap();
        let left = dir.path().join(".a.draft");
        assert!(left.exists());
        drop(draft);
        assert_eq!(names(dir.path()), Vec::<OsString>::new());
        // A link that somebody put in the place of the draft is not followed.
        let other = dir.path().join("other");
        fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, &left).unwrap();
        write(&path, "whole").unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"kept");
        assert_eq!(names(dir.path()), ["a", "other"]);
    }

    #[test]
    fn the_longest_names_can_be_written() {
        let dir = tempfile::tempdir().unwrap();
        for length in [1, 247, 248, 249, 254, 255] {
            let name = "n".repeat(length);
            write(&dir.path().join(&name), "x").unwrap();
            assert_eq!(names(dir.path()), [OsString::from(&name)], "{length}");
            fs::remove_file(dir.path().join(&name)).unwrap();
        }
        assert!(write(&dir.path().join("n".repeat(256)), "x").is_err());
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn what_is_no_regular_file_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::create_dir(&path).unwrap();
        let error = write(&path, "x").unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn a_copy_has_the_bytes_of_its_source() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, "bytes").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"bytes");
        assert!(copy(&dir.path().join("none"), &to).is_err());
        assert_eq!(names(dir.path()), ["from", "to"]);
    }
}
