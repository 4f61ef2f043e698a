//! CPU and memory limits, by cgroup v1 or v2, whichever the host has.

use crate::ledger::Page;
use nix::unistd::AccessFlags;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a node may use.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// CPUs' worth of time, e.g. 0.5; above 0.
    pub cpus: Option<f64>,
    /// Memory in bytes.
    pub memory: Option<u64>,
}

impl Limits {
    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        self.cpus.is_none() && self.memory.is_none()
    }
}

/// The length of the accounting period that a CPU quota is for, in
/// microseconds; the kernel's default.
const PERIOD_US: f64 = 100_000.0;

/// Where groups are made and how they are written to.
#[derive(Debug)]
enum Hierarchy {
    /// One tree a controller: that of `cpu`, that of `memory`.
    V1 { cpu: Option<PathBuf>, memory: Option<PathBuf> },
    /// One tree for all.
    V2(PathBuf),
}

/// The groups of one lab. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct Groups {
    hierarchy: Hierarchy,
    roots: Vec<PathBuf>,
    made: Vec<PathBuf>,
    /// The group that this process left to make room, and where it went; in
    /// version 2 alone.
    left: Option<(PathBuf, PathBuf)>,
}

impl Groups {
    /// Finds where this process may make groups, and names the folders that the
    /// lab's will lie in; nothing is made yet.
    pub(crate) fn find(name: &str) -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let hierarchy = find(&mounts, &own)?;
        let roots = match &hierarchy {
            Hierarchy::V1 { cpu, memory } => {
                cpu.iter().chain(memory).map(|dir| dir.join(name)).collect()
            }
            Hierarchy::V2(dir) => vec![dir.join(name), dir.join(format!("{name}-tool"))],
        };
        Ok(Self { hierarchy, roots, made: Vec::new(), left: None })
    }

    /// The folders that hold all of the lab's groups.
    pub(crate) fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Makes the folders of [`Self::roots`].
    pub(crate) fn begin(&mut self) -> Result<(), String> {
        let Hierarchy::V2(parent) = &self.hierarchy else {
            for root in &self.roots {
                make(root)?;
                self.made.push(root.clone());
            }
            return Ok(());
        };
        let parent = parent.clone();
        if !hands_down(&parent) {
            let control = parent.join("cgroup.subtree_control");
            if fs::write(&control, CONTROLLERS).is_err() {
                // A group that hands controllers down may hold no processes
                // (cgroup v2, "no internal processes"): this one steps aside.
                self.step_aside(&parent)?;
                write(&control, CONTROLLERS)?;
            }
        }
        make(&self.roots[0])?;
        self.made.push(self.roots[0].clone());
        write(&self.roots[0].join("cgroup.subtree_control"), CONTROLLERS)
    }

    /// Moves this process into a group of its own below `parent`.
    fn step_aside(&mut self, parent: &Path) -> Result<(), String> {
        let aside = self.roots[1].clone();
        make(&aside)?;
        let moved = write(&aside.join("cgroup.procs"), &std::process::id().to_string());
        self.left = Some((parent.to_path_buf(), aside));
        moved
    }

    /// Puts the processes `pids`, and all that they will start, under `limits`.
    pub(crate) fn limit(
        &mut self,
        node: &str,
        pids: &[i32],
        limits: &Limits,
    ) -> Result<(), String> {
        let quota_us = limits.cpus.map(|cpus| (cpus * PERIOD_US).round().max(1000.0) as u64);
        let mut settings: Vec<(PathBuf, String)> = Vec::new();
        match &self.hierarchy {
            Hierarchy::V1 { .. } => {
                let find = |controller: &str| {
                    let known = self.roots.iter().find(|root| controls(root, controller));
                    known.map(|root| root.join(node)).ok_or(format!(
                        "this host has no cgroup hierarchy with the controller {controller}"
                    ))
                };
                if let Some(quota) = quota_us {
                    settings.push((find("cpu")?.join("cpu.cfs_quota_us"), quota.to_string()));
                }
                if let Some(bytes) = limits.memory {
                    let file = find("memory")?.join("memory.limit_in_bytes");
                    settings.push((file, bytes.to_string()));
                }
            }
            Hierarchy::V2(_) => {
                let dir = self.roots[0].join(node);
                if let Some(quota) = quota_us {
                    let text = format!("{quota} {}", PERIOD_US as u64);
                    settings.push((dir.join("cpu.max"), text));
                }
                if let Some(bytes) = limits.memory {
                    settings.push((dir.join("memory.max"), bytes.to_string()));
                }
            }
        }
        for (file, value) in settings {
            let dir = file.parent().unwrap_or(&file).to_path_buf();
            if !self.made.contains(&dir) {
                make(&dir)?;
                self.made.push(dir.clone());
            }
            write(&file, &value)?;
            let (first, rest) = pids.split_first().ok_or("no process to limit")?;
            write(&dir.join("cgroup.procs"), &first.to_string())?;
            for pid in rest {
                // One that has just ended needs no limit.
                let _ = write(&dir.join("cgroup.procs"), &pid.to_string());
            }
        }
        Ok(())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for dir in self.made.iter().rev() {
            remove(dir);
        }
        if let Some((parent, aside)) = &self.left {
            let _ = fs::write(parent.join("cgroup.subtree_control"), "-cpu -memory");
            let _ = fs::write(parent.join("cgroup.procs"), std::process::id().to_string());
            remove(aside);
        }
    }
}

