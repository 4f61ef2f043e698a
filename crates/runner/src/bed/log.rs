//! Logs of programs' output.

use super::jobs::Role;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// An open log.
#[derive(Debug)]
pub(super) struct Log {
    /// For the program.
    pub program: File,
    /// For the quota of output: a separate description of the same file, with a separate position,
    /// which does not append.
    pub watched: File,
}

impl Log {
    /// Creates a log. A node's own program may start more than once and continues its log; other
    /// programs begin theirs anew.
    ///
    /// # Errors
    /// If the file cannot be created, is no regular file, or has further names.
    pub fn open(path: &Path, role: Role) -> io::Result<Self> {
        let mut options = File::options();
        // A program of a plain node can write this folder, and must not lead Thingbed to another file
        // by a symbolic or hard link, nor make it wait at a named pipe.
        options.read(true).write(true).create(true).truncate(false);
        let watched = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
        let found = watched.metadata()?;
        let replaced = match (found.is_file(), found.nlink()) {
            (false, _) => Some("something that is no regular file"),
            // A log of Thingbed has one name, or none if it was removed since.
            (true, 2..) => Some("a hard link to a file that has another name, too"),
            (true, _) => None,
        };
        if let Some(by) = replaced {
            let text = format!("a program has replaced the log by {by}; remove it");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if role != Role::Node {
            watched.set_len(0)?;
        }
        // The same file, whatever has its name by now.
        let same = format!("/proc/self/fd/{}", watched.as_raw_fd());
        let program = File::options().write(true).append(role == Role::Node).open(same)?;
        Ok(Self { program, watched })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    const ROLES: [Role; 2] = [Role::Node, Role::Command];

    /// What failed before: the first open followed the link, and emptied or extended the other file.
    #[test]
    fn a_log_is_not_opened_through_a_symbolic_link() {
        for role in ROLES {
            let dir = tempfile::tempdir().unwrap();
            let [log, other] = ["log", "other"].map(|name| dir.path().join(name));
            symlink(&other, &log).unwrap();
            let error = Log::open(&log, role).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
            assert!(!other.exists(), "the file of a link without a target was made");
            std::fs::write(&other, "of the user").unwrap();
            assert!(Log::open(&log, role).is_err());
            assert_eq!(std::fs::read_to_string(&other).unwrap(), "of the user");
        }
    }

    /// What failed before: the other file was emptied or extended.
    #[test]
    fn a_log_is_no_hard_link_to_another_file() {
        for role in ROLES {
            let dir = tempfile::tempdir().unwrap();
            let [log, other] = ["log", "other"].map(|name| dir.path().join(name));
            Log::open(&log, role).unwrap().program.write_all(b"output").unwrap();
            std::fs::write(&other, "of the user").unwrap();
            std::fs::remove_file(&log).unwrap();
            std::fs::hard_link(&other, &log).unwrap();
            let error = Log::open(&log, role).unwrap_err().to_string();
            assert!(error.contains("hard link") && error.contains("remove it"), "{error}");
            assert_eq!(std::fs::read_to_string(&other).unwrap(), "of the user");
            std::fs::remove_file(&log).unwrap();
            Log::open(&log, role).unwrap();
        }
    }

    #[test]
    fn a_log_is_a_regular_file() {
        for role in ROLES {
            let dir = tempfile::tempdir().unwrap();
            let pipe = dir.path().join("pipe");
            let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
            // SAFETY: the name is a valid string over the call.
            assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
            // Without a reader, a blocking open of a pipe to write would wait for ever.
            let error = Log::open(&pipe, role).unwrap_err();
            assert!(error.to_string().contains("no regular file"), "{error}");
            assert!(Log::open(dir.path(), role).is_err());
        }
    }

    #[test]
    fn only_the_log_of_a_node_continues() {
        for (role, expected) in [(Role::Node, "first\nlast\n"), (Role::Command, "last\n")] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("log");
            Log::open(&path, role).unwrap().program.write_all(b"first\n").unwrap();
            let mut log = Log::open(&path, role).unwrap();
            log.program.write_all(b"last\n").unwrap();
            let mut text = String::new();
            log.watched.read_to_string(&mut text).unwrap();
            assert_eq!(
                text, expected,
                "of {role:?}, read from the begin by the second description"
            );
            // Programs get no flag that changes what a write does.
            // SAFETY: a plain system call on an open file.
            let flags = unsafe { libc::fcntl(log.program.as_raw_fd(), libc::F_GETFL) };
            assert_eq!(flags & libc::O_NONBLOCK, 0);
        }
    }
}
