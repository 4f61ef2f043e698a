//! Space on the disk: how much is free, and how to keep some for later.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Errors of a write for which there is no space: a full disk, a used quota, a limit of file sizes
/// (`ulimit -f`).
pub const FULL: [i32; 3] = [libc::ENOSPC, libc::EDQUOT, libc::EFBIG];

/// Whether a write failed because there is no space for it: one of [`FULL`].
pub fn is_full(error: &io::Error) -> bool {
    let full = FULL.map(|errno| io::Error::from_raw_os_error(errno).kind());
    full.contains(&error.kind())
}

/// Maximum size of a file that this process may write, in bytes; `None` without a limit.
pub fn file_size_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a plain system call that writes to `limit`.
    let done = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    (done == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Allocates `bytes` in `folder` and frees them, which also fails where a quota does not allow them:
/// file systems do not say how much of a quota is left. Succeeds where it cannot be tried.
///
/// # Errors
/// When there is no space: see [`is_full`].
pub fn can_allocate(folder: &Path, bytes: u64) -> io::Result<()> {
    let options = File::options().write(true).custom_flags(libc::O_TMPFILE).open(folder);
    match options.and_then(|file| preallocate(&file, bytes)) {
        Err(error) if is_full(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Space that this process can use on the file system of `path`, in bytes.
///
/// # Errors
/// When the path does not exist.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path is a C string and `found` has room for the result.
    if unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so it filled the structure.
    let found = unsafe { found.assume_init() };
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Allocates `bytes` for a file without changing its length, so that writes up to there do not fail
/// on a full disk. Returns false on file systems that cannot.
///
/// # Errors
/// When there is not enough space.
pub fn preallocate(file: &File, bytes: u64) -> io::Result<bool> {
    let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    if length == 0 {
        return Ok(true);
    }
    // SAFETY: a plain system call on an open file.
    let done = unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, length) };
    if done == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
        error if error.raw_os_error() == Some(libc::ENOSYS) => Ok(false),
        error => Err(error),
    }
}

/// Space that is kept until this is dropped. The file has no name, so a killed process leaves
/// nothing.
#[derive(Debug)]
pub struct Reserve {
    file: File,
}

impl Reserve {
    /// Keeps `bytes` on the file system of `folder`; nothing on file systems that cannot.
    ///
    /// # Errors
    /// When there is not enough space.
    pub fn take(folder: &Path, bytes: u64) -> io::Result<Self> {
        let file = crate::nameless(folder)?;
        preallocate(&file, bytes)?;
        Ok(Self { file })
    }

    /// Frees the space, and waits until the file system counts it as free: btrfs does so with its next
    /// transaction only.
    pub fn release(self) {
        // Frees the blocks also where the descriptor has a copy.
        let _ = self.file.set_len(0);
        // SAFETY: a plain system call on an open file.
        unsafe { libc::syncfs(self.file.as_raw_fd()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_reserve_takes_space_until_it_is_dropped_and_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = Reserve::take(dir.path(), 3 << 20).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let kept = reserve.file.metadata().unwrap();
        assert_eq!(kept.len(), 0);
        // File systems without preallocation keep none.
        assert!(kept.blocks() * 512 >= 3 << 20 || kept.blocks() == 0, "{}", kept.blocks());
        assert!(free_space(dir.path()).unwrap() > 0);
        assert!(Reserve::take(dir.path(), 1 << 60).is_err() || kept.blocks() == 0);
        let copy = reserve.file.try_clone().unwrap();
        reserve.release();
        assert_eq!(copy.metadata().unwrap().blocks(), 0);
    }

    #[test]
    fn no_space_is_a_full_disk_a_quota_or_a_limit_of_file_sizes() {
        for errno in FULL {
            assert!(is_full(&io::Error::from_raw_os_error(errno)), "{errno}");
        }
        assert!(!is_full(&io::Error::from_raw_os_error(libc::EIO)));
        assert!(is_full(&io::Error::new(io::ErrorKind::QuotaExceeded, "with a text")));
    }

    #[test]
    fn only_what_fits_can_be_allocated() {
        let dir = tempfile::tempdir().unwrap();
        assert!(can_allocate(dir.path(), 1 << 20).is_ok());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(can_allocate(Path::new("/no/such/folder"), 1 << 20).is_ok(), "cannot be tried");
        // Beyond any file system's size of a file.
        assert!(can_allocate(dir.path(), 1 << 62).is_err());
    }

    #[test]
    fn a_path_that_does_not_exist_has_no_space() {
        assert!(free_space(Path::new("/no/such/folder")).is_err());
    }
}
