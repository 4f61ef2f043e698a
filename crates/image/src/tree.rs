//! The folder that an image is unpacked into; no entry can leave it.
//!
//! The kernel opens each path beneath the root (openat2(2), `RESOLVE_BENEATH`). It refuses
//! a link of a lower layer that leads out of the root, even if another process swaps files
//! in the meantime.

use crate::entry_error::EntryError;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, UtimensatFlags, fchmod, fstatat, mkdirat, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, fchownat, linkat, symlinkat, unlinkat};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The target folder, while one layer is extracted.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    /// Only root can change owners. As another user, that user owns all files and is root
    /// in the nodes.
    can_set_owner: bool,
    /// The paths that this layer has created, with their parent folders. The layer's
    /// whiteouts apply to lower layers only.
    created: HashSet<PathBuf>,
    /// The paths that this layer leaves out: device nodes.
    skipped: HashSet<PathBuf>,
    /// Folders' modification times, set at the end because adding files changes them.
    times: Vec<(PathBuf, i64)>,
}

/// The metadata of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metadata {
    /// Permission bits, with set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// In s since 1970.
    pub mtime: i64,
}

type EntryResult = Result<(), EntryError>;

impl Tree {
    pub fn open(root: &Path) -> io::Result<Self> {
        let root = File::open(root)?.into();
        let can_set_owner = nix::unistd::geteuid().is_root();
        Ok(Self {
            root,
            can_set_owner,
            created: HashSet::new(),
            skipped: HashSet::new(),
            times: Vec::new(),
        })
    }

