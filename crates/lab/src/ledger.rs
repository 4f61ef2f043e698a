//! What a lab makes that could outlive it, written down before it is made.
//!
//! Processes, namespaces and TAPs end with the tool by themselves; groups of
//! the cgroup filesystem do not.

use crate::cgroup;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
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

/// The ledger's page of one lab; dropping it strikes it out.
#[derive(Debug)]
pub(crate) struct Page(PathBuf);

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
        let dir = ledger_dir();
        fs::create_dir_all(&dir)?;
        let path = dir.join(format!("{name}.json"));
        // Written under another name first: half a page is never found.
        let draft = dir.join(format!("{name}.draft"));
        fs::write(&draft, serde_json::to_vec(&entry)?)?;
        fs::rename(&draft, &path)?;
        Ok(Self(path))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The folder of the ledger: `$XDG_RUNTIME_DIR/thingbed`, or `/run/thingbed` as
/// root, or one for the user in `/tmp`.
pub fn ledger_dir() -> PathBuf {
    let user = nix::unistd::geteuid();
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !dir.is_empty() => Path::new(&dir).join("thingbed"),
        _ if user.is_root() => PathBuf::from("/run/thingbed"),
        _ => PathBuf::from(format!("/tmp/thingbed-{user}")),
    }
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
    let mut found = Vec::new();
    for page in pages.flatten().map(|page| page.path()) {
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

/// Ends the processes of the groups under `root` and removes the groups.
fn clear(root: &Path, leftover: &mut Leftover) {
    let ours = |dir: &Path| {
        dir.file_name().and_then(|name| name.to_str()).is_some_and(|n| n.starts_with("thingbed-"))
    };
    if !root.is_dir() || !ours(root) {
        return;
    }
    let below = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut dirs: Vec<_> = below.filter(|path| path.is_dir()).collect();
    dirs.push(root.to_path_buf());
    for dir in &dirs {
        for pid in fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().lines() {
            if let Ok(pid) = pid.parse() {
                let pid = nix::unistd::Pid::from_raw(pid);
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            }
        }
    }
    for dir in &dirs {
        cgroup::remove(dir);
        if dir.exists() {
            leftover.failed.push(format!("{} is still there", dir.display()));
        }
    }
    leftover.cgroups.push(root.to_path_buf());
}

/// When a living process started, in ticks since boot.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(19)?.parse().ok()
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
