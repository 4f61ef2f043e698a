//! Removes the folders of guests whose tool was killed.
//!
//! When the tool dies, the host's kernel kills the guest's kernel and all its programs. The
//! guest's folder of a few kB remains; its name contains the ID of the process that created it.

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const NAME: &str = "thingbed-guest-";
/// The file in a guest's folder that its tool keeps locked.
const LOCK: &str = "lock";

/// The name prefix of this process's folders. The process ID has a fixed width.
pub(crate) fn prefix() -> String {
    format!("{NAME}{:010}-", std::process::id())
}

/// The candidate folders for guests' files and memory, the best first.
pub(crate) fn folders() -> [PathBuf; 2] {
    [PathBuf::from("/dev/shm"), std::env::temp_dir()]
}

/// Removes the folders of this user's guests whose tool has ended; returns their number.
pub fn remove_leftovers() -> usize {
    let [first, second] = folders();
    remove_in(&first) + if first == second { 0 } else { remove_in(&second) }
}

pub(crate) fn remove_in(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let left = entries.map(|entry| entry.path()).filter(|path| is_left(path));
    left.filter(|path| fs::remove_dir_all(path).is_ok()).count()
}

/// Locks the folder for this process until the returned file is dropped. Process IDs are not
/// enough, because containers that share a folder have separate process IDs.
pub(crate) fn lock(folder: &Path) -> io::Result<Flock<File>> {
    let file = File::create(folder.join(LOCK))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno.into())
}

fn is_left(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let maker = name.strip_prefix(NAME).and_then(|rest| rest.split_once('-')?.0.parse().ok());
    let own = || {
        let user = nix::unistd::geteuid().as_raw();
        fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == user)
    };
    let unlocked = || match File::open(path.join(LOCK)) {
        Ok(file) => Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok(),
        Err(_) => true,
    };
    // All three: the process may be in another container, the folder may be another user's.
    maker.is_some_and(|maker| kill(Pid::from_raw(maker), None).is_err()) && own() && unlocked()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_processes_that_are_gone_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let left = dir.path().join(format!("{NAME}{:010}-aB3", gone.id()));
        let living = dir.path().join(format!("{}aB3", prefix()));
        // Of a process in another container, whose ID is unknown here.
        let locked = dir.path().join(format!("{NAME}{:010}-cD4", gone.id()));
        for path in [&left, &living, &locked, &dir.path().join("thingbed-guest-notes")] {
            fs::create_dir(path).unwrap();
        }
        let lock = lock(&locked).unwrap();
        assert_eq!(remove_in(dir.path()), 1);
        assert!(!left.exists() && living.exists() && locked.exists());
        drop(lock);
        assert_eq!(remove_in(dir.path()), 1);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
