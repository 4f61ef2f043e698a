//! The folder that an image is unpacked into; no entry can leave it.
//!
//! The kernel opens each path beneath the root (openat2(2), `RESOLVE_BENEATH`). It refuses
//! a link of a lower layer that leads out of the root, even if another process swaps files
//! in the meantime.

use crate::layer::Why;
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
    gives_away: bool,
    /// The paths that this layer has created, with their parent folders. The layer's
    /// whiteouts apply to lower layers only.
    made: HashSet<PathBuf>,
    /// The paths that this layer leaves out: device nodes.
    left_out: HashSet<PathBuf>,
    /// Folders' modification times, set at the end because adding files changes them.
    times: Vec<(PathBuf, i64)>,
}

/// The metadata of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    /// Permission bits, with set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// In s since 1970.
    pub mtime: i64,
}

type Step = Result<(), Why>;

impl Tree {
    pub fn open(root: &Path) -> io::Result<Self> {
        let root = File::open(root)?.into();
        let gives_away = nix::unistd::geteuid().is_root();
        Ok(Self {
            root,
            gives_away,
            made: HashSet::new(),
            left_out: HashSet::new(),
            times: Vec::new(),
        })
    }

    /// Creates a folder, or applies this layer's metadata to an existing one.
    pub fn folder(&mut self, path: &Path, made: Made) -> Step {
        let (parent, name) = self.parent(path)?;
        if self.kind(&parent, name) != Some(libc::S_IFDIR) {
            self.take_away(&parent, name)?;
            mkdirat(&parent, name, Mode::from_bits_truncate(0o700))?;
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let folder = openat(&parent, name, flags, Mode::empty())?;
        // A non-root user must keep write access to add files to the folder.
        let mode = if self.gives_away { made.mode } else { made.mode | 0o700 };
        self.give(&folder, made)?;
        fchmod(&folder, Mode::from_bits_truncate(mode))?;
        self.times.push((path.to_owned(), made.mtime));
        self.note(path);
        Ok(())
    }

    /// Creates a file with the content of `content`.
    pub fn file(
        &mut self,
        path: &Path,
        made: Made,
        content: &mut dyn Read,
        capability: Option<&[u8]>,
    ) -> Step {
        let (parent, name) = self.parent(path)?;
        self.take_away(&parent, name)?;
        let flags =
            OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file: File = openat(&parent, name, flags, Mode::from_bits_truncate(0o600))?.into();
        copy(content, &mut file)?;
        self.give(&file, made)?;
        fchmod(&file, Mode::from_bits_truncate(made.mode))?;
        if let Some(capability) = capability.filter(|_| self.gives_away) {
            set_capability(&file, capability)?;
        }
        self.note(path);
        time(&parent, name, made.mtime)
    }

    /// Creates a symbolic link. Its target is not checked: unpacking never follows it.
    pub fn symlink(&mut self, path: &Path, to: &Path, made: Made) -> Step {
        let (parent, name) = self.parent(path)?;
        self.take_away(&parent, name)?;
        symlinkat(to, &parent, name)?;
        if self.gives_away {
            let (uid, gid) = (Uid::from_raw(made.uid), Gid::from_raw(made.gid));
            fchownat(&parent, name, Some(uid), Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        }
        self.note(path);
        time(&parent, name, made.mtime)
    }

    /// Gives the file `to` a second name.
    pub fn hard_link(&mut self, path: &Path, to: &Path) -> Step {
        let missing =
            || Why::Refused(format!("a link to `{}`, which does not exist", to.display()));
        if path == to {
            return Err(Why::Refused("a link to itself".to_owned()));
        }
        if self.left_out.contains(to) {
            return self.leave_out(path);
        }
        let (from, file) = self.parent(to)?;
        match self.kind(&from, file) {
            None => return Err(missing()),
            Some(libc::S_IFDIR) => {
                return Err(Why::Refused(format!("a link to the folder `{}`", to.display())));
            }
            Some(_) => {}
        }
        let (parent, name) = self.parent(path)?;
        self.take_away(&parent, name)?;
        match linkat(&from, file, &parent, name, AtFlags::empty()) {
            Err(Errno::ENOENT) => return Err(missing()),
            linked => linked?,
        }
        self.note(path);
        Ok(())
    }

    /// Leaves out the entry at `path`. Removes what lower layers have there. Hard links to
    /// it are left out too.
    pub fn leave_out(&mut self, path: &Path) -> Step {
        self.left_out.insert(path.to_owned());
        self.remove(path)
    }

    /// Creates a named pipe.
    pub fn fifo(&mut self, path: &Path, made: Made) -> Step {
        let (parent, name) = self.parent(path)?;
        self.take_away(&parent, name)?;
        nix::unistd::mkfifoat(&parent, name, Mode::from_bits_truncate(made.mode))?;
        if self.gives_away {
            let (uid, gid) = (Uid::from_raw(made.uid), Gid::from_raw(made.gid));
            fchownat(&parent, name, Some(uid), Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        }
        self.note(path);
        time(&parent, name, made.mtime)
    }

    /// Removes what lower layers have at `path`.
    pub fn remove(&mut self, path: &Path) -> Step {
        if self.made.contains(path) {
            return self.clear(path);
        }
        let (parent, name) = match self.existing(path) {
            Err(Why::Disk(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        self.take_away(&parent, name)
    }

    /// Removes what lower layers have in the folder at `path`.
    pub fn clear(&mut self, path: &Path) -> Step {
        let folder = match self.beneath(path) {
            Err(Why::Disk(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            folder => folder?,
        };
        let names: Vec<OsString> = fs::read_dir(by_number(&folder))?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<_>>()?;
        for name in names {
            let inner = path.join(&name);
            if !self.made.contains(&inner) {
                self.take_away(&folder, &name)?;
            } else if self.kind(&folder, &name) == Some(libc::S_IFDIR) {
                self.clear(&inner)?;
            }
        }
        Ok(())
    }

    /// Call this after the last entry of a layer: it sets the folders' times.
    pub fn finish(&mut self) -> io::Result<()> {
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
    fn parent<'p>(&mut self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), Why> {
        match self.existing(path) {
            Err(Why::Disk(error)) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let (above, name) = self.parent(folder)?;
        match mkdirat(&above, name, Mode::from_bits_truncate(0o755)) {
            Err(Errno::EEXIST) => {
                let why = format!("and the link `{}` in its path has no target", folder.display());
                return Err(Why::Refused(why));
            }
            made => made?,
        }
        fchmod(
            openat(&above, name, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?,
            Mode::from_bits_truncate(0o755),
        )?;
        self.existing(path)
    }

    /// The parent folder of `path`, which must exist, and the last component of `path`.
    fn existing<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), Why> {
        let none = || Why::Refused("which has no name".to_owned());
        let name = path.file_name().ok_or_else(none)?;
        Ok((self.beneath(path.parent().unwrap_or(Path::new("")))?, name))
    }

    /// Opens the folder at `path`.
    fn beneath(&self, path: &Path) -> Result<OwnedFd, Why> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        match openat2(&self.root, path, how) {
            Ok(folder) => Ok(folder),
            Err(Errno::EXDEV) => Err(Why::Refused(format!(
                "and a link in the path to `{}` leads out of the root",
                path.display()
            ))),
            Err(Errno::ELOOP) => Err(Why::Refused(format!(
                "and links in the path to `{}` form a loop",
                path.display()
            ))),
            Err(Errno::ENOTDIR) => {
                Err(Why::Refused(format!("and `{}` is not a folder", path.display())))
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
    fn take_away(&mut self, parent: &OwnedFd, name: &OsStr) -> Step {
        match self.kind(parent, name) {
            None => Ok(()),
            // The parent is open, so its descriptor cannot mean another folder. Links
            // inside are removed, not followed.
            Some(libc::S_IFDIR) => Ok(fs::remove_dir_all(by_number(parent).join(name))?),
            Some(_) => Ok(unlinkat(parent, name, UnlinkatFlags::NoRemoveDir)?),
        }
    }

    fn give(&self, file: &impl AsFd, made: Made) -> Step {
        if self.gives_away {
            fchown(file, Some(Uid::from_raw(made.uid)), Some(Gid::from_raw(made.gid)))?;
        }
        Ok(())
    }

    fn note(&mut self, path: &Path) {
        for path in path.ancestors() {
            if !self.made.insert(path.to_owned()) {
                break;
            }
        }
    }
}

/// The path of an open folder.
fn by_number(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

fn time(parent: &OwnedFd, name: &OsStr, at: i64) -> Step {
    let at = TimeSpec::new(at, 0);
    utimensat(parent, name, &at, &at, UtimensatFlags::NoFollowSymlink)?;
    Ok(())
}

fn set_capability(file: &File, value: &[u8]) -> Step {
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
fn copy(from: &mut dyn Read, to: &mut File) -> Step {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Why::Damaged(error)),
        };
        io::Write::write_all(to, &buffer[..read])?;
    }
}
