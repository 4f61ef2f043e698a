//! Checks the placeholders in what machines are given.
//!
//! Texts of consoles and arguments may have braces of other languages. So only such braces are refused
//! that resemble a placeholder: see [`meant`].

use crate::file::{ConsoleStep, File, Group};
use crate::nearest::{advice, nearest};
use crate::placeholders::{OF_LINK, OF_NODE, in_braces, value};
use crate::plan::{Plan, PlannedNode};
use crate::problem::Problem;
use crate::read::{At, Named, Sink};
use std::collections::{HashMap, HashSet};

/// Shortest word that is taken for the misspelt name of a property: most short words are near another.
const SHORTEST: usize = 4;

/// Reports placeholders without a value, which would be entered as they are.
pub(super) fn check(file: &File, plan: &Plan, sink: &mut Sink) {
    let mut nodes: HashMap<&str, Vec<&PlannedNode>> = HashMap::new();
    for node in plan.nodes.iter().filter(|node| node.machine.is_some()) {
        nodes.entry(&node.group).or_default().push(node);
    }
    if nodes.is_empty() {
        return;
    }
    let names: HashSet<&str> = plan.nodes.iter().map(|node| node.name.as_str()).collect();
    for (group, _, typed) in file.nodes.iter().flat_map(Named::iter) {
        let Some(members) = nodes.get(group) else { continue };
        for text in texts(typed) {
            for name in in_braces(&text.value) {
                let without = members.iter().find(|node| value(name, node, plan).is_none());
                let problem = without.and_then(|node| problem(name, node, plan, &names));
                if let Some(problem) = problem {
                    sink.add(problem.at(text.place));
                }
            }
        }
    }
}

/// The texts of a group that may have placeholders.
fn texts(group: &Group) -> Vec<&At<String>> {
    let firmware = group.firmware.iter().flat_map(|words| &words.value);
    let qemu = group.qemu.iter().map(|qemu| &qemu.value);
    let qemu =
        qemu.flat_map(|own| own.append.iter().chain(own.args.iter().flat_map(|args| &args.value)));
    let steps = group.console.iter().flat_map(|console| &console.value.0);
    let steps = steps.flat_map(|step: &ConsoleStep| [&step.wait, &step.send, &step.keys]);
    let ready = group.ready.iter().filter_map(|ready| ready.value.console.as_ref());
    firmware.chain(qemu).chain(steps.flatten()).chain(ready).collect()
}

/// The problem of braces without a value for `node`, if they resemble a placeholder.
fn problem(name: &str, node: &PlannedNode, plan: &Plan, names: &HashSet<&str>) -> Option<Problem> {
    let (whose, what) = match name.rsplit_once('.') {
        Some((whose, what)) => (Some(whose), what),
        None => (None, name),
    };
    let links = || node.links.iter().map(|link| link.interface.as_str());
    let is_node = |whose: &str| names.contains(whose);
    let is_known = whose.is_some_and(|whose| is_node(whose) || links().any(|own| own == whose));
    if !is_word(what) || whose.is_some_and(|whose| !whose.split('.').all(is_word)) {
        return None;
    }
    let unknown = Problem::new(format!("`{{{name}}}` is no placeholder"));
    let Some(whose) = whose else {
        if OF_NODE.contains(&what) || OF_LINK.contains(&what) {
            return Some(without_value(what, node));
        }
        let meant = meant(what, OF_NODE.iter().chain(&OF_LINK))?;
        return Some(unknown.label(format!("did you mean `{{{meant}}}`?")));
    };
    if is_known && OF_LINK.contains(&what) {
        return Some(without_value(what, node));
    }
    if is_known {
        let label = match OF_NODE.contains(&what) {
            true => format!("only the machine itself has it: `{{{what}}}`"),
            false => match meant(what, OF_LINK.iter()) {
                Some(meant) => format!("did you mean `{{{whose}.{meant}}}`?"),
                None => advice(what, &OF_LINK),
            },
        };
        return Some(unknown.label(label));
    }
    let what = meant(what, OF_LINK.iter())?;
    let others = plan.nodes.iter().map(|node| node.name.as_str());
    let known: Vec<&str> = links().chain(others).collect();
    let label = match nearest(whose, known.iter().copied()) {
        Some(near) => format!("did you mean `{{{near}.{what}}}`?"),
        None => format!("`{whose}` is neither a node nor an interface of `{}`", node.name),
    };
    Some(unknown.label(label).note(
        "a placeholder is of the node, as `{address}`, of one of its interfaces, as `{eth1.mac}`, or of \
         another node, as `{NODE.address}`; other braces stay",
    ))
}

