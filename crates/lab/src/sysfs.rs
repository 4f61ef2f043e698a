//! A separate `/sys` for a node, which shows its network devices and not the host's.
//!
//! Mounts below the host's `/sys`, such as control groups, stay available.

use crate::mount_tree::{put, tree};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The topmost mounts below `/sys` in this mount namespace.
pub(crate) fn mounted() -> Vec<PathBuf> {
    outermost(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
}

fn outermost(mountinfo: &[u8]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for line in mountinfo.split(|byte| *byte == b'\n') {
        // The fifth field is the mount point (proc_pid_mountinfo(5)).
        let Some(place) = line.split(|byte| *byte == b' ').nth(4) else { continue };
        let place = PathBuf::from(unescape(place));
        if place.strip_prefix("/sys").is_ok_and(|rest| rest != Path::new("")) {
            found.push(place);
        }
    }
    found.sort();
    let mut outer: Vec<PathBuf> = Vec::new();
    for place in found {
        if outer.last().is_none_or(|last| !place.starts_with(last)) {
            outer.push(place);
        }
    }
    outer
}

/// Decodes blanks and other characters, which are written as `\040`.
fn unescape(field: &[u8]) -> OsString {
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = std::str::from_utf8(after.get(..3).unwrap_or_default()).unwrap_or_default();
        match u8::from_str_radix(digits, 8) {
            Ok(byte) if *first == b'\\' => {
                text.push(byte);
                rest = &after[3..];
            }
            _ => {
                text.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(text)
}

/// Mounts a `/sys` of this network namespace, read-only, and keeps the mounts `kept` of the old
/// one. Without permission, as for users in a container that masks parts of the host's, the old one
/// stays.
pub(crate) fn mount_own(kept: &[PathBuf]) {
    // Before they become hidden.
    let trees: Vec<_> = kept.iter().map(|place| (place, tree(place))).collect();
    if mount_sysfs().is_err() {
        return;
    }
    // Removes the old one, so that it does not appear in mount lists. Unprivileged users may not
    // remove it: then it stays.
    // Twice: the first removes the new one, which had to be mounted to see whether that is allowed,
    // and the second the old one.
    let _ = umount2("/sys", MntFlags::MNT_DETACH);
    let _ = umount2("/sys", MntFlags::MNT_DETACH);
    let _ = mount_sysfs();
    for (place, tree) in trees {
        // A mount whose mount point no longer exists is left out.
        let _ = tree.and_then(|tree| put(&tree, place));
    }
}

fn mount_sysfs() -> Result<(), Errno> {
    let none: Option<&str> = None;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RDONLY;
    mount(Some("sysfs"), "/sys", Some("sysfs"), flags, none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_once_and_by_their_names() {
        let text = b"22 1 0:21 / /sys rw - sysfs sysfs rw\n\
            30 22 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
            31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw\n\
            32 22 0:28 / /sys/kernel/a\\040b rw - tmpfs x rw\n\
            33 22 0:28 / /sysfs rw - tmpfs x rw\n";
        let expected = ["/sys/fs/cgroup", "/sys/kernel/a b"].map(PathBuf::from);
        assert_eq!(outermost(text), expected);
        assert_eq!(outermost(b"nonsense\n\\9"), Vec::<PathBuf>::new());
    }
}