/// What a group of version 2 hands down to those below it.
const CONTROLLERS: &str = "+cpu +memory";

/// Whether `dir` hands the controllers down already.
fn hands_down(dir: &Path) -> bool {
    let given = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
    ["cpu", "memory"].iter().all(|c| given.split_whitespace().any(|have| have == *c))
}

/// Whether nodes can be limited here; what stands in the way if not.
///
/// # Errors
/// The reason in words.
pub fn can_limit() -> Result<&'static str, String> {
    let name = format!("thingbed-{}-probe", std::process::id());
    let mut groups = Groups::find(&name)?;
    let _page = Page::write(&name, groups.roots()).map_err(|error| format!("write: {error}"))?;
    groups.begin()?;
    Ok(match &groups.hierarchy {
        Hierarchy::V1 { .. } => "cgroup v1",
        Hierarchy::V2(_) => "cgroup v2",
    })
}

/// Moves this process into the groups of the process `pid`, as far as they limit.
pub(crate) fn join(pid: i32) -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let theirs = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let ours = fs::read_to_string("/proc/self/cgroup")?;
    let dirs: Vec<PathBuf> = match find(&mounts, &theirs) {
        Ok(Hierarchy::V1 { .. }) => {
            let group = |controller: &str| {
                let line = theirs.lines().find(|line| {
                    line.split(':')
                        .nth(1)
                        .is_some_and(|all| all.split(',').any(|c| c == controller))
                })?;
                let known = ours.lines().any(|own| own == line);
                let mount = mounts.lines().find_map(|mount| {
                    let (left, right) = mount.split_once(" - cgroup ")?;
                    let options = right.split(' ').next_back()?;
                    let fits = options.split(',').any(|option| option == controller);
                    fits.then(|| left.split(' ').nth(4)).flatten()
                })?;
                let path = line.splitn(3, ':').nth(2)?.trim_start_matches('/');
                (!known).then(|| Path::new(mount).join(path))
            };
            ["cpu", "memory"].into_iter().filter_map(group).collect()
        }
        Ok(Hierarchy::V2(_)) => {
            let path =
                |own: &str| own.lines().find_map(|l| l.strip_prefix("0::")).map(str::to_owned);
            let mount = mounts.lines().find_map(|mount| {
                let (left, _) = mount.split_once(" - cgroup2 ")?;
                left.split(' ').nth(4)
            });
            match (path(&theirs), mount) {
                (Some(theirs), Some(mount)) if path(&ours) != Some(theirs.clone()) => {
                    vec![Path::new(mount).join(theirs.trim_start_matches('/'))]
                }
                _ => Vec::new(),
            }
        }
        Err(_) => Vec::new(),
    };
    dirs.iter().try_for_each(|dir| fs::write(dir.join("cgroup.procs"), "0"))
}

/// Removes a group; its processes may still be on their way out.
pub(crate) fn remove(dir: &Path) {
    for _ in 0..100 {
        match fs::remove_dir(dir) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            _ => return,
        }
    }
}

