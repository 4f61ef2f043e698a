//! Valid names for what foreign files name, each once.

use std::collections::{HashMap, HashSet};

/// Maximum length: a number after it, as of a node in a group or of the second of its name, still fits
/// a host name of 63 characters.
const MAX_NAME: usize = 48;

/// A name of another tool as a host name.
pub(super) fn host_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let name = shaped(&lower, fits);
    match name.as_str() {
        "" => "node".to_owned(),
        // Each hosts file has this name for the loopback address (RFC 6761, 6.3).
        "localhost" => "local-host".to_owned(),
        _ => name,
    }
}

/// A name of another tool as that of a network.
pub(super) fn network_name(name: &str) -> String {
    let name = shaped(name, |c: char| c.is_ascii_alphanumeric() || c == '_');
    if name.is_empty() { "network".to_owned() } else { name }
}

/// The name with `-` in place of characters that do not fit, and none at its ends.
fn shaped(name: &str, fits: impl Fn(char) -> bool) -> String {
    let name: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let name: String = name.trim_matches('-').chars().take(MAX_NAME).collect();
    name.trim_end_matches('-').to_owned()
}

/// A name in a foreign file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'n> {
    pub foreign: &'n str,
    /// Whether it can be a group of several nodes, whose names have numbers after it.
    pub many: bool,
}

/// Names by those in the foreign file.
#[derive(Debug, Default)]
pub(super) struct Names {
    of: HashMap<String, String>,
    taken: HashSet<String>,
    many: HashSet<String>,
    /// Taken names that end in a number, without it.
    numbered: HashSet<String>,
    /// The last number after a name that was wanted twice.
    last: HashMap<String, u32>,
}

impl Names {
    /// Names of nodes.
    pub fn of_nodes(wanted: &[Wanted<'_>]) -> Self {
        Self::default().with(wanted, host_name)
    }

    /// Names of networks.
    pub fn of_networks(foreign: &[&str]) -> Self {
        let wanted: Vec<Wanted<'_>> =
            foreign.iter().map(|foreign| Wanted { foreign, many: false }).collect();
        Self::default().with(&wanted, network_name)
    }

    fn with(mut self, wanted: &[Wanted<'_>], valid: fn(&str) -> String) -> Self {
        // Valid names stay, wherever they are in the file; the others make way.
        let mut others = Vec::new();
        for one in wanted {
            if valid(one.foreign) == one.foreign && self.is_free(one.foreign, one.many) {
                self.take(one.foreign, one.many);
                self.of.insert(one.foreign.to_owned(), one.foreign.to_owned());
            } else {
                others.push(one);
            }
        }
        for one in others {
            let name = self.add(&valid(one.foreign), one.many);
            self.of.insert(one.foreign.to_owned(), name);
        }
        self
    }

    /// The name of what the foreign file calls `foreign`.
    pub fn get(&self, foreign: &str) -> Option<&str> {
        self.of.get(foreign).map(String::as_str)
    }

    /// Takes `name`, with a number if it is taken, and returns it.
    pub fn add(&mut self, name: &str, many: bool) -> String {
        let mut free = name.to_owned();
        while !self.is_free(&free, many) {
            let last = self.last.entry(name.to_owned()).or_insert(1);
            *last += 1;
            // A group has all names with its own and a number.
            let mark = if self.many.contains(name) { "n" } else { "" };
            free = format!("{name}-{mark}{last}");
        }
        self.take(&free, many);
        free
    }

    fn is_free(&self, name: &str, many: bool) -> bool {
        let is_node = without_number(name).is_some_and(|group| self.many.contains(group));
        !(self.taken.contains(name) || is_node || many && self.numbered.contains(name))
    }

    fn take(&mut self, name: &str, many: bool) {
        self.taken.insert(name.to_owned());
        self.numbered.extend(without_number(name).map(str::to_owned));
        if many {
            self.many.insert(name.to_owned());
        }
    }
}

/// The group of a node such as `meter-7`.
fn without_number(name: &str) -> Option<&str> {
    let (group, number) = name.rsplit_once('-')?;
    (!number.is_empty() && number.chars().all(|c| c.is_ascii_digit())).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_and_each_is_there_once() {
        let names = ["a_b", "a-b", "A.B", "x", "x-1", "", "localhost", "-\u{1b}-"];
        let wanted = names.map(|foreign| Wanted { foreign, many: foreign == "x" });
        let given = Names::of_nodes(&wanted);
        let got = names.map(|name| given.get(name).unwrap());
        assert_eq!(got, ["a-b-2", "a-b", "a-b-3", "x", "x-1-2", "node", "local-host", "node-2"]);
        let long = "y".repeat(47) + "_z";
        assert_eq!(host_name(&long), "y".repeat(47));
    }

    #[test]
    fn a_group_makes_way_for_a_node_with_its_number() {
        let one = Wanted { foreign: "a-b-1", many: false };
        let given = Names::of_nodes(&[Wanted { foreign: "a_b", many: true }, one]);
        assert_eq!(given.get("a_b"), Some("a-b-2"));
        assert_eq!(given.get("a-b-1"), Some("a-b-1"));
    }

    #[test]
    fn names_of_networks_keep_their_case() {
        let given = Names::of_networks(&["Front_1", "x: {nat: true}\n  y", "default"]);
        assert_eq!(given.get("Front_1"), Some("Front_1"));
        assert_eq!(given.get("x: {nat: true}\n  y"), Some("x---nat--true----y"));
    }
}
