//! Clones of nodes, for a lab that grows while it runs.

use crate::mac::Mac;
use crate::plan::{Backend, Plan, PlannedLink, PlannedNetwork, PlannedNode};
use crate::resolve::of_mac;
use std::collections::HashSet;
use std::net::IpAddr;

impl Plan {
    /// Returns `count` clones of the node at index `node`, with the next free numbers of its group
    /// and the next free addresses of its networks. The plan stays unchanged. The lab sets the
    /// addresses, even if the original uses DHCP.
    ///
    /// # Errors
    /// If the node does not exist or cannot be cloned, or a network has no free address.
    pub fn clones(&self, node: usize, count: usize) -> Result<Vec<PlannedNode>, String> {
        let Some(original) = self.nodes.get(node) else {
            return Err(format!("node {node} does not exist"));
        };
        self.check_clonable(original)?;
        let mut names: HashSet<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        let links = self.nodes.iter().flat_map(|node| &node.links);
        let mut taken: HashSet<IpAddr> = links.flat_map(PlannedLink::addresses).collect();
        let mut number = self.highest(&original.group);
        let mut clones = Vec::with_capacity(count);
        while clones.len() < count {
            number += 1;
            let name = format!("{}-{number}", original.group);
            if !names.insert(name.clone()) {
                continue;
            }
            let links = original.links.iter().map(|link| self.clone_link(link, &mut taken));
            let links = links.collect::<Result<_, _>>()?;
            let gateway = original.gateway.or_else(|| self.gateway_of(original));
            clones.push(PlannedNode { name, links, gateway, ..original.clone() });
        }
        Ok(clones)
    }

    fn check_clonable(&self, original: &PlannedNode) -> Result<(), String> {
        let name = &original.name;
        if let Some(interface) = &original.external {
            return Err(format!(
                "`{name}` is the hardware behind {interface} and cannot be cloned"
            ));
        }
        if original.services.is_some() {
            return Err(format!(
                "`{name}` runs the services of its network, which has only one such node"
            ));
        }
        let by_netem = |link: &&PlannedLink| {
            self.network(&link.network).is_some_and(|own| own.backend == Backend::Netem)
        };
        match original.links.iter().find(by_netem) {
            Some(link) => Err(format!(
                "`{name}` is attached to `{}`, which has `backend: netem`: links under netem \
                 cannot be added later",
                link.network
            )),
            None => Ok(()),
        }
    }

    /// Highest number of a group's nodes; a single node has number 1.
    fn highest(&self, group: &str) -> u64 {
        let own = self.nodes.iter().filter(|node| node.group == group);
        let number = |node: &PlannedNode| {
            node.name.strip_prefix(group)?.strip_prefix('-')?.parse::<u64>().ok()
        };
        let numbers = own.map(|node| match node.name == group {
            true => 1,
            false => number(node).unwrap_or(0),
        });
        numbers.max().unwrap_or(0)
    }

    fn clone_link(
        &self,
        link: &PlannedLink,
        taken: &mut HashSet<IpAddr>,
    ) -> Result<PlannedLink, String> {
        let network = self.network(&link.network);
        let free = network.and_then(|network| {
            let all = (0..network.subnet.room()).map_while(|index| addresses(network, index));
            all.into_iter().find(|(address, second)| {
                !taken.contains(address) && second.is_none_or(|second| !taken.contains(&second))
            })
        });
        let Some((address, second_address)) = free else {
            let subnet = network.map_or(String::new(), |network| format!(", {},", network.subnet));
            return Err(format!("the network `{}`{subnet} has no free address", link.network));
        };
        taken.extend(second_address);
        taken.insert(address);
        let mac = Mac::from(of_mac(address, second_address));
        Ok(PlannedLink { address, second_address, mac, by_dhcp: false, ..link.clone() })
    }

    /// The gateway that DHCP would have announced to the node.
    fn gateway_of(&self, node: &PlannedNode) -> Option<IpAddr> {
        let asks = node.links.iter().filter(|link| link.by_dhcp);
        asks.map(|link| &link.network).find_map(|network| {
            let gateways = self.nodes.iter().filter(|node| node.services.is_some_and(|s| s.nat));
            let mut links = gateways.flat_map(|gateway| &gateway.links);
            links.find(|link| link.network == *network).and_then(PlannedLink::ipv4)
        })
    }
}

/// The addresses of the node at `index` of a network; `None` beyond the last of a subnet.
fn addresses(network: &PlannedNetwork, index: u64) -> Option<(IpAddr, Option<IpAddr>)> {
    let second = match network.second_subnet {
        Some(second) => Some(second.address(index)?),
        None => None,
    };
    Some((network.subnet.address(index)?, second))
}

#[cfg(test)]
mod tests {
    use crate::Experiment;

    fn plan(networks: &str) -> crate::Plan {
        let text = format!(
            "experiment: clones\nnodes:\n  server: {{run: [sleep, '9']}}\n  meter: {{count: 3}}\n  meter-5: {{}}\n\
             networks:\n  lan: {{attach: [server, meter, meter-5], {networks}}}\nduration: 1 s\n"
        );
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("e.yaml");
        std::fs::write(&file, text).unwrap();
        let experiment = Experiment::read(&file).unwrap();
        let cells = experiment.cells(&crate::Only::all()).unwrap();
        experiment.plan(&cells[0], 0, 1).unwrap()
    }

    #[test]
    fn twins_have_the_next_names_and_addresses() {
        let plan = plan("subnet: 10.1.0.0/24, links: {meter: {up: {delay: 5 ms}}}");
        let clones = plan.clones(2, 3).unwrap();
        let names: Vec<_> = clones.iter().map(|twin| twin.name.as_str()).collect();
        // `meter-5` belongs to another group.
        assert_eq!(names, ["meter-4", "meter-6", "meter-7"]);
        let addresses: Vec<_> = clones.iter().map(|t| t.links[0].address.to_string()).collect();
        assert_eq!(addresses, ["10.1.0.6", "10.1.0.7", "10.1.0.8"]);
        for twin in &clones {
            assert_eq!(twin.links[0].up, plan.nodes[2].links[0].up);
            assert_ne!(twin.links[0].mac, plan.nodes[2].links[0].mac);
        }
        assert_eq!(plan.clones(0, 1).unwrap()[0].name, "server-2");
    }

    #[test]
    fn what_there_is_once_has_no_twin() {
        assert!(plan("subnet: 10.1.0.0/29").clones(1, 2).unwrap_err().contains("no free address"));
        let served = plan("subnet: 10.1.0.0/24, dns: true");
        let services = served.nodes.len() - 1;
        assert!(served.clones(services, 1).unwrap_err().contains("services"));
        let netem = plan("subnet: 10.1.0.0/24, backend: netem");
        assert!(netem.clones(1, 1).unwrap_err().contains("backend: netem"));
        assert!(netem.clones(99, 1).is_err());
    }
}
