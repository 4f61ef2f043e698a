//! The values of placeholders in what machines are given.

use crate::plan::{Plan, PlannedNode};
use crate::program::Ready;
use record::spec::{ConsoleSpec, ConsoleStep};
use std::net::IpAddr;

impl Plan {
    /// The spec of the program of the machine that `node` is, if it is one.
    pub fn console(&self, node: &PlannedNode) -> Option<ConsoleSpec> {
        let machine = node.machine.as_ref()?;
        let filled = |text: &String| fill(text, node, self);
        let steps = machine.steps.iter().map(|step| ConsoleStep {
            wait: step.wait.as_ref().map(filled),
            pause_ns: step.pause_ns,
            send: step.send.as_ref().map(filled),
            keys: step.keys.as_ref().map(filled),
            every_ns: step.every_ns,
        });
        Some(ConsoleSpec {
            argv: machine.argv.iter().map(filled).collect(),
            network_is_fixed: machine.tun.is_some(),
            steps: steps.collect(),
        })
    }

    /// When the program of a node is ready.
    pub fn ready_of(&self, node: &PlannedNode) -> Option<Ready> {
        Some(match node.program.as_ref()?.ready.clone()? {
            Ready::Console(text) => Ready::Console(fill(&text, node, self)),
            other => other,
        })
    }
}

/// What a text may have in braces: properties of the machine's node, and of a link.
pub(crate) const OF_NODE: [&str; 3] = ["node", "number", "gateway"];
pub(crate) const OF_LINK: [&str; 4] = ["address", "prefix", "netmask", "mac"];

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part<'t> {
    Text(&'t str),
    /// The text between braces, without them.
    Braces(&'t str),
}

/// `text` in parts. A brace after `$` is text, as in variables of shells and boot loaders, and so is one
/// before another brace, as in JSON.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut begin, mut at) = (0, 0);
    while let Some(open) = text[at..].find('{').map(|offset| at + offset) {
        at = open + 1;
        let Some(end) = text[at..].find(['{', '}']).map(|offset| at + offset) else { break };
        if text.as_bytes()[end] == b'}' && !text[..open].ends_with('$') {
            parts.extend([Part::Text(&text[begin..open]), Part::Braces(&text[at..end])]);
            (begin, at) = (end + 1, end + 1);
        }
    }
    parts.push(Part::Text(&text[begin..]));
    parts
}

/// The texts in braces that may be placeholders.
pub(crate) fn in_braces(text: &str) -> impl Iterator<Item = &str> {
    parts(text).into_iter().filter_map(|part| match part {
        Part::Braces(name) => Some(name),
        Part::Text(_) => None,
    })
}

/// `text` with the values of its placeholders: `{node}`, `{number}`, `{gateway}`; `{address}`, `{prefix}`,
/// `{netmask}` and `{mac}` of the first interface; the same of another, as in `{eth1.mac}`, or of another
/// node, as in `{broker.address}`. Other braces stay.
fn fill(text: &str, node: &PlannedNode, plan: &Plan) -> String {
    let fill = |part| match part {
        Part::Text(text) => text.to_owned(),
        Part::Braces(name) => value(name, node, plan).unwrap_or_else(|| format!("{{{name}}}")),
    };
    parts(text).into_iter().map(fill).collect()
}

/// The value of the placeholder `name`, if it is one.
pub(crate) fn value(name: &str, node: &PlannedNode, plan: &Plan) -> Option<String> {
    // The last one: interfaces of VLANs have a dot in their names, as `eth0.10`.
    let (whose, what) = name.rsplit_once('.').unwrap_or(("eth0", name));
    let own = node.links.iter().find(|link| link.interface == whose);
    let link = own.or_else(|| plan.node(whose)?.links.first());
    match (what, link) {
        ("node", _) if whose == "eth0" => Some(node.name.clone()),
        ("number", _) if whose == "eth0" => Some(number(node).to_owned()),
        ("gateway", _) if whose == "eth0" => Some(gateway(node)?.to_string()),
        ("address", Some(link)) => Some(link.address.to_string()),
        ("mac", Some(link)) => Some(link.mac.to_string()),
        ("prefix", Some(link)) => Some(plan.network(&link.network)?.prefix.to_string()),
        ("netmask", Some(link)) => {
            let prefix = u32::from(plan.network(&link.network)?.prefix);
            // Prefix 0 is a shift by all 32 bits, which overflows.
            let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
            link.address.is_ipv4().then(|| IpAddr::from(mask.to_be_bytes()).to_string())
        }
        _ => None,
    }
}

/// The next hop of a node to all other networks: of the family of its first address, if it has one.
fn gateway(node: &PlannedNode) -> Option<IpAddr> {
    let default = node.routes.iter().filter(|route| route.to.prefix() == 0).map(|route| route.via);
    let learned = node.learned_gateways.iter().copied();
    let hops: Vec<IpAddr> = node.gateways().chain(default).chain(learned).collect();
    let is_ipv6 = node.links.first()?.address.is_ipv6();
    hops.iter().find(|hop| hop.is_ipv6() == is_ipv6).or(hops.first()).copied()
}

