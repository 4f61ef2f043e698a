//! Changes of a running node: `limits` with the file's keys and checks, host name and MTU.

use crate::file::{Limits, cpus};
use crate::plan::PlannedCpu;
use crate::problem::{Errors, Problem};
use crate::read::{At, Fields, Read, Sink};
use crate::resolve::{check_host_name, check_limits, cpu_of, is_mtu};
use crate::source::Source;
use crate::tree::{self, Content, Node};
use std::sync::Arc;
use units::Bytes;

/// Changes of a node; `None` leaves a setting unchanged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeChange {
    /// CPU time, in CPUs.
    pub cpus: Option<f64>,
    /// CPU time by clock frequency or CoreMark.
    pub cpu: Option<PlannedCpu>,
    /// Memory of all its processes.
    pub memory: Option<Bytes>,
    /// Host name.
    pub hostname: Option<String>,
    /// MTU of all its interfaces, B.
    pub mtu: Option<u32>,
}

/// The keys as typed.
struct Typed {
    limits: Limits,
    hostname: Option<At<String>>,
    mtu: Option<At<Bytes>>,
}

impl Read for Typed {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a change of a node", sink)?;
        let typed = Self {
            limits: Limits {
                // No change of a node sets these: here they are unknown keys.
                processes: None,
                storage: None,
                output: None,
                cpus: cpus(&mut fields),
                cpu: fields.optional("cpu"),
                memory: fields.optional("memory"),
            },
            hostname: fields.optional("hostname"),
            mtu: fields.optional("mtu"),
        };
        fields.finish();
        Some(typed)
    }
}

/// Resolves changes such as `cpus=0.5`: each is a key and its value as text.
///
/// # Errors
/// If a file with these keys would be invalid.
pub fn node_change(keys: &[(String, String)]) -> Result<NodeChange, Errors> {
    let mut text = "set:\n".to_owned();
    for (key, value) in keys {
        // A control character would end the line, and no valid value has one.
        let value: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        text += &format!("  {key}: {value}\n");
    }
    let source = Arc::new(Source { file: "set".into(), text });
    let fail = |problems| Errors::new(source.clone(), problems);
    let (tree, problems) = tree::parse(&source.text).map_err(|problem| fail(vec![problem]))?;
    if !problems.is_empty() {
        return Err(fail(problems));
    }
    let mut sink = Sink::default();
    let set = match &tree.content {
        Content::Map(entries) => entries.first().map(|(_, set)| set),
        _ => None,
    };
    set.into_iter().for_each(|set| check_values(set, &mut sink));
    let typed = set.and_then(|set| Typed::read(set, &mut sink));
    let change = typed.map(|typed| resolve(&typed, &mut sink));
    match change {
        Some(change) if sink.is_clean() => Ok(change),
        _ => Err(fail(sink.problems.into_iter().map(for_links).collect())),
    }
}

/// Refuses `KEY=`: settings of nodes have no value to go back to, as keys of links have.
fn check_values(set: &Node, sink: &mut Sink) {
    let Content::Map(entries) = &set.content else { return };
    for (key, _) in entries.iter().filter(|(_, value)| value.content == Content::Nothing) {
        let problem = Problem::new(format!("`{}` has no value", key.text)).at(key.place);
        sink.add(problem.label("write KEY=VALUE; the setting stays as it is until you change it"));
    }
}

/// Adds where to set a key that is not one of nodes but of links.
fn for_links(problem: Problem) -> Problem {
    let named =
        problem.message().strip_prefix("unknown key `").map(|key| key.trim_end_matches('`'));
    let key = link::Impairment::all_keys().find(|key| Some(key.name) == named);
    match key {
        Some(key) => {
            let text =
                format!("`{0}` is a key of links: `thingbed link set NODE {0}=...`", key.name);
            problem.note(text)
        }
        None => problem,
    }
}

fn resolve(typed: &Typed, sink: &mut Sink) -> NodeChange {
    check_limits(&typed.limits, sink);
    if let Some(hostname) = &typed.hostname {
        check_host_name(&hostname.value, hostname.place, 1, sink);
    }
    if let Some(mtu) = typed.mtu.as_ref().filter(|mtu| !is_mtu(mtu.value)) {
        let problem = Problem::new(format!("an MTU of {}", mtu.value)).at(mtu.place);
        sink.add(problem.label("use 68 B to 65521 B"));
    }
    NodeChange {
        cpus: typed.limits.cpus.as_ref().map(|at| at.value),
        cpu: cpu_of(&typed.limits, sink),
        memory: typed.limits.memory.as_ref().map(|at| at.value),
        hostname: typed.hostname.as_ref().map(|at| at.value.clone()),
        mtu: typed.mtu.as_ref().and_then(|at| u32::try_from(at.value.get()).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(keys: &[&str]) -> Result<NodeChange, String> {
        let pair = |key: &&str| {
            let (key, value) = key.split_once('=').unwrap();
            (key.to_owned(), value.to_owned())
        };
        node_change(&keys.iter().map(pair).collect::<Vec<_>>()).map_err(|e| e.to_string())
    }

    #[test]
    fn keys_mean_what_they_mean_in_a_file() {
        let all = change(&["cpus=0.5", "memory=64 MiB", "hostname=zaehler", "mtu=600 B"]).unwrap();
        assert_eq!((all.cpus, all.memory), (Some(0.5), Some(Bytes::new(64 << 20))));
        assert_eq!((all.hostname.as_deref(), all.mtu), (Some("zaehler"), Some(600)));
        let clock = change(&["cpu=200 MHz"]).unwrap();
        assert_eq!(clock.cpu, Some(PlannedCpu::Clock("200 MHz".parse().unwrap())));
        assert!(matches!(
            change(&["cpu=5 % of esp32"]).unwrap().cpu,
            Some(PlannedCpu::Coremark(_))
        ));
    }

    #[test]
    fn what_a_file_would_be_refused_for_is_refused() {
        for (keys, word) in [
            (&["cpu=5"][..], "200 MHz"),
            (&["cpus=0"], "0.01 or more"),
            (&["cpus=0.5", "cpu=200 MHz"], "set the same limit"),
            (&["memory=64"], "B"),
            (&["memory=1 B"], "1 MiB"),
            (&["hostname=a b"], "host name"),
            (&["mtu=65535 B"], "65521 B"),
            (&["colour=red"], "unknown key `colour`"),
            (&["delay=80ms"], "thingbed link set NODE delay="),
            (&["cpu=0.5"], "the key is `cpus`: `cpus: 0.5`"),
            (&["cpus=200 MHz"], "the key is `cpu`: `cpu: 200 MHz`"),
            (&["cpus=much"], "number"),
            (&["mtu=600 B", "memory="], "`memory` has no value"),
        ] {
            let message = change(keys).unwrap_err();
            assert!(message.contains(word), "no `{word}` for {keys:?}:\n{message}");
        }
    }
}
