//! Finds the control group hierarchy: cgroup v1 or v2, depending on the host.

use nix::unistd::AccessFlags;
use std::fs;
use std::path::{Path, PathBuf};

/// Where groups are created.
#[derive(Debug)]
pub(crate) enum Hierarchy {
    /// One tree per controller; several may be the same.
    V1 {
        /// The tree of `cpu`, which limits.
        cpu: Option<PathBuf>,
        /// The tree of `cpuacct`, which counts.
        cpuacct: Option<PathBuf>,
        /// The tree of `memory`, which does both.
        memory: Option<PathBuf>,
        /// The tree of `pids`, which limits the number of processes.
        pids: Option<PathBuf>,
    },
    /// One tree for all controllers.
    V2(PathBuf),
}

impl Hierarchy {
    /// Where this process may create groups.
    ///
    /// # Errors
    /// Why there is none, as text.
    pub fn here() -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        find(&mounts, &own)
    }

    /// The folders of the groups of the lab `name`.
    pub fn roots(&self, name: &str) -> Vec<PathBuf> {
        match self {
            Self::V1 { cpu, cpuacct, memory, pids } => {
                let mut roots: Vec<PathBuf> = Vec::new();
                for dir in [cpu, cpuacct, memory, pids].into_iter().flatten() {
                    let root = dir.join(name);
                    if !roots.contains(&root) {
                        roots.push(root);
                    }
                }
                roots
            }
            Self::V2(dir) => vec![dir.join(name), dir.join(format!("{name}-tool"))],
        }
    }
}

/// The controllers that a group of version 2 delegates to its children.
pub(crate) const CONTROLLERS: &str = "+cpu +memory";

/// Whether `dir` already delegates the controllers.
pub(crate) fn hands_down(dir: &Path) -> bool {
    let given = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
    ["cpu", "memory"].iter().all(|c| given.split_whitespace().any(|have| have == *c))
}

/// Selects the hierarchy from the process's mounts and its own groups.
pub(crate) fn find(mounts: &str, own: &str) -> Result<Hierarchy, String> {
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
        // In a container the path may be the host's and not be visible here.
        if dir.is_dir() { dir } else { mount }
    };
    // Root's own group contains other processes, as that of a login session does; the top group may
    // contain both groups and processes.
    let may_write = |dir: &Path| nix::unistd::access(dir, AccessFlags::W_OK).is_ok();
    let top = |dir: PathBuf| match hands_down(&dir) && may_write(&dir) {
        true => dir,
        false => within(dir, group("")),
    };
    // Machines with both versions may have the controllers in version 1; then version 2 is of no
    // use here.
    if let Some(dir) = mount("cgroup2", "").map(top) {
        let controllers = fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
        if ["cpu", "memory"].iter().all(|c| controllers.split_whitespace().any(|have| have == *c)) {
            return Ok(Hierarchy::V2(dir));
        }
    }
    let v1 =
        |controller: &str| mount("cgroup", controller).map(|dir| within(dir, group(controller)));
    match (v1("cpu"), v1("cpuacct"), v1("memory")) {
        (None, None, None) => Err("neither cgroup v2 with the controllers cpu and memory nor \
                                   cgroup v1 is mounted on this machine"
            .to_owned()),
        (cpu, cpuacct, memory) => Ok(Hierarchy::V1 { cpu, cpuacct, memory, pids: v1("pids") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    #[test]
    fn finds_version_1() {
        let own = "4:memory:/not/seen/here\n1:cpu,cpuacct:/\n0::/\n";
        let Ok(found @ Hierarchy::V1 { .. }) = find(V1, own) else { panic!("version 1") };
        let Hierarchy::V1 { cpu: Some(cpu), cpuacct: Some(cpuacct), memory: Some(memory), .. } =
            &found
        else {
            panic!("three controllers")
        };
        assert_eq!(cpu, Path::new("/sys/fs/cgroup/cpu/"));
        assert_eq!(cpu, cpuacct);
        assert_eq!(found.roots("lab").len(), 2, "one tree may have two controllers");
        assert_eq!(memory, Path::new("/sys/fs/cgroup/memory"));
    }

    #[test]
    fn finds_version_2_where_it_has_controllers() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), "cpuset cpu io memory\n").unwrap();
        let mounts =
            format!("{V1}41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", root.path().display());
        assert!(matches!(find(&mounts, "0::/\n"), Ok(Hierarchy::V2(_))));
        // Below a top that delegates nothing, in the process's own group.
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
