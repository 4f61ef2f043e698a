//! Clones of nodes, for a lab that grows while it runs.

use crate::destination::Destination;
use crate::mac::Mac;
use crate::plan::{Backend, Plan, PlannedLink, PlannedNetwork, PlannedNode};
use crate::resolve::{MAX_STATIONS, of_mac};
use std::collections::HashSet;
use std::net::IpAddr;

impl Plan {
    /// Returns `count` clones of the node at index `node`, with the next free numbers of its group
    /// and the next free addresses of its networks, but none of a DHCP server's pool. The plan stays
    /// unchanged; its first `planned` nodes are those with which the lab began. The lab sets the
    /// addresses, even if the original uses DHCP.
    ///
    /// # Errors
    /// If the node does not exist or cannot be cloned, or a network has no free address.
    pub fn clones(
        &self,
        node: usize,
        count: usize,
        planned: usize,
    ) -> Result<Vec<PlannedNode>, String> {
        let Some(original) = self.nodes.get(node) else {
            return Err(format!("node {node} does not exist"));
        };
        self.check_clonable(original)?;
        self.check_stations(original, count)?;
        let mut names: HashSet<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        let links = self.nodes.iter().flat_map(|node| &node.links);
        let mut taken = Taken {
            addresses: links.clone().flat_map(PlannedLink::addresses).collect(),
            macs: links.map(|link| link.mac).collect(),
        };
        // A next hop may be a device that is not in the plan, such as one behind a hardware interface.
        taken.addresses.extend(self.nodes.iter().flat_map(PlannedNode::next_hops));
        let mut number = self.highest(&original.group);
        let mut clones = Vec::with_capacity(count);
        while clones.len() < count {
            number += 1;
            let name = format!("{}-{number}", original.group);
            // A single node of another group may have this name, such as a group `meter-2`.
            if !names.insert(name.clone()) {
                continue;
            }
            let links = self.clone_links(original, planned, &mut taken);
            let mut links = links.map_err(|problem| match clones.len() {
                0 => problem,
                most => format!("{problem} for {count} clones, only for {most}"),
            })?;
            share_address(original, &mut links);
            // The lab sets the gateways that the original has learned.
            let gateway = |is_ipv6| gateway_of(original, is_ipv6);
            let (gateway, gateway_ipv6) = (gateway(false), gateway(true));
            let learned_gateways = Vec::new();
            clones.push(PlannedNode {
                name,
                links,
                gateway,
                gateway_ipv6,
                learned_gateways,
                ..original.clone()
            });
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
        if self.broker().is_some_and(|(_, broker)| broker.runs_on(name)) {
            return Err(format!(
                "`{name}` runs the broker or a gateway of `mqtt`, and a clone would have none"
            ));
        }
        if original.bridge.as_ref().is_some_and(|bridge| !bridge.stp) {
            return Err(format!(
                "`{name}` is a bridge without the spanning tree protocol, and a second one would close a \
                 loop in which broadcasts circle for ever; add `stp: true` to its group"
            ));
        }
        // netem is configured with the nodes, when impairments begin (decisions 16 and 27).
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

    /// Checks that the networks of `original` where losses depend on places have room for `count` nodes
    /// more.
    fn check_stations(&self, original: &PlannedNode, count: usize) -> Result<(), String> {
        let networks = original.links.iter().filter_map(|link| self.network(&link.network));
        for network in networks.filter(|network| network.has_reception()) {
            let now = self.members(network).count();
            if now.saturating_add(count) as u64 > MAX_STATIONS {
                return Err(format!(
                    "`{}` has {now} nodes, and can have {MAX_STATIONS} with `path_loss` or `pair_losses`",
                    network.name
                ));
            }
        }
        Ok(())
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

    /// Links of a clone. Interfaces of VLANs have the Ethernet address of their trunk's, which is in front
    /// of them.
    fn clone_links(
        &self,
        original: &PlannedNode,
        planned: usize,
        taken: &mut Taken,
    ) -> Result<Vec<PlannedLink>, String> {
        let mut links: Vec<PlannedLink> = Vec::new();
        for link in &original.links {
            let trunk = links.iter().find(|own| Some(&own.interface) == link.trunk.as_ref());
            let mac = trunk.map(|trunk| trunk.mac);
            links.push(self.clone_link(link, mac, planned, taken)?);
        }
        Ok(links)
    }

    /// The same link with free addresses, and with the Ethernet address `trunk` if there is one.
    fn clone_link(
        &self,
        link: &PlannedLink,
        trunk: Option<Mac>,
        planned: usize,
        taken: &mut Taken,
    ) -> Result<PlannedLink, String> {
        let network = self.network(&link.network);
        let free = network.and_then(|network| {
            // A clone has a fixed address. From the pool, the server would lease the same one to a
            // host.
            let pools = match self.serves_dhcp(network) {
                true => [false, true].map(|is_ipv6| self.pool_of(planned, network, is_ipv6)),
                false => [None, None],
            };
            let pools: Vec<(IpAddr, IpAddr)> = pools.into_iter().flatten().collect();
            let is_free = |address: IpAddr| {
                let in_pool =
                    |(first, last): &(IpAddr, IpAddr)| (*first..=*last).contains(&address);
                !taken.addresses.contains(&address) && !pools.iter().any(in_pool)
            };
            let mut all = (0..network.subnet.room()).map_while(|index| addresses(network, index));
            // A port of a bridge has an Ethernet address, but not the address that it is made of.
            let is_new =
                |address, second| trunk.is_some() || !taken.macs.contains(&mac(address, second));
            all.find(|(address, second)| {
                is_free(*address) && second.is_none_or(is_free) && is_new(*address, *second)
            })
        });
        let Some((address, second_address)) = free else {
            let subnet = network.map_or(String::new(), |network| format!(", {},", network.subnet));
            let pool = match network.is_some_and(|network| self.serves_dhcp(network)) {
                true => " outside the pool of its DHCP server",
                false => "",
            };
            return Err(format!(
                "the network `{}`{subnet} has no free address{pool}",
                link.network
            ));
        };
        // The plan does not change, so only `taken` keeps clones of one call apart.
        let mac = trunk.unwrap_or_else(|| mac(address, second_address));
        taken.addresses.extend(second_address);
        taken.addresses.insert(address);
        taken.macs.insert(mac);
        // The server's leases are those of the plan at the start, without clones (decision 27).
        Ok(PlannedLink {
            address,
            second_address,
            mac,
            by_dhcp: false,
            by_slaac: false,
            ..link.clone()
        })
    }

    fn serves_dhcp(&self, network: &PlannedNetwork) -> bool {
        let servers = self.nodes.iter().filter(|node| node.services.is_some_and(|own| own.dhcp));
        let joined = self.joined(network);
        servers.flat_map(|node| &node.links).any(|link| joined.contains(link.network.as_str()))
    }
}

/// Addresses that a clone cannot have.
struct Taken {
    addresses: HashSet<IpAddr>,
    macs: HashSet<Mac>,
}

fn mac(address: IpAddr, second: Option<IpAddr>) -> Mac {
    Mac::from(of_mac(address, second))
}

/// Gives all ports of a bridge the addresses of the first one. Those of the others stay free, as on the
/// original, and are the source of the ports' Ethernet addresses.
fn share_address(original: &PlannedNode, links: &mut [PlannedLink]) {
    let mut ports = links.iter_mut().filter(|link| original.is_port(link));
    let Some(first) = ports.next() else { return };
    for port in ports {
        (port.address, port.second_address) = (first.address, first.second_address);
    }
}

/// The gateway in a family of a clone: that of the original, or the one that it has learned, unless
/// another route is the default one.
fn gateway_of(original: &PlannedNode, is_ipv6: bool) -> Option<IpAddr> {
    let all = Destination::all(is_ipv6);
    let has_default = original.routes.iter().any(|route| route.to == all);
    let learned = original.learned_gateways.iter().copied().filter(|_| !has_default);
    original.gateways().chain(learned).find(|via| via.is_ipv6() == is_ipv6)
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
            "experiment: clones\nnodes:\n  server: {{run: [sleep, '9'], position: [0 m, 0 m]}}\n  meter: {{count: 3, position: \
             [[1 m, 0 m], [2 m, 0 m], [3 m, 0 m]]}}\n  meter-5: {{position: [4 m, 0 m]}}\n\
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
        let clones = plan.clones(2, 3, 99).unwrap();
        let names: Vec<_> = clones.iter().map(|twin| twin.name.as_str()).collect();
        // `meter-5` belongs to another group.
        assert_eq!(names, ["meter-4", "meter-6", "meter-7"]);
        let addresses: Vec<_> = clones.iter().map(|t| t.links[0].address.to_string()).collect();
        assert_eq!(addresses, ["10.1.0.6", "10.1.0.7", "10.1.0.8"]);
        for twin in &clones {
            assert_eq!(twin.links[0].up, plan.nodes[2].links[0].up);
            assert_ne!(twin.links[0].mac, plan.nodes[2].links[0].mac);
        }
        assert_eq!(plan.clones(0, 1, 99).unwrap()[0].name, "server-2");
    }

    /// What failed: a clone got the address of the router behind a hardware interface, which only a
    /// route names.
    #[test]
    fn twins_do_not_take_the_address_of_a_next_hop() {
        let text = "experiment: e
nodes: {meter: {routes: {10.9.0.0/16: 10.1.0.2, 10.8.0.0/16: 10.1.0.4}}, x: {}}
networks: {lan: {attach: [meter], subnet: 10.1.0.0/24}, n: {attach: [x], subnet: 10.2.0.0/24}}
duration: 1 s
";
        let experiment = Experiment::parse(text, "e.yaml", "").unwrap();
        let cell = experiment.cells(&crate::Only::all()).unwrap().remove(0);
        let clones = experiment.plan(&cell, 0, 1).unwrap().clones(0, 2, 99).unwrap();
        let addresses: Vec<_> = clones.iter().map(|t| t.links[0].address.to_string()).collect();
        assert_eq!(addresses, ["10.1.0.3", "10.1.0.5"]);
    }

    /// What failed: a clone had the Ethernet address of the second port of a bridge.
    #[test]
    fn twins_of_bridges_have_one_address_and_new_ports() {
        let text = "experiment: e
nodes: {s: {bridge: true, stp: true}, a: {}, b: {}, router: {forward: true}}
networks:
  left: {attach: [s, a, router], subnet: 10.0.0.0/24, vlans: {router: [10], a: 10}}
  right: {attach: [b, s], subnet: 10.0.0.0/24}
  ten: {switch: left, vlan: 10, subnet: 10.0.10.0/24}
";
        let parse = |text: &str| {
            let experiment = Experiment::parse(text, "e.yaml", "").unwrap();
            let cell = experiment.cells(&crate::Only::all()).unwrap().remove(0);
            experiment.plan(&cell, 0, 1).unwrap()
        };
        let plan = parse(text);
        let mut clones = plan.clones(0, 2, 99).unwrap();
        clones.extend(plan.clones(2, 1, 99).unwrap());
        let all = || plan.nodes.iter().chain(&clones[..2]).flat_map(|node| &node.links);
        let macs: std::collections::HashSet<_> =
            all().filter(|link| link.trunk.is_none()).map(|link| link.mac).collect();
        assert_eq!(macs.len(), 5 + 4, "{clones:#?}");
        for twin in &clones[..2] {
            assert_eq!(twin.links[0].address, twin.links[1].address);
        }
        let ports = |node: usize| &plan.nodes[node].links;
        assert_ne!(clones[2].links[0].mac, ports(0)[1].mac);
        // An interface of a VLAN has an address of its network and the Ethernet address of the trunk.
        let routers = plan.clones(3, 2, 99).unwrap();
        for router in &routers {
            let [trunk, vlan] = &router.links[..] else { panic!("{router:#?}") };
            assert_eq!((vlan.interface.as_str(), vlan.trunk.as_deref()), ("eth0.10", Some("eth0")));
            assert_eq!(vlan.mac, trunk.mac);
            assert_ne!(trunk.mac, ports(3)[0].mac);
            assert!(vlan.address.to_string().starts_with("10.0.10."), "{vlan:?}");
        }
        let addresses = |node: &crate::plan::PlannedNode| node.links[1].address;
        assert_ne!(addresses(&routers[0]), addresses(&routers[1]));
        assert_ne!(addresses(&routers[0]), addresses(&plan.nodes[3]));
        let without = parse(&text.replace(", stp: true", ""));
        assert!(without.clones(0, 1, 99).unwrap_err().contains("add `stp: true`"));
    }

    #[test]
    fn what_there_is_once_has_no_twin() {
        assert!(
            plan("subnet: 10.1.0.0/29").clones(1, 2, 99).unwrap_err().contains("no free address")
        );
        let served = plan("subnet: 10.1.0.0/24, dns: true");
        let services = served.nodes.len() - 1;
        assert!(served.clones(services, 1, 99).unwrap_err().contains("services"));
        let radio = plan("subnet: 10.1.0.0/16, channel: {csma: {path_loss: {}}}");
        assert_eq!(radio.clones(1, 995, 99).unwrap()[0].position, radio.nodes[1].position);
        let full = radio.clones(1, 996, 99).unwrap_err();
        assert_eq!(full, "`lan` has 5 nodes, and can have 1000 with `path_loss` or `pair_losses`");
        let netem = plan("subnet: 10.1.0.0/24, backend: netem");
        assert!(netem.clones(1, 1, 99).unwrap_err().contains("backend: netem"));
        assert!(netem.clones(99, 1, 99).is_err());
    }

    #[test]
    fn twins_leave_the_pool_of_a_dhcp_server_alone() {
        let mut plan = plan("subnet: 10.1.0.0/28, dhcp: true");
        let planned = plan.nodes.len();
        let (first, last) = plan.pool(&plan.networks[0], false).unwrap();
        assert_eq!((first.to_string(), last.to_string()), ("10.1.0.10".into(), "10.1.0.13".into()));
        let mut addresses = Vec::new();
        for _ in 0..4 {
            let twin = plan.clones(1, 1, planned).unwrap().remove(0);
            addresses.push(twin.links[0].address.to_string());
            plan.nodes.push(twin);
        }
        assert_eq!(addresses, ["10.1.0.6", "10.1.0.7", "10.1.0.8", "10.1.0.9"]);
        let full = plan.clones(1, 1, planned).unwrap_err();
        assert!(full.contains("no free address outside the pool of its DHCP server"), "{full}");
    }

    #[test]
    fn twins_of_clients_know_the_router_that_the_server_announces() {
        let text = "experiment: e
nodes: {border: {forward: true}, client: {address: dhcp}, x: {}}
networks: {lan: {attach: [border, client], subnet: [10.2.0.0/24, 'fd02::/64'], dhcp: true}}
edges: [[x, border]]
";
        let experiment = Experiment::parse(text, "e.yaml", "").unwrap();
        let cell = experiment.cells(&crate::Only::all()).unwrap().remove(0);
        let plan = experiment.plan(&cell, 0, 1).unwrap();
        let client = plan.nodes.iter().position(|node| node.name == "client").unwrap();
        let twin = plan.clones(client, 1, 99).unwrap().remove(0);
        assert_eq!(twin.gateway, Some("10.2.0.1".parse().unwrap()));
        assert_eq!(twin.gateway_ipv6, Some("fd02::1".parse().unwrap()));
    }
}
