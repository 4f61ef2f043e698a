//! Topology of a run, from `plan.json`.
//!
//! Parses leniently: another crate defines the plan, and a report must not fail because of a key
//! that it does not use.

use serde_json::Value;
use std::collections::HashMap;

/// Topology of a plan: groups, networks and links.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Topology {
    /// Groups with their number of nodes, in order.
    pub groups: Vec<(String, usize)>,
    /// Networks with their properties, in order.
    pub networks: Vec<(String, Vec<String>)>,
    /// The nodes that brokers run on.
    pub brokers: Vec<String>,
    /// Links between groups and networks.
    pub links: Vec<GroupLink>,
    /// What the programs of groups may do beyond the defaults, and their limits of processes and
    /// storage: each group with such, in order.
    pub boundaries: Vec<(String, String)>,
    /// Whether all workloads are commands, so that nothing sends counted messages.
    pub only_commands: bool,
    members: HashMap<String, String>,
}

/// Equal links of a group to a network.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupLink {
    /// The group.
    pub group: String,
    /// The network.
    pub network: String,
    /// Number of nodes of the group with such a link.
    pub count: usize,
    /// Impairments of frames from the nodes into the network.
    pub up: Vec<String>,
    /// Impairments of frames from the network to the nodes.
    pub down: Vec<String>,
}

impl Topology {
    /// Extracts the topology of a plan; ignores missing keys.
    pub fn of(plan: &Value) -> Self {
        let mut topology = Self::default();
        for network in list(plan, "networks") {
            topology.networks.push((text(&network["name"]), network_words(network)));
        }
        let brokers = list(plan, "workloads").filter_map(|workload| workload.get("mqtt"));
        topology.brokers = brokers.map(|mqtt| text(&mqtt["broker"])).collect();
        topology.only_commands = list(plan, "nodes").next().is_some()
            && list(plan, "workloads").all(|workload| workload.get("command").is_some());
        for node in list(plan, "nodes") {
            let (name, group) = (text(&node["name"]), text(&node["group"]));
            match topology.groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, count)) => *count += 1,
                None => {
                    topology.groups.push((group.clone(), 1));
                    let words = boundary_words(node);
                    if !words.is_empty() {
                        topology.boundaries.push((group.clone(), words.join("; ")));
                    }
                }
            }
            for link in list(node, "links") {
                topology.join(&group, link);
            }
            topology.members.insert(name, group);
        }
        topology
    }

    fn join(&mut self, group: &str, link: &Value) {
        let (network, up, down) =
            (text(&link["network"]), words(&link["up"]), words(&link["down"]));
        // Nodes of a group may have different links, as in a cell with near and far nodes.
        let alike = |known: &&mut GroupLink| {
            known.group == group && known.network == network && known.up == up && known.down == down
        };
        match self.links.iter_mut().find(alike) {
            Some(known) => known.count += 1,
            None => {
                let group = group.to_owned();
                self.links.push(GroupLink { group, network, count: 1, up, down });
            }
        }
    }

    /// The group of a node. Without a plan, the node's name without its number.
    pub fn group_of<'a>(&'a self, node: &'a str) -> &'a str {
        let bare = || node.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        self.members.get(node).map_or_else(bare, String::as_str)
    }
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// A scalar as text, an object as keys and values.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Object(map) => {
            let pairs: Vec<_> = map.iter().map(|(k, v)| format!("{k} {}", text(v))).collect();
            pairs.join(", ")
        }
        value => value.to_string(),
    }
}

