//! Opens files that users and experiment files name, which may be anything: opening a FIFO
//! blocks, `/dev/zero` never ends, and a file of the wrong name may be larger than the memory.

mod header_limit;

pub use header_limit::{HeaderLimit, Limited, MAX_HEADERS};

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Maximum size of a file of settings or names that is read as a whole, in bytes.
pub const MAX_TEXT: u64 = 16 << 20;
/// Maximum size of a file of values, such as a trace, that is read as a whole, in bytes.
pub const MAX_DATA: u64 = 256 << 20;

/// For [`open`]: any size, since the file is not read as a whole.
pub const ANY_SIZE: u64 = u64::MAX;

/// Opens a regular file of this user with at most `limit` bytes, and no other file through a symbolic
/// link: for folders in which Thingbed writes all files itself. Never blocks.
///
/// # Errors
/// See [`open`]. Also if the file belongs to another user or is a symbolic link.
pub fn open_own(path: &Path, limit: u64) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    // SAFETY: a plain system call, which cannot fail.
    if found.uid() != unsafe { libc::geteuid() } {
        let text = "it belongs to another user";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    check(&found, limit)?;
    Ok(file)
}

/// Opens a regular file of at most `limit` bytes. Never blocks.
///
/// # Errors
/// If the file cannot be opened, is no regular file, or is larger. The text says what it is.
pub fn open(path: &Path, limit: u64) -> io::Result<File> {
    // Before opening: that alone has effects on some devices.
    check(&std::fs::metadata(path)?, limit)?;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    // Afterwards: another file may have its name by now.
    check(&file.metadata()?, limit)?;
    Ok(file)
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// See [`open`], and if reading fails.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Files of /proc have the size 0, and others may grow.
    open(path, limit)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(too_large(limit)),
        false => Ok(bytes),
    }
}

/// Reads a regular file of at most `limit` bytes in UTF-8.
///
/// # Errors
/// See [`read`], and if it is not UTF-8.
pub fn read_to_string(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("byte {at} is not UTF-8 text"))
    })
}

fn check(found: &Metadata, limit: u64) -> io::Result<()> {
    let kind = found.file_type();
    let what = match () {
        () if kind.is_file() && found.len() > limit => return Err(too_large(limit)),
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe (FIFO)",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    let text = format!("it is {what}, not a regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

fn too_large(limit: u64) -> io::Error {
    let limit = match limit >> 20 {
        0 => format!("{limit} B"),
        mebibytes => format!("{mebibytes} MiB"),
    };
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit}, the limit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(path: &Path, limit: u64) -> String {
        read(path, limit).unwrap_err().to_string()
    }

    #[test]
    fn regular_files_are_read_up_to_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "twelve bytes").unwrap();
        assert_eq!(read_to_string(&path, 12).unwrap(), "twelve bytes");
        assert_eq!(why(&path, 11), "it is larger than 11 B, the limit");
        std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
        assert!(read(&dir.path().join("link"), 12).is_ok());
        assert_eq!(read(&dir.path().join("none"), 12).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, [b'a', 0xff]).unwrap();
        let error = read_to_string(&path, 12).unwrap_err();
        assert_eq!(error.to_string(), "byte 1 is not UTF-8 text");
        // A sparse file: 1 TiB of nothing.
        std::fs::File::create(&path).and_then(|file| file.set_len(1 << 40)).unwrap();
        assert_eq!(why(&path, MAX_DATA), "it is larger than 256 MiB, the limit");
    }

    #[test]
    fn a_file_that_states_no_size_is_limited_too() {
        assert!(read(Path::new("/proc/self/maps"), MAX_TEXT).is_ok_and(|text| !text.is_empty()));
        assert_eq!(why(Path::new("/proc/self/maps"), 10), "it is larger than 10 B, the limit");
    }

    #[test]
    fn pipes_devices_sockets_and_folders_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
        // SAFETY: the name is a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, what) in [
            (fifo.as_path(), "a pipe (FIFO)"),
            (&socket, "a socket"),
            (Path::new("/dev/zero"), "a device"),
            (dir.path(), "a folder"),
        ] {
            assert_eq!(why(path, 10), format!("it is {what}, not a regular file"));
        }
    }

    #[test]
    fn own_files_are_no_links_and_no_pipes() {
        let dir = tempfile::tempdir().unwrap();
        let [path, link, fifo] = ["file", "link", "fifo"].map(|name| dir.path().join(name));
        std::fs::write(&path, "text").unwrap();
        assert!(open_own(&path, 4).is_ok());
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(open_own(&link, 4).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
        // SAFETY: the name is a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(open_own(&fifo, 4).is_err());
    }
}
