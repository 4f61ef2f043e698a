//! Makes a network of each edge.

mod free;
mod joined;
mod pair;

use crate::defaults::WITHOUT_DEFAULTS;
use crate::tree::{Content, Key, Node};
use free::Free;
use pair::pairs;
use std::collections::HashSet;

/// The experiment `root` with a network for each of its `edges`, named after its ends, such as
/// `left-right`; a second one between the same nodes is `left-right-2`. What is invalid is left to
/// the reader.
pub(crate) fn expand(root: &Node) -> Node {
    let Some(Node { content: Content::List(edges), .. }) = root.get("edges") else {
        return root.clone();
    };
    let mut free = Free::of(root, edges);
    let mut names: HashSet<String> = match root.get("networks").map(|all| &all.content) {
        Some(Content::Map(all)) => all.iter().map(|(key, _)| key.text.clone()).collect(),
        _ => HashSet::new(),
    };
    let mut pairs = pairs(edges, &mut names);
    joined::share_subnets(root, &mut pairs, &mut free);
    let has_defaults = root.get("defaults").is_some_and(|all| all.get("links").is_some());
    let networks = pairs.into_iter().map(|pair| {
        let place = pair.ends[1].place;
        let subnet = pair.subnet.unwrap_or_else(|| free.take(place));
        let network = network(pair.edge, pair.ends, pair.names, subnet, has_defaults);
        (Key { text: pair.name, place }, network)
    });
    let networks = networks.collect();
    with_networks(root, networks)
}

/// The network of one edge between the nodes `pair` with these names. The edge is the link of the first;
/// that of the second has no impairments, also if there are defaults.
fn network(edge: &Node, pair: &[Node], names: [&str; 2], subnet: Node, has_defaults: bool) -> Node {
    let place = subnet.place;
    let node = |content| Node { place, content };
    let entry = |text: &str, value| (Key { text: text.to_owned(), place }, value);
    let given = |key| edge.get(key).filter(|value| value.content != Content::Nothing).cloned();
    let ways = ["up", "down"].map(|way| match (given(way), given("both")) {
        (Some(own), Some(both)) => Some(filled(own, &both)),
        (own, both) => own.or(both),
    });
    let mut link: Vec<_> = ["up", "down"]
        .into_iter()
        .zip(ways)
        .filter_map(|(way, keys)| Some(entry(way, keys?)))
        .collect();
    link.extend(given("profile").map(|profile| entry("profile", profile)));
    let mut links = vec![entry(names[0], node(Content::Map(link)))];
    // Both ends would get the defaults, and a frame passes both: see `defaults::expand`.
    if has_defaults {
        let none = entry(WITHOUT_DEFAULTS, node(Content::Nothing));
        links.push(entry(names[1], node(Content::Map(vec![none]))));
    }
    let links = node(Content::Map(links));
    let attach = node(Content::List(pair.to_vec()));
    let mut network = vec![entry("attach", attach), entry("subnet", subnet), entry("links", links)];
    let others = ["mtu", "timetable"].into_iter();
    network.extend(others.filter_map(|key| Some(entry(key, given(key)?))));
    node(Content::Map(network))
}

/// The keys of `own`, with those of `both` that it lacks.
fn filled(mut own: Node, both: &Node) -> Node {
    if let (Content::Map(keys), Content::Map(others)) = (&mut own.content, &both.content) {
        for (key, value) in others {
            if !keys.iter().any(|(own, _)| own.text == key.text) {
                keys.push((key.clone(), value.clone()));
            }
        }
    }
    own
}

