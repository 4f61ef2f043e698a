//! What nodes sent beyond the limits of tables, with their names.

use crate::bed::{Shortened, Topology};
use engine::{Outcome, Overflow};
use experiment::Plan;
use measure::{Accounting, Overflows};

/// Sums over all nodes, and the node with the most of each.
pub(crate) fn overflows(
    plan: &Plan,
    topology: &Topology,
    outcome: &Outcome<Accounting>,
    shortened: &[Shortened],
) -> Overflows {
    let of = |count: fn(&Overflow) -> u64| {
        let segments = outcome.overflows.iter().enumerate();
        let ends = segments.flat_map(|(segment, ends)| {
            ends.iter().enumerate().map(move |(endpoint, end)| (segment, endpoint, count(end)))
        });
        total(ends.map(|(segment, endpoint, count)| {
            // Nodes that were added later are not in the topology.
            let names = topology.names.get(segment);
            let name =
                names.and_then(|names| names.get(endpoint)).map_or("a clone", String::as_str);
            (name, count)
        }))
    };
    let connections = outcome.observer.forgotten_flows().map(|(node, count)| {
        (plan.nodes.get(node).map_or("a clone", |node| node.name.as_str()), count)
    });
    let name = |log: &Shortened| {
        let name = log.log.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name, log.bytes)
    };
    let names: Vec<(String, u64)> = shortened.iter().map(name).collect();
    Overflows {
        groups: of(|end| end.groups),
        addresses: of(|end| end.addresses),
        flows: of(|end| end.flows),
        connections: total(connections),
        output: total(names.iter().map(|(name, bytes)| (name.as_str(), *bytes))),
    }
}

/// The sum, and the name with the largest count, of equal ones the first by name.
fn total<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> (u64, String) {
    let mut sum = 0;
    let mut worst = ("", 0);
    for (name, count) in counts {
        sum += count;
        if count > worst.1 || (count == worst.1 && count > 0 && name < worst.0) {
            worst = (name, count);
        }
    }
    (sum, worst.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_with_the_most_is_named() {
        let counts = [("b", 2), ("a", 0), ("c", 5), ("a", 5)];
        assert_eq!(total(counts.into_iter()), (12, "a".to_owned()));
        assert_eq!(total([("a", 0)].into_iter()), (0, String::new()));
    }
}
