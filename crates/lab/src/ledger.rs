//! The ledger: records resources that could outlive a lab, before they are created.
//!
//! Processes, namespaces and TAPs end with the tool by themselves; groups of the cgroup file system
//! do not.

use crate::cgroup;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, statfs};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Maximum length of an entry, in bytes: a lab has at most a few group folders.
const MAX_ENTRY: u64 = 1 << 20;

/// The resources of one lab. The tool has a lock on the file for as long as it lives: process ids do
/// not tell, because containers that share the ledger have separate ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    /// Process id of the tool, in its PID namespace.
    pid: i32,
    /// The boot in which the groups exist.
    boot: String,
    /// Folders of groups, including their subfolders.
    cgroups: Vec<PathBuf>,
}

/// The resources left by a tool that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its process id.
    pub pid: i32,
    /// The removed group folders; their processes were killed.
    pub cgroups: Vec<PathBuf>,
    /// What could not be removed, and why.
    pub failed: Vec<String>,
}

/// The ledger's entry of one lab. Dropping it removes the entry, unless some of its resources still
/// exist.
#[derive(Debug)]
pub(crate) struct Page {
    path: PathBuf,
    cgroups: Vec<PathBuf>,
    /// Locked.
    _file: File,
}

/// The name of the groups and of the entry of this process's lab `lab`. No living process has the
/// same, also in another container.
pub(crate) fn name_of(lab: impl Display) -> String {
    format!("thingbed-{}-{:x}-{lab}", std::process::id(), pid_namespace())
}

/// The PID namespace of this process, in which a process id is a process; 0 if unknown.
pub fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

impl Page {
    /// Records resources that are about to be created.
    pub(crate) fn write(name: &str, cgroups: &[PathBuf]) -> io::Result<Self> {
        let pid = std::process::id() as i32;
        let entry = Entry { pid, boot: boot(), cgroups: cgroups.to_vec() };
        let dir = own_dir()?;
        let path = dir.join(format!("{name}.json"));
        // Written under another name first, so that no partial entry is ever found.
        let draft = dir.join(format!("{name}.draft"));
        // A link under this name would be written through.
        let _ = fs::remove_file(&draft);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&draft)?;
        file.try_lock()?;
        file.write_all(&serde_json::to_vec(&entry)?)?;
        fs::rename(&draft, &path)?;
        Ok(Self { path, cgroups: cgroups.to_vec(), _file: file })
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if !self.cgroups.iter().any(|group| group.exists()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The folder of the ledger: `/run/thingbed` as root, else `$XDG_RUNTIME_DIR/thingbed`, or a folder
/// for the user in `/tmp`. Root's does not depend on the variable, which differs between sudo and a
/// login.
pub fn ledger_dir() -> PathBuf {
    let user = nix::unistd::geteuid();
    match std::env::var_os("XDG_RUNTIME_DIR") {
        _ if user.is_root() => PathBuf::from("/run/thingbed"),
        Some(dir) if !dir.is_empty() => Path::new(&dir).join("thingbed"),
        _ => PathBuf::from(format!("/tmp/thingbed-{user}")),
    }
}

/// The existing folders with control sockets of labs, of all users, where this user finds them;
/// creates the one of this user.
pub(crate) fn control_dirs() -> Vec<PathBuf> {
    let mut dirs = vec![PathBuf::from("/run/thingbed")];
    dirs.extend(own_dir());
    let below = |dir: &str| fs::read_dir(dir).into_iter().flatten().flatten();
    dirs.extend(below("/run/user").map(|entry| entry.path().join("thingbed")));
    let names = below("/tmp").map(|entry| entry.path());
    dirs.extend(names.filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let user = name.strip_prefix("thingbed-").unwrap_or_default();
        !user.is_empty() && user.bytes().all(|byte| byte.is_ascii_digit())
    }));
    dirs.retain(|dir| fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir()));
    dirs.sort();
    dirs.dedup();
    dirs
}

/// The folder of the ledger, created if missing.
///
/// # Errors
/// When it cannot be created or belongs to another user.
pub fn own_dir() -> io::Result<PathBuf> {
    let dir = ledger_dir();
    make_own(&dir)?;
    Ok(dir)
}

fn make_own(dir: &Path) -> io::Result<()> {
    // Independent of the umask: a folder that others may write to is not accepted as ours.
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| named(dir, &error))?;
    if !is_own(dir) {
        let why =
            format!("{} belongs to another user, or other users can write to it", dir.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// The paths of the files in the folder of the ledger; none if it is missing.
///
/// # Errors
/// When it cannot be read.
pub fn ledger_files() -> io::Result<Vec<PathBuf>> {
    files_in(&ledger_dir())
}

fn files_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(named(dir, &error)),
        Ok(files) => Ok(files.flatten().map(|file| file.path()).collect()),
    }
}

/// The error with the folder's path.
fn named(dir: &Path, error: &io::Error) -> io::Error {
    let why = match fs::symlink_metadata(dir) {
        Ok(meta) if !meta.is_dir() => format!("{} is not a folder: remove it", dir.display()),
        _ => format!("{}: {error}", dir.display()),
    };
    io::Error::new(error.kind(), why)
}

/// Whether the ledger in `dir` belongs to this user: entries of other users would name processes
/// that are not ours to kill.
fn is_own(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_ok_and(|meta| {
        meta.is_dir() && meta.uid() == nix::unistd::geteuid().as_raw() && meta.mode() & 0o022 == 0
    })
}