    /// Creates a folder, or applies this layer's metadata to an existing one.
    pub fn folder(&mut self, path: &Path, metadata: Metadata) -> EntryResult {
        let (parent, name) = self.parent(path)?;
        if self.kind(&parent, name) != Some(libc::S_IFDIR) {
            self.remove_entry(&parent, name)?;
            // For this user only until its owner and mode are set.
            mkdirat(&parent, name, Mode::from_bits_truncate(0o700))?;
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let folder = openat(&parent, name, flags, Mode::empty())?;
        // A non-root user must keep write access to add files to the folder.
        let mode = if self.can_set_owner { metadata.mode } else { metadata.mode | 0o700 };
        self.set_owner(&folder, metadata)?;
        fchmod(&folder, Mode::from_bits_truncate(mode))?;
        self.times.push((path.to_owned(), metadata.mtime));
        self.mark_created(path);
        Ok(())
    }

    /// Creates a file with the content of `content`.
    pub fn file(
        &mut self,
        path: &Path,
        metadata: Metadata,
        content: &mut dyn Read,
        capability: Option<&[u8]>,
    ) -> EntryResult {
        let (parent, name) = self.parent(path)?;
        // Never written through: the name may be a link, or a second name of another file.
        self.remove_entry(&parent, name)?;
        let flags =
            OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file: File = openat(&parent, name, flags, Mode::from_bits_truncate(0o600))?.into();
        copy(content, &mut file)?;
        self.set_owner(&file, metadata)?;
        // After the owner: chown(2) clears the set-user-ID bit and capabilities.
        fchmod(&file, Mode::from_bits_truncate(metadata.mode))?;
        if let Some(capability) = capability.filter(|_| self.can_set_owner) {
            set_capability(&file, capability)?;
        }
        self.mark_created(path);
        time(&parent, name, metadata.mtime)
    }

    /// Creates a symbolic link. Its target is not checked: unpacking never follows it.
    pub fn symlink(&mut self, path: &Path, to: &Path, metadata: Metadata) -> EntryResult {
        let (parent, name) = self.parent(path)?;
        self.remove_entry(&parent, name)?;
        symlinkat(to, &parent, name)?;
        if self.can_set_owner {
            let (uid, gid) = (Uid::from_raw(metadata.uid), Gid::from_raw(metadata.gid));
            fchownat(&parent, name, Some(uid), Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        }
        self.mark_created(path);
        time(&parent, name, metadata.mtime)
    }

    /// Gives the file `to` a second name.
    pub fn hard_link(&mut self, path: &Path, to: &Path) -> EntryResult {
        let missing =
            || EntryError::Refused(format!("a link to `{}`, which does not exist", to.display()));
        if path == to {
            return Err(EntryError::Refused("a link to itself".to_owned()));
        }
        if self.skipped.contains(to) {
            return self.skip(path);
        }
        let (from, file) = self.parent(to)?;
        match self.kind(&from, file) {
            None => return Err(missing()),
            Some(libc::S_IFDIR) => {
                return Err(EntryError::Refused(format!(
                    "a link to the folder `{}`",
                    to.display()
                )));
            }
            Some(_) => {}
        }
        let (parent, name) = self.parent(path)?;
        self.remove_entry(&parent, name)?;
        // Without AT_SYMLINK_FOLLOW: a link to a symbolic link is one, too.
        match linkat(&from, file, &parent, name, AtFlags::empty()) {
            Err(Errno::ENOENT) => return Err(missing()),
            linked => linked?,
        }
        self.mark_created(path);
        Ok(())
    }

    /// Leaves out the entry at `path`. Removes what lower layers have there. Hard links to
    /// it are left out too.
    pub fn skip(&mut self, path: &Path) -> EntryResult {
        self.skipped.insert(path.to_owned());
        self.remove(path)
    }

    /// Creates a named pipe.
    pub fn fifo(&mut self, path: &Path, metadata: Metadata) -> EntryResult {
        let (parent, name) = self.parent(path)?;
        self.remove_entry(&parent, name)?;
        nix::unistd::mkfifoat(&parent, name, Mode::from_bits_truncate(metadata.mode))?;
        if self.can_set_owner {
            let (uid, gid) = (Uid::from_raw(metadata.uid), Gid::from_raw(metadata.gid));
            fchownat(&parent, name, Some(uid), Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        }
        self.mark_created(path);
        time(&parent, name, metadata.mtime)
    }

    /// Removes what lower layers have at `path`.
    pub fn remove(&mut self, path: &Path) -> EntryResult {
        if self.created.contains(path) {
            return self.clear(path);
        }
        let (parent, name) = match self.existing(path) {
            Err(EntryError::Disk(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(());
            }
            found => found?,
        };
        self.remove_entry(&parent, name)
    }

    /// Removes what lower layers have in the folder at `path`.
    pub fn clear(&mut self, path: &Path) -> EntryResult {
        let folder = match self.open_folder(path) {
            Err(EntryError::Disk(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(());
            }
            folder => folder?,
        };
        let names: Vec<OsString> = fs::read_dir(fd_path(&folder))?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<_>>()?;
        for name in names {
            let inner = path.join(&name);
            if !self.created.contains(&inner) {
                self.remove_entry(&folder, &name)?;
            } else if self.kind(&folder, &name) == Some(libc::S_IFDIR) {
                self.clear(&inner)?;
            }
        }
        Ok(())
    }

    /// Call this after the last entry of a layer: it sets the folders' times.
    pub fn finish(&mut self) -> io::Result<()> {
        // In reverse, so that folders precede those that contain them.
        for (path, at) in std::mem::take(&mut self.times).into_iter().rev() {
            // A later entry may have replaced the folder.
            if let Ok((parent, name)) = self.existing(&path)
                && self.kind(&parent, name) == Some(libc::S_IFDIR)
            {
                let _ = time(&parent, name, at);
            }
        }
        Ok(())
    }

    /// The parent folder of `path`, created if missing, and the last component of `path`.
    fn parent<'p>(&mut self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), EntryError> {
        match self.existing(path) {
            Err(EntryError::Disk(error)) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let (above, name) = self.parent(folder)?;
        match mkdirat(&above, name, Mode::from_bits_truncate(0o755)) {
            Err(Errno::EEXIST) => {
                let why = format!("and the link `{}` in its path has no target", folder.display());
                return Err(EntryError::Refused(why));
            }
            made => made?,
        }
        // The umask of the caller must not change the image.
        fchmod(
            openat(&above, name, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?,
            Mode::from_bits_truncate(0o755),
        )?;
        self.existing(path)
    }

    /// The parent folder of `path`, which must exist, and the last component of `path`.
    fn existing<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), EntryError> {
        let none = || EntryError::Refused("which has no name".to_owned());
        let name = path.file_name().ok_or_else(none)?;
        Ok((self.open_folder(path.parent().unwrap_or(Path::new("")))?, name))
    }

    /// Opens the folder at `path`.
    fn open_folder(&self, path: &Path) -> Result<OwnedFd, EntryError> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        match openat2(&self.root, path, how) {
            Ok(folder) => Ok(folder),
            Err(Errno::EXDEV) => Err(EntryError::Refused(format!(
                "and a link in the path to `{}` leads out of the root",
                path.display()
            ))),
            Err(Errno::ELOOP) => Err(EntryError::Refused(format!(
                "and links in the path to `{}` form a loop",
                path.display()
            ))),
            Err(Errno::ENOTDIR) => {
                Err(EntryError::Refused(format!("and `{}` is not a folder", path.display())))
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// The file type of `name`, without following links.
    fn kind(&self, parent: &OwnedFd, name: &OsStr) -> Option<u32> {
        let stat = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        Some(stat.st_mode & libc::S_IFMT)
    }

    /// Removes `name` with its content, if it exists.
    fn remove_entry(&mut self, parent: &OwnedFd, name: &OsStr) -> EntryResult {
        match self.kind(parent, name) {
            None => Ok(()),
            // The parent is open, so its descriptor cannot mean another folder. Links
            // inside are removed, not followed.
            Some(libc::S_IFDIR) => Ok(fs::remove_dir_all(fd_path(parent).join(name))?),
            Some(_) => Ok(unlinkat(parent, name, UnlinkatFlags::NoRemoveDir)?),
        }
    }

    fn set_owner(&self, file: &impl AsFd, metadata: Metadata) -> EntryResult {
        if self.can_set_owner {
            fchown(file, Some(Uid::from_raw(metadata.uid)), Some(Gid::from_raw(metadata.gid)))?;
        }
        Ok(())
    }

    fn mark_created(&mut self, path: &Path) {
        // Ancestors of a known path are known.
        for path in path.ancestors() {
            if !self.created.insert(path.to_owned()) {
                break;
            }
        }
    }
}

/// The path of an open folder.
fn fd_path(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

fn time(parent: &OwnedFd, name: &OsStr, at: i64) -> EntryResult {
    let at = TimeSpec::new(at, 0);
    utimensat(parent, name, &at, &at, UtimensatFlags::NoFollowSymlink)?;
    Ok(())
}

fn set_capability(file: &File, value: &[u8]) -> EntryResult {
    let name = c"security.capability";
    // SAFETY: name and value are readable for their whole lengths.
    let set = unsafe {
        libc::fsetxattr(file.as_raw_fd(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0)
    };
    match Errno::result(set) {
        // The file system has no capabilities, or this process may not set them.
        Ok(_) | Err(Errno::EOPNOTSUPP | Errno::EPERM) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Copies, and distinguishes read errors from write errors.
fn copy(from: &mut dyn Read, to: &mut File) -> EntryResult {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(EntryError::Damaged(error)),
        };
        io::Write::write_all(to, &buffer[..read])?;
    }
}