/// A placeholder whose value a node does not have.
fn without_value(what: &str, node: &PlannedNode) -> Problem {
    let label = match what {
        "gateway" => "its networks have neither a router (`forward: true`) nor `nat`",
        "netmask" => "the address is of IPv6: use `{prefix}`",
        _ => "attach the node to a network",
    };
    Problem::new(format!("`{{{what}}}` has no value for `{}`", node.name)).label(label)
}

/// The property that `word` is or resembles.
fn meant<'a>(word: &str, known: impl Iterator<Item = &'a &'a str> + Clone) -> Option<&'a str> {
    let mut same = known.clone().filter(|own| own.eq_ignore_ascii_case(word));
    let near = || nearest(word, known.copied().filter(|own| own.len() > SHORTEST));
    same.next().copied().or_else(|| near().filter(|_| word.len() >= SHORTEST))
}

/// Whether a part of a placeholder could be the name of a node, an interface or a property.
fn is_word(part: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !part.is_empty() && part.chars().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use crate::test_plan::plan;

    fn file(text: &str) -> String {
        format!(
            "experiment: e
nodes:
  hub: {{}}
  meter: {{count: 2}}
  board: {{firmware: [fw], tap: tap0, console: {{send: '{text}'}}}}
networks:
  n: {{attach: [hub, meter, board], subnet: 10.1.0.0/16}}
"
        )
    }

    #[test]
    fn misspelt_placeholders_are_refused_with_a_suggestion() {
        for (text, message) in [
            ("ip {adress}", "did you mean `{address}`?"),
            ("{Address}", "did you mean `{address}`?"),
            ("{addr}", "did you mean `{address}`?"),
            ("{MAC}", "did you mean `{mac}`?"),
            ("{eth0.adress}", "did you mean `{eth0.address}`?"),
            ("{eth1.mac}", "did you mean `{eth0.mac}`?"),
            ("{hug.address}", "did you mean `{hub.address}`?"),
            ("{meter.address}", "did you mean `{meter-1.address}`?"),
            ("{nosuchnode.address}", "`nosuchnode` is neither a node nor an interface of `board`"),
            ("{nosuchnode.adress}", "neither a node nor an interface"),
            ("{hub.port}", "known: address, prefix, netmask, mac"),
            ("{hub.number}", "only the machine itself has it: `{number}`"),
            ("{gateway}", "`{gateway}` has no value for `board`"),
        ] {
            let error = plan(&file(text)).expect_err(text);
            assert!(error.contains(message) && error.contains("1 error in"), "{text}: {error}");
        }
    }

    #[test]
    fn braces_of_other_languages_are_left_alone() {
        for text in [
            "{\"address\": {\"mac\": 1}}",
            "{\"a\":1}",
            "{adress: 1}",
            "{ adress }",
            "{}",
            "{1..5}",
            "{a,b}",
            "{print}",
            "{code}",
            "{mode}",
            "{obj.field}",
            "x{3}",
            "{äddress}",
            "$${adress}",
            "{",
        ] {
            assert!(plan(&file(text)).is_ok(), "{text}: {:?}", plan(&file(text)).err());
        }
    }

    #[test]
    fn arguments_are_checked_and_each_node_of_a_group() {
        let text = "experiment: e
nodes:
  board: {count: 2, qemu: {args: [-name, '{eth1.mac}']}}
networks:
  n: {attach: board, subnet: 10.1.0.0/16}
  m: {attach: board-1, subnet: 10.2.0.0/16}
";
        let error = plan(text).unwrap_err();
        assert!(error.contains("`{eth1.mac}` is no placeholder"), "{error}");
        assert!(plan(&text.replace("board-1", "board")).is_ok());
        let ipv6 = text.replace("10.1.0.0/16", "'fd00::/64'").replace("eth1.mac", "netmask");
        let error = plan(&ipv6).unwrap_err();
        assert!(error.contains("use `{prefix}`"), "{error}");
    }
}
