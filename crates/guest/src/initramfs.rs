//! An archive of files that the kernel unpacks at boot (initramfs): cpio in the format `newc`
//! (Documentation/driver-api/early-userspace/buffer-format.rst of Linux).

use crate::files::Entry;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// Kinds of files in a member's mode, as in `st_mode` (inode(7)).
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const KIND: u32 = 0o170_000;
/// The magic number and 13 fields of 8 hexadecimal digits.
const HEAD_BYTES: usize = 110;
/// The name of the last member.
const TRAILER: &str = "TRAILER!!!";

/// Writes `files` sorted by path, with owner root and time 0: the same files give the same bytes.
/// Returns the size in bytes.
///
/// # Errors
/// When a file cannot be read or the archive cannot be written.
pub(crate) fn write(files: &BTreeMap<PathBuf, Entry>, out: impl Write) -> io::Result<u64> {
    let mut out = Cpio { out, length: 0, inode: 0 };
    for (path, entry) in files {
        match entry {
            Entry::Folder => out.member(path, FOLDER | 0o755, &[])?,
            Entry::Link(target) => out.member(path, LINK | 0o777, target.as_os_str().as_bytes())?,
            Entry::Text(bytes, mode) => out.member(path, FILE | mode, bytes)?,
            Entry::Copy(from, mode) => {
                let mut bytes = Vec::new();
                File::open(from).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(
                    |error| io::Error::new(error.kind(), format!("{}: {error}", from.display())),
                )?;
                out.member(path, FILE | mode, &bytes)?;
            }
        }
    }
    out.member(Path::new(TRAILER), 0, &[])?;
    out.out.flush()?;
    Ok(out.length)
}

struct Cpio<W> {
    out: W,
    length: u64,
    inode: u32,
}

impl<W: Write> Cpio<W> {
    fn member(&mut self, path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let name = path.strip_prefix("/").unwrap_or(path).as_os_str().as_bytes();
        let too_large = |_| io::Error::other(format!("{} has 4 GiB or more", path.display()));
        let size = u32::try_from(bytes.len()).map_err(too_large)?;
        self.inode += 1;
        let name_size = name.len() as u32 + 1;
        // ino, mode, uid, gid, nlink, mtime, size, two devices of two numbers, name, check.
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        let mut head = b"070701".to_vec();
        for field in fields {
            head.extend(format!("{field:08x}").bytes());
        }
        head.extend(name);
        head.push(0);
        self.put(&head)?;
        self.put(bytes)
    }

    /// Writes bytes, padded to a multiple of four.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        let missing = bytes.len().wrapping_neg() % 4;
        self.out.write_all(&[0; 3][..missing])?;
        self.length += (bytes.len() + missing) as u64;
        Ok(())
    }
}

/// Unpacks an archive of [`write`] into the folder `root`.
///
/// # Errors
/// When the archive is invalid, or a file cannot be created.
pub(crate) fn unpack(mut from: impl Read, root: &Path) -> io::Result<()> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    loop {
        let mut head = [0; HEAD_BYTES];
        from.read_exact(&mut head)?;
        let field = |number: usize| {
            let digits = &head[6 + 8 * number..14 + 8 * number];
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            u32::from_str_radix(digits, 16).map_err(|_| damaged())
        };
        let (mode, size, name_size): (u32, u32, u32) = (field(1)?, field(6)?, field(11)?);
        let mut name = vec![0; name_size as usize];
        from.read_exact(&mut name)?;
        skip(&mut from, HEAD_BYTES + name.len())?;
        // The final NUL.
        name.pop();
        if name == TRAILER.as_bytes() {
            return Ok(());
        }
        let to = root.join(OsStr::from_bytes(&name));
        let mut bytes = (&mut from).take(size.into());
        match mode & KIND {
            FOLDER => fs::create_dir_all(&to)?,
            LINK => {
                let mut target = Vec::new();
                bytes.read_to_end(&mut target)?;
                symlink(OsStr::from_bytes(&target), &to)?;
            }
            _ => {
                let permissions = mode & !KIND;
                let mut file =
                    OpenOptions::new().write(true).create_new(true).mode(permissions).open(&to)?;
                if io::copy(&mut bytes, &mut file)? < size.into() {
                    return Err(damaged());
                }
            }
        }
        skip(&mut from, size as usize)?;
    }
}

/// Skips the padding to a multiple of four.
fn skip(from: &mut impl Read, length: usize) -> io::Result<()> {
    from.read_exact(&mut [0; 3][..length.wrapping_neg() % 4])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Files;

    /// Reads the archive with busybox's cpio, if it is installed.
    #[test]
    fn others_read_it() {
        let mut files = Files::default();
        files.put(Path::new("/a/b.txt"), Entry::Text(b"hello".to_vec(), 0o644));
        files.put(Path::new("/a/link"), Entry::Link("b.txt".into()));
        let mut bytes = Vec::new();
        assert_eq!(write(&files.entries, &mut bytes).unwrap(), bytes.len() as u64);
        let listed = "a\na/b.txt\na/link\n";
        let dir = tempfile::tempdir().unwrap();
        let archive = dir.path().join("archive");
        std::fs::write(&archive, &bytes).unwrap();
        let busybox = std::process::Command::new("busybox")
            .args(["cpio", "-t"])
            .stdin(File::open(&archive).unwrap())
            .output();
        if let Ok(output) = busybox {
            assert_eq!(String::from_utf8_lossy(&output.stdout), listed);
        }
        let root = tempfile::tempdir().unwrap();
        unpack(bytes.as_slice(), root.path()).unwrap();
        assert_eq!(std::fs::read_to_string(root.path().join("a/link")).unwrap(), "hello");
        for length in [0, 5, 120, bytes.len() - 130] {
            let root = tempfile::tempdir().unwrap();
            assert!(unpack(&bytes[..length], root.path()).is_err());
        }
        let mut again = Vec::new();
        write(&files.entries, &mut again).unwrap();
        assert_eq!(bytes, again);
    }
}
