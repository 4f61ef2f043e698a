//! Which users of the parent namespace the users of a node are.

use std::fs;

/// The number of users of a node, as in containers.
const COUNT: u32 = 65_536;
/// The users of nodes where no file names subordinate users: behind those that login tools and
/// systemd-nspawn give, and before the foreign ones below 2^31 (systemd's `UIDS-GIDS`).
const DEFAULT: Range = Range { first: 0x7000_0000, count: 0x0ffe_0000 };

/// Users or groups of the parent namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    count: u32,
}

impl Range {
    /// The range of the node with this number: distinct as long as there are enough.
    fn part(self, slot: u32) -> u32 {
        self.first + slot % (self.count / COUNT) * COUNT
    }
}

/// The users of a node in the parent namespace: those from `user` and `group` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ids {
    user: u32,
    group: u32,
    count: u32,
}

impl Ids {
    /// The users of the node with this number: other ones than those of the host, if this process
    /// may map them, else the same.
    pub fn of_node(slot: u32) -> Self {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let users = subordinate(&read("/etc/subuid")).unwrap_or(DEFAULT);
        let groups = subordinate(&read("/etc/subgid")).unwrap_or(DEFAULT);
        let (user_map, group_map) = (read("/proc/self/uid_map"), read("/proc/self/gid_map"));
        let shifted = Self { user: users.part(slot), group: groups.part(slot), count: COUNT };
        // An ordinary user may map one user only.
        if held(&user_map, shifted.user) >= COUNT && held(&group_map, shifted.group) >= COUNT {
            return shifted;
        }
        let same = held(&user_map, 0).min(held(&group_map, 0)).min(COUNT);
        Self { user: 0, group: 0, count: same }
    }

    /// Whether the node's root is another user than the parent's.
    pub fn is_shifted(self) -> bool {
        self.user != 0
    }

    /// Whether the node has this user or group.
    pub fn has(self, id: u32) -> bool {
        id < self.count
    }

    /// A user of the node, as the parent namespace numbers it.
    pub fn user(self, id: u32) -> u32 {
        self.user + id
    }

    /// A group of the node, as the parent namespace numbers it.
    pub fn group(self, id: u32) -> u32 {
        self.group + id
    }

    /// The text of `uid_map`.
    pub fn user_map(self) -> String {
        format!("0 {} {}", self.user, self.count)
    }

    /// The text of `gid_map`.
    pub fn group_map(self) -> String {
        format!("0 {} {}", self.group, self.count)
    }
}

/// The largest range of root in a file like `/etc/subuid` (subuid(5)) that has room for a node.
fn subordinate(text: &str) -> Option<Range> {
    let ranges = text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let root = matches!(fields.next()?, "root" | "0");
        let (first, count): (u32, u32) =
            (fields.next()?.parse().ok()?, fields.next()?.trim().parse().ok()?);
        let fits = count >= COUNT && first > 0 && first.checked_add(count).is_some();
        (root && fits).then_some(Range { first, count })
    });
    ranges.max_by_key(|range| range.count)
}

/// How many ids from `id` on a map of user_namespaces(7) has.
fn held(map: &str, id: u32) -> u32 {
    let line = map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map_while(|number| number.parse::<u32>().ok());
        let (first, _, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let skipped = id.checked_sub(first)?;
        (skipped < count).then(|| count - skipped)
    });
    line.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_name_the_range_of_root() {
        let text = "other:1:99999999\nroot:100000:65536\nroot:600000:131072\nroot:5:10\nroot:x\n";
        assert_eq!(subordinate(text), Some(Range { first: 600_000, count: 131_072 }));
        assert_eq!(subordinate("root:0:65536\nroot:4294967295:65536\n"), None);
        assert_eq!(subordinate(""), None);
    }

    #[test]
    fn each_node_has_other_users_as_long_as_there_are_some() {
        let range = Range { first: 600_000, count: 131_072 + 5 };
        assert_eq!([0, 1, 2].map(|slot| range.part(slot)), [600_000, 665_536, 600_000]);
        let last = DEFAULT.part(u32::MAX);
        assert!((DEFAULT.first..=0x7ffe_0000 - COUNT).contains(&last));
        assert_eq!(DEFAULT.part(DEFAULT.count / COUNT), DEFAULT.first);
    }

    #[test]
    fn a_map_says_how_many_there_are() {
        assert_eq!(held("         0       1000          1\n", 0), 1);
        assert_eq!(held("         0       1000          1\n", 1), 0);
        assert_eq!(held("0 0 4294967295", 65_534), 4_294_967_295 - 65_534);
        assert_eq!(held("0 100000 1000\n1000 5 10\n", 1_003), 7);
        assert_eq!(held("", 0), 0);
        assert_eq!(held("0 0 x", 0), 0);
    }

    #[test]
    fn users_are_numbered_from_the_first() {
        let ids = Ids { user: 600_000, group: 700_000, count: 65_536 };
        assert_eq!((ids.user(33), ids.group(44)), (600_033, 700_044));
        assert!(ids.is_shifted() && ids.has(65_535) && !ids.has(65_536));
        assert_eq!(ids.user_map(), "0 600000 65536");
        let same = Ids { user: 0, group: 0, count: 1 };
        assert!(!same.is_shifted() && same.has(0) && !same.has(1));
    }
}
