//! The user of a node's programs, from the node's own user database.

use crate::failure::Failure;
use crate::users::Ids;
use nix::errno::Errno;
use std::fs;
use std::io;

/// A user with groups and home directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Who {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    pub home: String,
}

impl Who {
    /// Finds `user`: empty for root, else `user` or `user:group`, by name or number, in this root's
    /// `/etc/passwd` and `/etc/group`. `ids` are the users of the node, if it has its own.
    ///
    /// # Errors
    /// When the root has no such user or group, or the node may not have it.
    pub fn find(user: &str, ids: Option<Ids>) -> Result<Self, Failure> {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let who = Self::among(user, &read("/etc/passwd"), &read("/etc/group"))?;
        let mapped =
            |file: &str, id: u32| ids.map_or_else(|| holds(&read(file), id), |ids| ids.has(id));
        if !mapped("/proc/self/uid_map", who.uid) || !mapped("/proc/self/gid_map", who.gid) {
            return Err(Failure::of(format!("switch to the image's user `{user}`"), Errno::EPERM));
        }
        Ok(who)
    }

    fn among(user: &str, users: &str, groups: &str) -> Result<Self, Failure> {
        let (name, group) = match user.split_once(':') {
            Some((name, group)) => (name, Some(group)),
            None => (user, None),
        };
        let name = if name.is_empty() { "0" } else { name };
        let missing = |what: &str, name: &str, file: &str| {
            Failure::of(format!("find the image's {what} `{name}` in its {file}"), Errno::ENOENT)
        };
        let number = name.parse::<u32>().ok();
        let line = rows(users).find(|row| match number {
            Some(uid) => row.get(2).and_then(|uid| uid.parse().ok()) == Some(uid),
            None => row[0] == name,
        });
        let field = |at: usize| line.as_ref().and_then(|row| row.get(at)).copied();
        let uid = field(2).and_then(|uid| uid.parse().ok()).or(number);
        let uid = uid.ok_or_else(|| missing("user", name, "/etc/passwd"))?;
        let group_of = |group: &str| match group.parse() {
            Ok(gid) => Some(gid),
            Err(_) => rows(groups).find(|row| row[0] == group)?.get(2)?.parse().ok(),
        };
        let own = field(3).and_then(|gid| gid.parse().ok()).unwrap_or(0);
        let gid = match group.filter(|group| !group.is_empty()) {
            None => own,
            Some(group) => group_of(group).ok_or_else(|| missing("group", group, "/etc/group"))?,
        };
        let called = field(0).unwrap_or_default();
        let member = |row: &Vec<&str>| {
            row.get(3).is_some_and(|names| names.split(',').any(|name| name == called))
        };
        // A given group is the only one, as with `docker run`.
        let others = rows(groups).filter(|row| group.is_none() && member(row));
        let mut all = vec![gid];
        all.extend(others.filter_map(|row| row.get(2)?.parse::<u32>().ok()));
        all.dedup();
        let home = field(5).filter(|home| home.starts_with('/')).unwrap_or("/").to_owned();
        Ok(Self { uid, gid, groups: all, home })
    }

    pub fn is_root(&self) -> bool {
        self.uid == 0 && self.gid == 0
    }

    /// Switches this process to the user. For a forked process before exec: only system calls.
    ///
    /// # Errors
    /// When the kernel refuses a step.
    pub fn switch_user(&self) -> io::Result<()> {
        // SAFETY: plain system calls; the list has the given length.
        unsafe {
            // Groups first, then the group, then the user: after setuid, this process may not
            // change them.
            let set = libc::setgroups(self.groups.len(), self.groups.as_ptr());
            if set < 0 || libc::setgid(self.gid) < 0 || libc::setuid(self.uid) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

/// The rows of a file like `/etc/passwd`, each with a name.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split(':').collect::<Vec<_>>()).filter(|row| !row[0].is_empty())
}

/// Whether a map of user_namespaces(7) contains `id`.
fn holds(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> =
            line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [first, _, count] = numbers[..] else { return false };
        (first..first + count).contains(&u64::from(id))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nwww:x:33:44:www:/var/www:/bin/false\n";
    const GROUPS: &str = "root:x:0:\ndata:x:44:\nlogs:x:50:other,www\n";

    fn who(user: &str) -> Who {
        Who::among(user, USERS, GROUPS).unwrap()
    }

    #[test]
    fn by_name_and_by_number() {
        let www = Who { uid: 33, gid: 44, groups: vec![44, 50], home: "/var/www".into() };
        assert_eq!(who("www"), www);
        assert_eq!(who("33"), www);
        assert_eq!(who("").home, "/root");
        assert!(who("").is_root());
        assert_eq!(who("www:logs").groups, [50]);
        assert_eq!(who("1000:7"), Who { uid: 1000, gid: 7, groups: vec![7], home: "/".into() });
    }

    #[test]
    fn who_is_not_there_is_named() {
        let why = Who::among("nobody", USERS, GROUPS).unwrap_err().to_string();
        assert!(why.contains("`nobody`") && why.contains("/etc/passwd"), "{why}");
        let why = Who::among("www:none", USERS, GROUPS).unwrap_err().to_string();
        assert!(why.contains("`none`") && why.contains("/etc/group"), "{why}");
    }

    #[test]
    fn a_map_says_who_there_is() {
        assert!(holds("         0       1000          1\n", 0));
        assert!(!holds("         0       1000          1\n", 1));
        assert!(holds("0 0 4294967295", 65_534));
        assert!(!holds("", 0));
    }
}