/// Picks the hierarchy from the process's mounts and its own groups.
fn find(mounts: &str, own: &str) -> Result<Hierarchy, String> {
    let mount = |kind: &str, option: &str| {
        mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut right = right.split(' ');
            let (fs, options) = (right.next()?, right.nth(1)?);
            let fits = fs == kind && (option.is_empty() || options.split(',').any(|o| o == option));
            fits.then(|| left.split(' ').nth(4).map(PathBuf::from)).flatten()
        })
    };
    let group = |controller: &str| {
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let fits = parts.next()?.split(',').any(|c| c == controller);
            fits.then(|| parts.next()).flatten()
        })
    };
    let within = |mount: PathBuf, group: Option<&str>| {
        let dir = mount.join(group.unwrap_or("/").trim_start_matches('/'));
        // In a container the path may be the host's, and not be seen from here.
        if dir.is_dir() { dir } else { mount }
    };
    // Root's own group is full of others' processes, as a login's is; that at the
    // top may have groups and processes both.
    let may_write = |dir: &Path| nix::unistd::access(dir, AccessFlags::W_OK).is_ok();
    let top = |dir: PathBuf| match hands_down(&dir) && may_write(&dir) {
        true => dir,
        false => within(dir, group("")),
    };
    if let Some(dir) = mount("cgroup2", "").map(top) {
        let controllers = fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
        if ["cpu", "memory"].iter().all(|c| controllers.split_whitespace().any(|have| have == *c)) {
            return Ok(Hierarchy::V2(dir));
        }
    }
    let v1 =
        |controller: &str| mount("cgroup", controller).map(|dir| within(dir, group(controller)));
    match (v1("cpu"), v1("memory")) {
        (None, None) => Err("neither cgroup v2 with the controllers cpu and memory nor \
                             cgroup v1 is mounted here"
            .to_owned()),
        (cpu, memory) => Ok(Hierarchy::V1 { cpu, memory }),
    }
}

/// Whether the group that was made at `root` has the controller's files.
fn controls(root: &Path, controller: &str) -> bool {
    let file = match controller {
        "cpu" => "cpu.cfs_quota_us",
        _ => "memory.limit_in_bytes",
    };
    root.join(file).exists()
}

fn make(dir: &Path) -> Result<(), String> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(format!("make {}: {error}", dir.display()))
        }
        _ => Ok(()),
    }
}

fn write(file: &Path, value: &str) -> Result<(), String> {
    fs::write(file, value)
        .map_err(|error| format!("write `{value}` to {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    #[test]
    fn finds_version_1() {
        let own = "4:memory:/not/seen/here\n1:cpu,cpuacct:/\n0::/\n";
        let Ok(Hierarchy::V1 { cpu: Some(cpu), memory: Some(memory) }) = find(V1, own) else {
            panic!("two controllers")
        };
        assert_eq!(cpu, Path::new("/sys/fs/cgroup/cpu/"));
        assert_eq!(memory, Path::new("/sys/fs/cgroup/memory"));
    }

    #[test]
    fn finds_version_2_where_it_has_controllers() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), "cpuset cpu io memory\n").unwrap();
        let mounts =
            format!("{V1}41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", root.path().display());
        assert!(matches!(find(&mounts, "0::/\n"), Ok(Hierarchy::V2(_))));
        // Below a top that hands nothing down, in the process's own group.
        let own = root.path().join("user");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("cgroup.controllers"), "cpu memory\n").unwrap();
        let Ok(Hierarchy::V2(dir)) = find(&mounts, "0::/user\n") else { panic!("version 2") };
        assert_eq!(dir, own);
        fs::write(root.path().join("cgroup.subtree_control"), "cpu io memory\n").unwrap();
        let Ok(Hierarchy::V2(dir)) = find(&mounts, "0::/user\n") else { panic!("version 2") };
        assert_eq!(dir, root.path());
        fs::remove_file(root.path().join("cgroup.subtree_control")).unwrap();
        fs::write(root.path().join("cgroup.controllers"), "\n").unwrap();
        assert!(matches!(find(&mounts, "0::/\n"), Ok(Hierarchy::V1 { .. })));
    }

    #[test]
    fn none_is_an_error_that_says_so() {
        assert!(find("", "").unwrap_err().contains("neither"));
    }
}
