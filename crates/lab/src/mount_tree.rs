//! Copies of mounts that are attached elsewhere, and whose owners may be shown as other users
//! (open_tree(2), mount_setattr(2), move_mount(2)).

use nix::errno::Errno;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A detached copy of the mounts at and below `place`.
pub(crate) fn tree(place: &Path) -> Result<OwnedFd, Errno> {
    let place = path(place)?;
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as u32;
    // SAFETY: the path lives over the call; a valid descriptor is owned at once.
    unsafe {
        let fd = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, place.as_ptr(), flags);
        Ok(OwnedFd::from_raw_fd(Errno::result(fd)? as i32))
    }
}

/// A detached copy of the mount of an open folder, without mounts below, in which the files of the
/// user 0 belong to the root of the user namespace `users`, and so on.
///
/// # Errors
/// EINVAL before Linux 5.12, or if the file system does not support it.
pub(crate) fn owned_by(folder: &OwnedFd, users: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_EMPTY_PATH as u32;
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd: users.as_raw_fd() as u64,
    };
    // SAFETY: the paths and the structure live over the calls; a valid descriptor is owned at once.
    unsafe {
        let fd = libc::syscall(libc::SYS_open_tree, folder.as_raw_fd(), c"".as_ptr(), flags);
        let tree = OwnedFd::from_raw_fd(Errno::result(fd)? as i32);
        let set = libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        );
        Errno::result(set)?;
        Ok(tree)
    }
}

/// Attaches such a copy.
pub(crate) fn put(tree: impl AsFd, place: &Path) -> Result<(), Errno> {
    let place = path(place)?;
    // SAFETY: both paths live over the call.
    let moved = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            place.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    Errno::result(moved).map(drop)
}

fn path(path: &Path) -> Result<CString, Errno> {
    CString::new(OsStr::as_bytes(path.as_os_str())).map_err(|_| Errno::EINVAL)
}
