//! Fills the values of `defaults` in where groups and links lack them.

use crate::tree::{Content, Key, Node};

/// Keys of a group whose entries are filled in one by one; other keys count as a whole.
const MERGED: [&str; 4] = ["limits", "reserve", "env", "metrics"];

/// Marks a link that gets no defaults, until they are filled in. No key of a file begins with a space.
pub(crate) const WITHOUT_DEFAULTS: &str = " without defaults";

/// The experiment `root` with its defaults in each group of nodes, and in each link without a
/// profile. Real hardware (`external`) gets none: it runs no programs.
pub(crate) fn expand(root: &Node) -> Node {
    let Some(defaults) = root.get("defaults") else { return root.clone() };
    let all = root.get("nodes").cloned();
    let mut root = root.clone();
    let Content::Map(entries) = &mut root.content else { return root };
    for (key, value) in entries {
        match key.text.as_str() {
            "nodes" => each(value, |group| {
                if let Some(nodes) = defaults.get("nodes")
                    && group.get("external").is_none()
                {
                    fill(group, nodes, |key| MERGED.contains(&key));
                }
            }),
            "networks" => each(value, |network| {
                // A profile's values belong together: a default in between would change the
                // technology.
                // The links of a VLAN are those of its switch.
                if let Some(links) = defaults.get("links")
                    && network.get("profile").is_none()
                    && network.get("switch").is_none()
                {
                    fill_links(network, links, all.as_ref());
                }
            }),
            _ => {}
        }
    }
    root
}

fn each(node: &mut Node, mut change: impl FnMut(&mut Node)) {
    if let Content::Map(entries) = &mut node.content {
        entries.iter_mut().for_each(|(_, value)| change(value));
    }
}

/// Whether `links` has one for `name`, a group or a node of one; a node without its own has that of
/// its group. `all` are the groups.
pub(crate) fn has_link(links: &[(Key, Node)], name: &str, all: Option<&Node>) -> bool {
    let is_group = |name| all.is_some_and(|all| all.get(name).is_some());
    let group = name.rsplit_once('-').map(|(group, _)| group);
    let group = group.filter(|group| !is_group(name) && is_group(group));
    links.iter().any(|(key, _)| key.text == name || Some(&*key.text) == group)
}

/// Fills in the links of the groups, of `all`, that are attached to a network.
fn fill_links(network: &mut Node, defaults: &Node, all: Option<&Node>) {
    let mut groups = Vec::new();
    match network.get("attach").map(|attach| &attach.content) {
        Some(Content::Scalar(group)) => groups.push(group.clone()),
        Some(Content::List(items)) => {
            groups.extend(items.iter().filter_map(|item| match &item.content {
                Content::Scalar(group) => Some(group.clone()),
                _ => None,
            }));
        }
        _ => {}
    }
    let nothing = Node { place: defaults.place, content: Content::Map(Vec::new()) };
    let Content::Map(entries) = &mut network.content else { return };
    if !entries.iter().any(|(key, _)| key.text == "links") {
        entries.push((Key { text: "links".to_owned(), place: defaults.place }, nothing.clone()));
    }
    let links = entries.iter_mut().find(|(key, _)| key.text == "links");
    let Some((_, links)) = links else { return };
    // `links:` without a value is an empty map, as for the reader.
    if links.content == Content::Nothing {
        links.content = Content::Map(Vec::new());
    }
    let Content::Map(links) = &mut links.content else { return };
    // An unknown one is reported where it is attached.
    let is_known = |name: &String| {
        let group = name.rsplit_once('-').map_or(name.as_str(), |(group, _)| group);
        all.is_some_and(|all| all.get(name).is_some() || all.get(group).is_some())
    };
    for group in groups.into_iter().filter(is_known) {
        if !has_link(links, &group, all) {
            links.push((Key { text: group, place: defaults.place }, nothing.clone()));
        }
    }
    for (_, link) in links.iter_mut().filter(|(_, link)| link.get("profile").is_none()) {
        match &mut link.content {
            Content::Map(keys) if keys.iter().any(|(key, _)| key.text == WITHOUT_DEFAULTS) => {
                // The second end of an edge: with defaults, too, they would act twice on each
                // frame.
                keys.clear();
            }
            _ => fill(link, defaults, |_| true),
        }
    }
}

/// Adds the entries of `defaults` that `node` lacks; `merged` selects the maps to fill in as well.
fn fill(node: &mut Node, defaults: &Node, merged: fn(&str) -> bool) {
    let Content::Map(below) = &defaults.content else { return };
    if node.content == Content::Nothing {
        node.content = Content::Map(Vec::new());
    }
    let Content::Map(entries) = &mut node.content else { return };
    for (key, value) in below {
        match entries.iter_mut().find(|(own, _)| own.text == key.text) {
            Some((_, own)) if merged(&key.text) => fill(own, value, |_| false),
            Some(_) => {}
            None => entries.push((key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::test_plan::plan;

    const FILE: &str = "\
experiment: e
defaults:
  nodes: {limits: {memory: 64 MiB, cpus: 0.5}, env: {A: '1', B: '2'}}
  links: {up: {delay: 10 ms, loss: 1 %}}
nodes:
  a:
  b: {limits: {cpus: 2}, env: {B: '3'}, run: [sleep, '1']}
networks:
  n:
    attach: [a, b]
    subnet: 10.0.0.0/24
    links: {b: {up: {delay: 20 ms}, down: {delay: 5 ms}}}
  own: {attach: [a, b], subnet: 10.1.0.0/24, profile: ideal}
profiles: {ideal: {}}
";

    #[test]
    fn groups_and_links_have_what_they_lack() {
        let plan = plan(FILE).unwrap();
        let limits = |n: usize| (plan.nodes[n].limits.cpus, plan.nodes[n].limits.memory.is_some());
        assert_eq!((limits(0), limits(1)), ((Some(0.5), true), (Some(2.0), true)));
        let text = plan.to_string();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("delay")).collect();
        assert!(
            lines.iter().any(|line| line.contains("10 ms") && line.contains("loss 1 %")),
            "{text}"
        );
        assert!(lines.iter().any(|line| line.contains("20 ms")), "{text}");
        let own = text.split("10.1.0.0/24").nth(1).unwrap();
        assert!(!own.contains("delay"), "{text}");
    }

    #[test]
    fn an_unknown_node_is_reported_where_it_is_named() {
        let file = "experiment: e
defaults: {links: {up: {delay: 20 ms}}}
nodes: {a: {}, b: {}}
edges: [[a, b], [b, c]]
";
        let error = plan(file).unwrap_err();
        assert!(error.contains("e.yaml:4:") && !error.contains("e.yaml:2:"), "{error}");
    }

    #[test]
    fn problems_are_at_the_defaults_and_said_once() {
        let error = plan(&FILE.replace("cpus: 0.5", "cpu: 5")).unwrap_err();
        assert!(error.contains("e.yaml:3:") && error.contains("1 error in"), "{error}");
        let error = plan(&FILE.replace("  nodes: {limits", "  node: {limits")).unwrap_err();
        assert!(error.contains("unknown key `node`") && error.contains("mean `nodes`?"), "{error}");
    }
}
