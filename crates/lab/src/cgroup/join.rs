//! Moves this process into the groups of another one.

use crate::hierarchy::Hierarchy;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Moves this process into the groups of the process `pid`. If it may not, it stays where no group
/// limits the node: its usage is then not counted as the node's.
pub(crate) fn join(pid: i32) -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let theirs = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let ours = fs::read_to_string("/proc/self/cgroup")?;
    for dir in groups_of(&mounts, &theirs, &ours) {
        // 0 means the writing process.
        match fs::write(dir.join("cgroup.procs"), "0") {
            Err(error) if is_limited(&dir) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The folders of a process's groups that differ from ours.
fn groups_of(mounts: &str, theirs: &str, ours: &str) -> Vec<PathBuf> {
    match crate::hierarchy::find(mounts, theirs) {
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
            ["cpu", "cpuacct", "memory", "pids"].into_iter().filter_map(group).collect()
        }
        Ok(Hierarchy::V2(_)) => {
            let path =
                |own: &str| own.lines().find_map(|l| l.strip_prefix("0::")).map(str::to_owned);
            let mount = mounts.lines().find_map(|mount| {
                let (left, _) = mount.split_once(" - cgroup2 ")?;
                left.split(' ').nth(4)
            });
            match (path(theirs), mount) {
                (Some(theirs), Some(mount)) if path(ours) != Some(theirs.clone()) => {
                    vec![Path::new(mount).join(theirs.trim_start_matches('/'))]
                }
                _ => Vec::new(),
            }
        }
        Err(_) => Vec::new(),
    }
}

/// Whether a group limits its processes.
fn is_limited(dir: &Path) -> bool {
    let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
    let number = |file: &str| read(file).trim().parse::<i64>().ok();
    let quota = number("cpu.cfs_quota_us").is_some_and(|quota| quota > 0);
    let memory = number("memory.limit_in_bytes").is_some_and(|most| most < 1 << 60);
    let unified = |file: &str| Some(read(file)).filter(|text| !text.is_empty());
    let max = |file: &str| unified(file).is_some_and(|text| !text.starts_with("max"));
    quota || memory || max("cpu.max") || max("memory.max") || max("pids.max")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_limits_what_is_in_it_by_any_of_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
        assert!(!is_limited(dir.path()));
        put("cpu.max", "max 100000\n");
        put("memory.limit_in_bytes", "9223372036854771712\n");
        put("cpu.cfs_quota_us", "-1\n");
        assert!(!is_limited(dir.path()));
        put("cpu.max", "50000 100000\n");
        assert!(is_limited(dir.path()));
    }
}