fn with_networks(root: &Node, networks: Vec<(Key, Node)>) -> Node {
    let mut root = root.clone();
    let place = root.place;
    let Content::Map(entries) = &mut root.content else { return root };
    if !entries.iter().any(|(key, _)| key.text == "networks") {
        let key = Key { text: "networks".to_owned(), place };
        entries.push((key, Node { place, content: Content::Nothing }));
    }
    let all = entries.iter_mut().find(|(key, _)| key.text == "networks");
    let Some((_, all)) = all else { return root };
    if all.content == Content::Nothing {
        all.content = Content::Map(Vec::new());
    }
    if let Content::Map(all) = &mut all.content {
        all.extend(networks);
    }
    root
}

#[cfg(test)]
mod tests {
    use crate::test_plan::plan;

    const FILE: &str = "\
experiment: e
nodes: {a: {}, b: {forward: true}, c: {forward: true}, d: {}}
networks: {lan: {attach: [a, d], subnet: 172.31.0.4/30}}
edges:
  - [a, b]
  - {between: [b, c, d], both: {delay: 10 ms, loss: 1 %}, down: {loss: 2 %}}
  - {between: [b, c], subnet: 'fd00::/64', mtu: 1400 B}
";

    #[test]
    fn each_pair_is_a_network() {
        let plan = plan(FILE).unwrap();
        let found: Vec<_> = plan
            .networks
            .iter()
            .map(|network| format!("{} {} {}", network.name, network.subnet, network.mtu))
            .collect();
        assert_eq!(
            found,
            [
                "lan 172.31.0.4/30 1500 B",
                "a-b 172.31.0.0/30 1500 B",
                "b-c 172.31.0.8/30 1500 B",
                "c-d 172.31.0.12/30 1500 B",
                "b-c-2 fd00::/64 1400 B",
            ]
        );
        let on = |node: usize, network: &str| {
            let link = plan.nodes[node].links.iter().find(|link| link.network == network).unwrap();
            let loss = |way: &link::Impairment| format!("{:?}", way.keys().0.get("loss"));
            (loss(&link.up), loss(&link.down))
        };
        assert_eq!(on(1, "b-c"), (on(2, "c-d").0, on(2, "c-d").1));
        assert_ne!(on(1, "b-c").0, on(1, "b-c").1);
        assert_eq!(on(2, "b-c"), ("None".to_owned(), "None".to_owned()));
    }

    #[test]
    fn defaults_apply_once_to_an_edge() {
        let defaults = "defaults: {links: {up: {delay: 20 ms}, down: {delay: 30 ms}}}\n";
        let text = FILE.replace("nodes:", &format!("{defaults}nodes:"));
        let plan = plan(&text.replace(", down: {loss: 2 %}", "")).unwrap();
        let delays = |node: usize, network: &str| {
            let link = plan.nodes[node].links.iter().find(|link| link.network == network).unwrap();
            [&link.up, &link.down].map(|way| way.delay.mean.as_ns() / 1_000_000)
        };
        assert_eq!((delays(0, "a-b"), delays(1, "a-b")), ([20, 30], [0, 0]));
        assert_eq!((delays(1, "b-c"), delays(2, "b-c")), ([10, 10], [0, 0]));
        assert_eq!(delays(3, "lan"), [20, 30]);
    }

    #[test]
    fn mistakes_are_at_the_edges_and_said_once() {
        for (from, to, message) in [
            ("[a, b]", "[a]", "an edge has two ends"),
            ("[a, b]", "[a, a]", "an edge from `a` to itself"),
            ("[a, b]", "[a, x]", "unknown group `x`"),
            ("[a, b]", "a", "expected an edge"),
            ("both: {delay", "both: {dely", "unknown key `dely`"),
            ("delay: 10 ms", "delay: 10", "delay"),
            ("mtu: 1400 B", "mtu: 14 B", "below 68 B"),
            ("mtu: 1400 B", "metric: 1", "unknown key `metric`"),
            ("[b, c, d],", "[b, c, d], subnet: 10.0.0.0/24,", "one subnet for several edges"),
        ] {
            let error = plan(&FILE.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(message) && error.contains("1 error in"), "{to}: {error}");
        }
    }
}
