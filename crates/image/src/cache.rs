//! Images that have been unpacked, each in a folder called by its digest.
//!
//! What is in a folder never changes, so it may be kept as long as there is room,
//! and any number of labs may use it at once. A lock file beside it is held by each
//! of them, and by whoever unpacks or removes it.

use crate::archive::Archive;
use crate::digest;
use crate::error::{Error, Fault};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The folder of the cache.
#[derive(Debug, Clone)]
pub struct Cache(PathBuf);

/// An unpacked image. It is not removed while this is held.
#[derive(Debug)]
pub struct Unpacked {
    /// The root file system; it must not be written to.
    pub root: PathBuf,
    _lock: Flock<File>,
}

/// An image in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cached {
    /// Its digest.
    pub digest: String,
    /// Whether a lab uses it.
    pub in_use: bool,
}

impl Cache {
    /// This user's: `$XDG_CACHE_HOME/thingbed/images`, else
    /// `/var/cache/thingbed/images` as root and `~/.cache/thingbed/images` as
    /// others.
    pub fn of_user() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty());
        let base = match (set("XDG_CACHE_HOME"), set("HOME")) {
            (Some(cache), _) => PathBuf::from(cache),
            (None, _) if nix::unistd::geteuid().is_root() => PathBuf::from("/var/cache"),
            (None, Some(home)) => Path::new(&home).join(".cache"),
            (None, None) => PathBuf::from(format!("/tmp/thingbed-{}", nix::unistd::geteuid())),
        };
        Self(base.join("thingbed/images"))
    }

    /// One in the folder `dir`.
    pub fn at(dir: &Path) -> Self {
        Self(dir.to_owned())
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The root file system of `archive`, unpacked unless it has been before.
    ///
    /// # Errors
    /// When the archive's layers are damaged or hold what none should, or the cache
    /// cannot be written. Nothing of the image is kept then.
    pub fn unpack(&self, archive: &Archive) -> Result<Unpacked, Error> {
        self.make(archive).map_err(|fault| match fault {
            Ok(fault) => fault.at(&self.0),
            Err(error) => error,
        })
    }

    fn make(&self, archive: &Archive) -> Result<Unpacked, Result<Fault, Error>> {
        let failed = |tried: String| move |error| Ok(Fault::cache(tried)(error));
        self.prepare().map_err(failed(format!("create the folder {}", self.0.display())))?;
        let Some(name) = digest::hex(archive.digest()) else {
            return Err(Ok(Fault::damaged("its configuration", "it has no digest")));
        };
        let root = self.0.join(name).join("root");
        let lock = self.lock(name, FlockArg::LockShared);
        let lock = lock.map_err(failed(format!("lock the image {name}")))?;
        if root.is_dir() {
            return Ok(Unpacked { root, _lock: lock });
        }
        drop(lock);
        let lock = self.lock(name, FlockArg::LockExclusive);
        let lock = lock.map_err(failed(format!("lock the image {name}")))?;
        if !root.is_dir() {
            // Under the lock, a draft can only be that of somebody who was killed.
            let draft = self.0.join(format!("{name}.draft"));
            remove(&draft).map_err(failed(format!("remove {}", draft.display())))?;
            let inner = draft.join("root");
            let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(&inner);
            made.map_err(failed(format!("create the folder {}", inner.display())))?;
            if let Err(error) = archive.unpack(&inner) {
                let _ = remove(&draft);
                return Err(Err(error));
            }
            let done = fs::rename(&draft, self.0.join(name));
            done.map_err(failed(format!("rename {}", draft.display())))?;
        }
        // Between the two locks it may be removed by another; then all begins anew.
        let shared = lock.relock(FlockArg::LockShared).map_err(io::Error::from);
        shared.map_err(failed(format!("lock the image {name}")))?;
        match root.is_dir() {
            true => Ok(Unpacked { root, _lock: lock }),
            false => {
                drop(lock);
                self.make(archive)
            }
        }
    }

    /// What is in it. A cache that is not there is empty.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn list(&self) -> io::Result<Vec<Cached>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut cached = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            let digest = format!("sha256:{name}");
            if digest::hex(&digest).is_some() && self.0.join(name).is_dir() {
                let in_use = self.lock(name, FlockArg::LockExclusiveNonblock).is_err();
                cached.push(Cached { digest, in_use });
            }
        }
        cached.sort_by(|a, b| a.digest.cmp(&b.digest));
        Ok(cached)
    }

    /// Removes an image, unless a lab uses it; whether it did.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self, digest: &str) -> io::Result<bool> {
        let Some(name) = digest::hex(digest) else { return Ok(false) };
        let lock = match self.lock(name, FlockArg::LockExclusiveNonblock) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            lock => lock?,
        };
        // First out of the way: half an image is never found under its name.
        let draft = self.0.join(format!("{name}.draft"));
        remove(&draft)?;
        fs::rename(self.0.join(name), &draft)?;
        remove(&draft)?;
        drop(lock);
        Ok(true)
    }

    /// Makes the folder, for this user alone: what is in it may run as root.
    fn prepare(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let meta = fs::symlink_metadata(&self.0)?;
        if meta.uid() != nix::unistd::geteuid().as_raw() || meta.mode() & 0o022 != 0 {
            let why = "it belongs to another user, or other users can write to it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(())
    }

    /// The lock file is never removed: somebody may be about to lock it.
    fn lock(&self, name: &str, how: FlockArg) -> io::Result<Flock<File>> {
        let mut options = File::options();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(self.0.join(format!("{name}.lock")))?;
        Flock::lock(file, how).map_err(|(_, errno)| errno.into())
    }
}

/// Removes a folder with all in it, if it is there, also where its own folders may
/// not be written to.
fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(dir)?;
            fs::remove_dir_all(dir)
        }
        removed => removed,
    }
}

fn open_up(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}