/// Removes only the resources that tools which are gone have left.
///
/// # Errors
/// When the ledger cannot be read; a missing one is empty.
pub fn collect() -> io::Result<Vec<Leftover>> {
    let dir = ledger_dir();
    let pages = ledger_files()?;
    if !dir.exists() {
        return Ok(Vec::new());
    }
    if !is_own(&dir) {
        let why = "it belongs to another user, or other users can write to it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let mut found = Vec::new();
    for page in pages {
        if page.extension().is_some_and(|extension| extension == "draft") {
            forget_old(&page);
        }
        if page.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        // Locked until the entry is removed, so that two `gc` do not do the same.
        let Some((entry, _file)) = read(&page) else { continue };
        let mut leftover = Leftover { pid: entry.pid, cgroups: Vec::new(), failed: Vec::new() };
        // Groups do not survive a reboot: after one, the names are not ours.
        if entry.boot == boot() {
            for root in &entry.cgroups {
                clear(root, &mut leftover);
            }
        }
        if leftover.failed.is_empty() {
            let _ = fs::remove_file(&page);
        }
        found.push(leftover);
    }
    Ok(found)
}

/// The entry in a file, and the file, locked; `None` if it is none, or not ours, or its tool lives.
fn read(page: &Path) -> Option<(Entry, File)> {
    let mut text = Vec::new();
    let file = input::open_own(page, MAX_ENTRY).ok()?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return None,
        // Without locks, no tool can have written the entry.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    (&file).take(MAX_ENTRY).read_to_end(&mut text).ok()?;
    Some((serde_json::from_slice(&text).ok()?, file))
}

/// Removes the draft of an entry whose writer was killed: none of its resources was created.
fn forget_old(draft: &Path) {
    let written = fs::symlink_metadata(draft).and_then(|meta| meta.modified()).ok();
    if written.and_then(|at| at.elapsed().ok()).is_some_and(|age| age.as_secs() > 60) {
        let _ = fs::remove_file(draft);
    }
}

/// Whether `dir` is a folder with a name of ours. A symbolic link could lead to the groups of others,
/// under a name like ours. The folders above may be links: those of cgroup controllers are.
fn is_named_by_us(dir: &Path) -> bool {
    let ours = |dir: &Path| {
        dir.file_name().and_then(|name| name.to_str()).is_some_and(|n| n.starts_with("thingbed-"))
    };
    fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir())
        && ours(dir)
        && dir.canonicalize().is_ok_and(|real| ours(&real))
}

/// Kills the processes of the groups under `root` and removes the groups.
fn clear(root: &Path, leftover: &mut Leftover) {
    let controls = |dir: &Path| {
        statfs(dir).is_ok_and(|fs| {
            [CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC].contains(&fs.filesystem_type())
        })
    };
    // An entry is a file, and its text must not make `gc` remove other folders.
    if !is_named_by_us(root) || !controls(root) {
        return;
    }
    let below = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut dirs: Vec<_> = below.filter(|path| path.is_dir()).collect();
    dirs.push(root.to_path_buf());
    for dir in &dirs {
        for pid in fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().lines() {
            // Processes of other PID namespaces show as 0, which kill(2) takes for our own group.
            if let Some(pid) = pid.parse().ok().filter(|pid| *pid > 1) {
                let pid = nix::unistd::Pid::from_raw(pid);
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            }
        }
    }
    for dir in &dirs {
        // Children precede the root in this list, since a group with children cannot be removed.
        cgroup::remove(dir);
        if dir.exists() {
            leftover.failed.push(format!("{} still exists", dir.display()));
        }
    }
    leftover.cgroups.push(root.to_path_buf());
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_regular_files_are_entries() {
        let dir = tempfile::tempdir().unwrap();
        let [page, link, fifo] = ["a.json", "b.json", "c.json"].map(|name| dir.path().join(name));
        let entry = Entry { pid: 1, boot: String::new(), cgroups: Vec::new() };
        fs::write(&page, serde_json::to_vec(&entry).unwrap()).unwrap();
        let read = |page: &Path| read(page).map(|(entry, _)| entry);
        assert_eq!(read(&page), Some(entry));
        // What failed before: a link was followed, and a FIFO blocked for ever.
        std::os::unix::fs::symlink(&page, &link).unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert_eq!([read(&link), read(&fifo), read(dir.path())], [None, None, None]);
    }

    #[test]
    fn a_link_with_a_name_like_ours_is_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        let [group, own, link] =
            ["others", "thingbed-1-0", "thingbed-1-1"].map(|name| dir.path().join(name));
        fs::create_dir(&group).unwrap();
        fs::create_dir(&own).unwrap();
        std::os::unix::fs::symlink(&group, &link).unwrap();
        assert_eq!([&group, &own, &link].map(|dir| is_named_by_us(dir)), [false, true, false]);
    }

    /// What failed before: "File exists", without the path.
    #[test]
    fn what_is_in_the_way_of_the_folder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let [file, below] = ["file", "file/below"].map(|name| dir.path().join(name));
        fs::write(&file, "of someone").unwrap();
        let why = |dir: &Path| make_own(dir).unwrap_err().to_string();
        let is_file = format!("{} is not a folder: remove it", file.display());
        assert_eq!([why(&file), files_in(&file).unwrap_err().to_string()], [&*is_file, &is_file]);
        assert!(why(&below).starts_with(&format!("{}: ", below.display())));
        assert!(files_in(&dir.path().join("missing")).unwrap().is_empty());
        assert_eq!(fs::read_to_string(&file).unwrap(), "of someone");
        make_own(&dir.path().join("own/folder")).unwrap();
    }
}
