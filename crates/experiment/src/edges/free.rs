//! Subnets for edges without one.

use crate::source::Place;
use crate::subnet::Subnet;
use crate::subnet_set::SubnetSet;
use crate::tree::{Content, Node};

/// First address of the subnets of edges without one, and their number: 172.31.0.0/16.
// An edge has two nodes, so a /30 (two host addresses) is enough: 2^16 / 4 of them in a /16.
const POOL: [u8; 2] = [172, 31];
const SUBNETS: u32 = 1 << 14;

/// Subnets for edges that overlap none of the file.
pub(super) struct Free {
    used: SubnetSet,
    next: u32,
}

impl Free {
    pub fn of(root: &Node, edges: &[Node]) -> Self {
        let mut used = SubnetSet::default();
        let networks = root.get("networks").map(|networks| &networks.content);
        if let Some(Content::Map(networks)) = networks {
            networks.iter().for_each(|(_, network)| subnets(network, &mut used));
        }
        edges.iter().for_each(|edge| subnets(edge, &mut used));
        Self { used, next: 0 }
    }

    /// The next free subnet of two nodes; the last one again if none is left, which the overlap
    /// reports.
    pub fn take(&mut self, place: Place) -> Node {
        self.take_for(2, place)
    }

    /// The next free subnet of `nodes` nodes.
    pub fn take_for(&mut self, nodes: u32, place: Place) -> Node {
        let [a, b] = POOL;
        // Without the addresses of the network and of all its nodes, a power of two.
        let addresses = nodes.saturating_add(2).next_power_of_two().clamp(4, SUBNETS << 2);
        let (step, prefix) = (addresses >> 2, 32 - addresses.trailing_zeros());
        self.next = self.next.next_multiple_of(step).min(SUBNETS - step);
        loop {
            // 64 subnets of four addresses fit into the last byte.
            let text = format!("{a}.{b}.{}.{}/{prefix}", self.next >> 6, (self.next & 63) << 2);
            let is_last = self.next + step >= SUBNETS;
            self.next = if is_last { SUBNETS - step } else { self.next + step };
            let overlaps = |own: Subnet| self.used.overlapping(own).is_some();
            if is_last || !text.parse().is_ok_and(overlaps) {
                return Node { place, content: Content::Scalar(text) };
            }
        }
    }
}

/// Adds the subnets that a network or an edge names.
fn subnets(node: &Node, used: &mut SubnetSet) {
    let items = match node.get("subnet") {
        Some(Node { content: Content::List(items), .. }) => items,
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    for item in items {
        if let Content::Scalar(text) = &item.content
            && let Ok(subnet) = text.parse()
        {
            used.insert(subnet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subnet_set::tests::assert_fast;

    #[test]
    fn edges_among_thousands_of_networks_find_subnets_fast() {
        let place = Place::default();
        assert_fast(400, |count| {
            let mut free = Free { used: SubnetSet::default(), next: 0 };
            // Every second subnet of the pool is taken.
            for number in (0..count).map(|number| 2 * (number % (SUBNETS / 2))) {
                let text = format!("172.31.{}.{}/30", number >> 6, (number & 63) << 2);
                free.used.insert(text.parse().unwrap());
            }
            for _ in 0..count.min(SUBNETS / 2 - 1) {
                let Content::Scalar(text) = free.take(place).content else { panic!("a subnet") };
                assert_eq!(free.used.overlapping(text.parse().unwrap()), None);
            }
        });
    }
}
