//! What a lab makes that could outlive it, written down before it is made.
//!
//! Processes, namespaces and TAPs end with the tool by themselves; groups of
//! the cgroup filesystem do not.

use crate::cgroup;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, statfs};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// One lab's belongings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    /// The tool's process.
    pid: i32,
    /// When it started, in ticks since boot: with the number, this names one
    /// process.
    start: u64,
    /// The boot that both hold for.
    boot: String,
    /// Folders of groups, each with all beneath it.
    cgroups: Vec<PathBuf>,
}

/// What was found of a tool that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its process number then.
    pub pid: i32,
    /// The group folders that were removed, processes in them ended.
    pub cgroups: Vec<PathBuf>,
    /// What could not be removed, and why.
    pub failed: Vec<String>,
}

/// The ledger's page of one lab. Dropping it strikes it out, unless something on
/// it is still there.
#[derive(Debug)]
pub(crate) struct Page {
    path: PathBuf,
    cgroups: Vec<PathBuf>,
}

impl Page {
    /// Writes down what is about to be made.
    pub(crate) fn write(name: &str, cgroups: &[PathBuf]) -> io::Result<Self> {
        let pid = std::process::id() as i32;
        let entry = Entry {
            pid,
            start: started(pid).unwrap_or(0),
            boot: boot(),
            cgroups: cgroups.to_vec(),
        };
        let dir = own_dir()?;
        let path = dir.join(format!("{name}.json"));
        // Written under another name first: half a page is never found.
        let draft = dir.join(format!("{name}.draft"));
        fs::write(&draft, serde_json::to_vec(&entry)?)?;
        fs::rename(&draft, &path)?;
        Ok(Self { path, cgroups: cgroups.to_vec() })
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if !self.cgroups.iter().any(|group| group.exists()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The folder of the ledger: `/run/thingbed` as root, else
/// `$XDG_RUNTIME_DIR/thingbed`, or one for the user in `/tmp`. Root's does not
/// follow the variable: sudo and a login have different ones.
pub fn ledger_dir() -> PathBuf {
    let user = nix::unistd::geteuid();
    match std::env::var_os("XDG_RUNTIME_DIR") {
        _ if user.is_root() => PathBuf::from("/run/thingbed"),
        Some(dir) if !dir.is_empty() => Path::new(&dir).join("thingbed"),
        _ => PathBuf::from(format!("/tmp/thingbed-{user}")),
    }
}

/// The folder of the ledger, made if it is not there.
///
/// # Errors
/// When it cannot be made or is another user's.
pub fn own_dir() -> io::Result<PathBuf> {
    let dir = ledger_dir();
    // Whatever the umask: what others may write to is not taken for ours.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    if !is_own(&dir) {
        let why = format!("{} belongs to another user", dir.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(dir)
}

/// Whether the ledger in `dir` is this user's own: pages that others wrote would
/// name what is not ours to end.
fn is_own(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_ok_and(|meta| {
        meta.is_dir() && meta.uid() == nix::unistd::geteuid().as_raw() && meta.mode() & 0o022 == 0
    })
}

/// Removes what tools that are gone have left, and nothing else.
///
/// # Errors
/// When the ledger cannot be read; one that is not there is empty.
pub fn collect() -> io::Result<Vec<Leftover>> {
    let dir = ledger_dir();
    let pages = match fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        pages => pages?,
    };
    if !is_own(&dir) {
        let why = "it belongs to another user, or other users can write to it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let mut found = Vec::new();
    for page in pages.flatten().map(|page| page.path()) {
        if page.extension().is_some_and(|extension| extension == "draft") {
            forget_old(&page);
        }
        if page.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let entry = fs::read(&page).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let Some(entry): Option<Entry> = entry else { continue };
        if entry.boot == boot() && started(entry.pid) == Some(entry.start) {
            continue;
        }
        let mut leftover = Leftover { pid: entry.pid, cgroups: Vec::new(), failed: Vec::new() };
        // Groups do not outlive a boot: after another one the names are not ours.
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

/// Removes the draft of a page whose writer was killed: nothing on it was made.
fn forget_old(draft: &Path) {
    let written = fs::metadata(draft).and_then(|meta| meta.modified()).ok();
    if written.and_then(|at| at.elapsed().ok()).is_some_and(|age| age.as_secs() > 60) {
        let _ = fs::remove_file(draft);
    }
}

/// Ends the processes of the groups under `root` and removes the groups.
fn clear(root: &Path, leftover: &mut Leftover) {
    let ours = |dir: &Path| {
        dir.file_name().and_then(|name| name.to_str()).is_some_and(|n| n.starts_with("thingbed-"))
    };
    let controls = |dir: &Path| {
        statfs(dir).is_ok_and(|fs| {
            [CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC].contains(&fs.filesystem_type())
        })
    };
    if !root.is_dir() || !ours(root) || !controls(root) {
        return;
    }
    let below = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut dirs: Vec<_> = below.filter(|path| path.is_dir()).collect();
    dirs.push(root.to_path_buf());
    for dir in &dirs {
        for pid in fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().lines() {
            // One of another PID namespace shows as 0, which is everybody here.
            if let Some(pid) = pid.parse().ok().filter(|pid| *pid > 1) {
                let pid = nix::unistd::Pid::from_raw(pid);
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            }
        }
    }
    for dir in &dirs {
        cgroup::remove(dir);
        if dir.exists() {
            leftover.failed.push(format!("{} still exists", dir.display()));
        }
    }
    leftover.cgroups.push(root.to_path_buf());
}

/// When a living process started, in ticks since boot.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut values = stat[stat.rfind(')')? + 1..].split_whitespace();
    // A zombie has ended; who waits for it is another matter.
    let state = values.next()?;
    if matches!(state, "Z" | "X") { None } else { values.nth(18)?.parse().ok() }
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