fn network_words(network: &Value) -> Vec<String> {
    let mut words = vec![text(&network["channel"])];
    if let Some(rate) = network.get("rate").filter(|rate| !rate.is_null()) {
        words.push(text(rate));
    }
    if !network["subnet"].is_null() {
        let prefix = text(&network["prefix"]);
        // A subnet may already have its prefix.
        let slash =
            if prefix.is_empty() || text(&network["subnet"]).contains('/') { "" } else { "/" };
        let prefix = if slash.is_empty() { "" } else { &prefix };
        words.push(format!("{}{slash}{prefix}", text(&network["subnet"])));
    }
    words.push(text(&network["second_subnet"]));
    if !network["mtu"].is_null() {
        words.push(format!("MTU {}", text(&network["mtu"])));
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What a node's programs may do beyond the defaults, and limits that the file sets.
fn boundary_words(node: &Value) -> Vec<String> {
    let mut words = Vec::new();
    if node["privileged"] == true {
        words.push("privileged: the host is not protected from its programs".to_owned());
    }
    let capabilities: Vec<_> = list(node, "capabilities").map(text).collect();
    if !capabilities.is_empty() {
        words.push(format!("capabilities {}", capabilities.join(", ")));
    }
    for (key, unit) in [("processes", "processes"), ("storage", "of storage")] {
        let limit = &node["limits"][key];
        if !limit.is_null() {
            words.push(format!("at most {} {unit}", text(limit)));
        }
    }
    words
}

/// An impairment in a few short lines; empty without impairments.
fn words(impairment: &Value) -> Vec<String> {
    let given = |key: &str| {
        let text = text(&impairment[key]);
        // `0 ms` and `0 %` are no impairments.
        let nothing = text.split(' ').next().is_none_or(|n| n.is_empty() || n == "0" || n == "0.0");
        (!nothing).then_some(text)
    };
    let mut lines = Vec::new();
    match (given("delay"), given("jitter")) {
        (Some(delay), Some(jitter)) => lines.push(format!("{delay} ± {jitter}")),
        (Some(delay), None) => lines.push(delay),
        (None, Some(jitter)) => lines.push(format!("± {jitter}")),
        (None, None) => {}
    }
    if let Some(loss) = given("loss") {
        let unit = given("loss_unit").unwrap_or_else(|| "frame".to_owned());
        lines.push(format!("{loss} loss by {unit}"));
    }
    if let Some(rate) = given("rate") {
        let burst = given("burst").map(|burst| format!(", burst {burst}")).unwrap_or_default();
        lines.push(format!("{rate}{burst}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_may_do_beyond_the_defaults_is_shown() {
        let node = |group: &str, more: Value| {
            let mut node = serde_json::json!({"name": format!("{group}-1"), "group": group});
            node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            node
        };
        let plan = serde_json::json!({"nodes": [
            node("plain", serde_json::json!({"limits": {"cpus": 1, "processes": null}})),
            node("open", serde_json::json!({"privileged": true})),
            node("some", serde_json::json!({"capabilities": ["SYS_TIME", "CHOWN"],
                "limits": {"processes": 64, "storage": "100 MiB"}})),
        ]});
        let text = "capabilities SYS_TIME, CHOWN; at most 64 processes; at most 100 MiB of storage";
        let found = Topology::of(&plan).boundaries;
        let found: Vec<_> = found.iter().map(|(group, text)| (&group[..], &text[..])).collect();
        let open = "privileged: the host is not protected from its programs";
        assert_eq!(found, [("open", open), ("some", text)]);
    }

    #[test]
    fn groups_alike_links_and_says_them_in_words() {
        let up = serde_json::json!({"delay": "30 ms", "jitter": "5 ms", "loss": "30 %",
            "loss_unit": "train", "rate": "250 kbit/s", "burst": "1600 B", "queue": 1000});
        let down = serde_json::json!({"delay": "0 ns", "loss": "0 %", "rate": null});
        let node = |n: u32| {
            serde_json::json!({"name": format!("consumer-{n}"), "group": "consumer",
                "links": [{"network": "net", "up": up, "down": down}]})
        };
        let plan = serde_json::json!({"nodes": [node(1), node(2)], "networks": [{"name": "net",
            "channel": {"shared": "250 kbit/s"}, "subnet": "10.0.0.0", "prefix": 22, "mtu": 113}]});
        let topology = Topology::of(&plan);
        assert_eq!(topology.groups, [("consumer".to_owned(), 2)]);
        assert_eq!(topology.links.len(), 1);
        let expected = ["30 ms ± 5 ms", "30 % loss by train", "250 kbit/s, burst 1600 B"];
        assert_eq!(topology.links[0].up, expected);
        assert!(topology.links[0].down.is_empty());
        assert_eq!(topology.networks[0].1, ["shared 250 kbit/s", "10.0.0.0/22", "MTU 113"]);
        assert_eq!(topology.group_of("consumer-1"), "consumer");
        assert_eq!(Topology::default().group_of("meter-12"), "meter");
    }

    #[test]
    fn draws_what_it_can_of_a_strange_plan() {
        for plan in ["null", "[]", r#"{"nodes":3}"#, r#"{"nodes":[1,{"links":{}}]}"#] {
            let plan = serde_json::from_str(plan).unwrap();
            assert!(Topology::of(&plan).links.is_empty());
        }
    }
}
