//! Selects the frames of a capture, and names nodes in short.

use experiment::{Plan, PlannedCapture, PlannedNetwork};
use link::{Carried, Channel, CsmaSpec};
use measure::{Filter, Selection};

/// A few nodes by name, the others by number.
pub(crate) fn some(nodes: &[String]) -> String {
    match nodes {
        [one, two, _, rest @ ..] => format!("{one}, {two} and {} more", rest.len() + 1),
        few => few.join(", "),
    }
}

/// Selects what to capture; `owners` lists the node at each endpoint of each segment.
///
/// # Errors
/// When the filter is invalid.
pub(crate) fn select(
    plan: &Plan,
    requested: &PlannedCapture,
    owners: &[Vec<usize>],
) -> Result<Selection, measure::FilterError> {
    let all = requested.nodes.is_empty() && requested.networks.is_empty();
    let named = |names: &[String], name: &String| names.is_empty() || names.contains(name);
    let links = owners.iter().enumerate().map(|(segment, nodes)| {
        let network = named(&requested.networks, &plan.networks[segment].name);
        let node = |node: &usize| network && named(&requested.nodes, &plan.nodes[*node].name);
        nodes.iter().map(node).collect()
    });
    Ok(Selection {
        links: (!all).then(|| links.collect()),
        filter: requested.filter.as_deref().map(Filter::compile).transpose()?,
        snap: requested.snap.map(|snap| snap.get() as usize),
        lowpan: plan.networks.iter().map(lowpan).collect(),
    })
}

/// The channel of a network that carries 6LoWPAN.
fn lowpan(network: &PlannedNetwork) -> Option<CsmaSpec> {
    match &network.channel {
        Channel::Csma(csma) if csma.carries == Carried::Lowpan => Some(csma.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_plan::plan;

    #[test]
    fn many_nodes_are_named_in_short() {
        let names: Vec<String> = (1..6).map(|n| format!("n-{n}")).collect();
        assert_eq!(some(&names[..2]), "n-1, n-2");
        assert_eq!(some(&names), "n-1, n-2 and 3 more");
        assert_eq!(some(&[]), "");
    }

    #[test]
    fn a_capture_has_the_links_of_its_nodes_in_its_networks() {
        let plan = plan(
            "experiment: e
nodes: {gateway: {count: 1}, a: {count: 1}}
networks:
  one: {attach: [gateway, a], subnet: 10.0.0.0/24}
  two: {attach: [gateway], subnet: 10.0.1.0/24}
workloads: [{command: {on: a, run: ['true']}}]
duration: 1 s
",
        );
        let owners = vec![vec![0, 1], vec![0]];
        let links = |nodes: &[&str], networks: &[&str]| {
            let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let capture = PlannedCapture {
                nodes: own(nodes),
                networks: own(networks),
                ..PlannedCapture::default()
            };
            select(&plan, &capture, &owners).unwrap().links
        };
        assert_eq!(links(&[], &[]), None, "all");
        assert_eq!(links(&["gateway"], &[]), Some(vec![vec![true, false], vec![true]]));
        assert_eq!(links(&["gateway"], &["two"]), Some(vec![vec![false, false], vec![true]]));
        assert_eq!(links(&["a"], &["two"]), Some(vec![vec![false, false], vec![false]]));
        let wrong = PlannedCapture { filter: Some("no such word".into()), ..Default::default() };
        assert!(select(&plan, &wrong, &owners).is_err());
    }
}