/// The number of a node in its group, from 1.
fn number(node: &PlannedNode) -> &str {
    let numbered = node.name.strip_prefix(&node.group).and_then(|rest| rest.strip_prefix('-'));
    numbered.unwrap_or("1")
}

#[cfg(test)]
mod tests {
    use crate::{Experiment, Only, Plan};

    fn plan(text: &str) -> Plan {
        let experiment = Experiment::parse(text, "e.yaml", "").unwrap();
        let cell = experiment.cells(&Only::all()).unwrap().remove(0);
        experiment.plan(&cell, 0, 1).unwrap()
    }

    #[test]
    fn placeholders_have_the_values_of_each_node() {
        let plan = plan(
            "experiment: e
nodes:
  hub:
  board:
    count: 2
    firmware: [fw, --ip, '{address}/{prefix}', '{netmask}', '{mac}', '{hub.address}', '{a: 1}', '{']
    tap: tap0
    console: {send: 'I am {node}, {number}'}
    ready: {console: 'up at {address}'}
networks:
  n: {attach: [hub, board], subnet: 10.1.0.0/16}
",
        );
        let board = &plan.nodes[2];
        let spec = plan.console(board).unwrap();
        let expected = [
            "fw",
            "--ip",
            "10.1.0.3/16",
            "255.255.0.0",
            "02:00:0a:01:00:03",
            "10.1.0.1",
            "{a: 1}",
            "{",
        ];
        assert_eq!(spec.argv, expected);
        assert_eq!(spec.steps[0].send.as_deref(), Some("I am board-2, 2"));
        assert_eq!(plan.ready_of(board), Some(crate::Ready::Console("up at 10.1.0.3".into())));
    }

    #[test]
    fn braces_of_other_languages_stay() {
        for (text, braces) in [
            ("{address}/{prefix}", &["address", "prefix"][..]),
            (r#"{"a": {"b": 1}}"#, &[r#""b": 1"#]),
            ("set ip {{address}}", &["address"]),
            ("echo ${address} $ {address}", &["address"]),
            ("{}}{", &[""]),
            ("{ä{mac}", &["mac"]),
            ("", &[]),
        ] {
            assert_eq!(super::in_braces(text).collect::<Vec<_>>(), braces, "{text}");
        }
    }

    #[test]
    fn the_nodes_of_a_group_do_a_step_one_after_the_other() {
        let plan = plan(
            "experiment: e
nodes:
  board:
    count: 3
    firmware: [fw]
    console: [{send: a}, {wait: ok, pause: 2 s, stagger: 0.5 s, send: b}, {stagger: 1 s}]
networks:
  n: {attach: board, subnet: 10.1.0.0/16}
",
        );
        let pauses = |node: usize| {
            let steps = plan.console(&plan.nodes[node]).unwrap().steps;
            steps.iter().map(|step| step.pause_ns / 1_000_000).collect::<Vec<_>>()
        };
        assert_eq!(
            [pauses(0), pauses(1), pauses(2)],
            [[0, 2_000, 0], [0, 2_500, 1_000], [0, 3_000, 2_000]]
        );
    }

    #[test]
    fn the_gateway_is_the_router_of_the_network() {
        let plan = plan(
            "experiment: e
nodes:
  board: {firmware: [fw, '{gateway}'], tap: tap0}
  router: {forward: true}
  server: {}
networks:
  near: {attach: [board, router], subnet: 10.1.0.0/24}
  far: {attach: [router, server], subnet: 10.2.0.0/24}
",
        );
        let spec = plan.console(&plan.nodes[0]).unwrap();
        assert_eq!(spec.argv, ["fw", "10.1.0.2"]);
    }

    #[test]
    fn an_emulated_machine_has_an_adapter_for_each_network() {
        let plan = plan(
            "experiment: e
nodes:
  hub:
  board: {qemu: {arch: arm, memory: 64 MiB, args: [-icount, auto]}}
networks:
  n: {attach: [hub, board], subnet: 10.1.0.0/16}
  m: {attach: [hub, board], subnet: 10.2.0.0/16}
",
        );
        let board = &plan.nodes[1];
        let spec = plan.console(board).unwrap();
        let line = spec.argv.join(" ");
        assert!(line.starts_with("qemu-system-arm ") && line.contains("-m 64M"), "{line}");
        assert!(line.contains("-machine virt") && line.ends_with("-icount auto"), "{line}");
        for (tap, mac) in [("tap0", "02:00:0a:01:00:02"), ("tap1", "02:00:0a:02:00:02")] {
            assert!(line.contains(&format!("ifname={tap},")) && line.contains(mac), "{line}");
        }
    }
}
