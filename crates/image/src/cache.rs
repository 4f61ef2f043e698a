//! The cache of unpacked images, each in a folder named by its digest.
//!
//! The content of a folder never changes, so any number of labs can use it at once and it
//! can be kept as long as there is room. Each image has a lock file next to its folder.
//! Each lab that uses the image holds this lock (shared), and so does the process that
//! unpacks or removes it (exclusive).

use crate::archive::Archive;
use crate::digest;
use crate::error::{Error, Fault};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The cache, by its folder.
#[derive(Debug, Clone)]
pub struct Cache(PathBuf);

/// An unpacked image. It is not removed while this value lives.
#[derive(Debug)]
pub struct Unpacked {
    /// The root file system; read-only by contract.
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
    /// The current user's cache: `$XDG_CACHE_HOME/thingbed/images` if set, else
    /// `/var/cache/thingbed/images` for root and `~/.cache/thingbed/images` for other
    /// users.
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

    /// The cache in the folder `dir`.
    pub fn at(dir: &Path) -> Self {
        Self(dir.to_owned())
    }

    /// The cache's folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The root file system of `archive`. Unpacks the image unless the cache has it.
    ///
    /// # Errors
    /// When the archive's layers are damaged or have a forbidden entry, or the cache cannot
    /// be written. The cache then keeps nothing of the image.
    pub fn unpack(&self, archive: &Archive) -> Result<Unpacked, Error> {
        self.make(archive).map_err(|fault| match fault {
            Ok(fault) => fault.at(&self.0),
            Err(error) => error,
        })
    }

    fn make(&self, archive: &Archive) -> Result<Unpacked, Result<Fault, Error>> {
        let failed = |action: String| move |error| Ok(Fault::cache(action)(error));
        self.prepare().map_err(failed(format!("create the folder {}", self.0.display())))?;
        let Some(name) = digest::hex(archive.digest()) else {
            return Err(Ok(Fault::damaged("its configuration", "it has no digest")));
        };
        let root = self.0.join(name).join("root");
        // Shared first: the common case is an unpacked image, which many labs use at once.
        let lock = self.lock(name, FlockArg::LockShared);
        let lock = lock.map_err(failed(format!("lock the image {name}")))?;
        if root.is_dir() {
            return Ok(Unpacked { root, _lock: lock });
        }
        drop(lock);
        let lock = self.lock(name, FlockArg::LockExclusive);
        let lock = lock.map_err(failed(format!("lock the image {name}")))?;
        // Checked again: another process may have unpacked it between the locks.
        if !root.is_dir() {
            // Under the lock, an existing draft is what a killed process left behind.
            let draft = self.0.join(format!("{name}.draft"));
            remove(&draft).map_err(failed(format!("remove {}", draft.display())))?;
            let inner = draft.join("root");
            let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(&inner);
            made.map_err(failed(format!("create the folder {}", inner.display())))?;
            if let Err(error) = archive.unpack(&inner) {
                let _ = remove(&draft);
                return Err(Err(error));
            }
            // The rename makes the image visible as a whole.
            let done = fs::rename(&draft, self.0.join(name));
            done.map_err(failed(format!("rename {}", draft.display())))?;
        }
        // Another process can remove the image between the two locks; then start again.
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

    /// The images in the cache. A missing cache folder counts as empty.
    ///
    /// # Errors
    /// When the folder cannot be read.
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
                // A lab holds the shared lock.
                let in_use = self.lock(name, FlockArg::LockExclusiveNonblock).is_err();
                cached.push(Cached { digest, in_use });
            }
        }
        cached.sort_by(|a, b| a.digest.cmp(&b.digest));
        Ok(cached)
    }

    /// Removes an image unless a lab uses it. Returns whether it did.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self, digest: &str) -> io::Result<bool> {
        let Some(name) = digest::hex(digest) else { return Ok(false) };
        let lock = match self.lock(name, FlockArg::LockExclusiveNonblock) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            lock => lock?,
        };
        // Rename first: no reader may find half an image under its name.
        let draft = self.0.join(format!("{name}.draft"));
        remove(&draft)?;
        fs::rename(self.0.join(name), &draft)?;
        remove(&draft)?;
        drop(lock);
        Ok(true)
    }

    /// Creates the folder for this user only: programs in it may run as root.
    fn prepare(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let meta = fs::symlink_metadata(&self.0)?;
        if meta.uid() != nix::unistd::geteuid().as_raw() || meta.mode() & 0o022 != 0 {
            let why = "it belongs to another user, or other users can write to it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(())
    }

    /// The lock file is never removed: another process may be about to lock it.
    fn lock(&self, name: &str, how: FlockArg) -> io::Result<Flock<File>> {
        let mut options = File::options();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(self.0.join(format!("{name}.lock")))?;
        Flock::lock(file, how).map_err(|(_, errno)| errno.into())
    }
}

/// Removes a folder with its content, if it exists, even where its subfolders are not
/// writable.
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
