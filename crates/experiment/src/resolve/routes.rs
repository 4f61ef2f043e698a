//! Resolves routers and routes: those between networks, and the file's.

use crate::destination::Destination;
use crate::file::{Group, Routes};
use crate::nearest::advice;
use crate::plan::{PlannedNetwork, PlannedNode, PlannedRoute, learned_gateways};
use crate::problem::Problem;
use crate::read::{At, Named, Sink};
use crate::resolve::graph;
use crate::source::Place;
use std::collections::HashMap;
use std::net::IpAddr;

/// Whether the group's nodes are routers.
pub(super) fn is_router(group: &Group) -> bool {
    group.forward.as_ref().is_some_and(|forward| forward.value)
}

/// Adds the routes of all nodes.
pub(super) fn add(
    groups: Option<&Named<Group>>,
    nodes: &mut [PlannedNode],
    networks: &[PlannedNetwork],
    sink: &mut Sink,
) {
    // Also without routers: a gateway by NAT is learned, too.
    let learned = learned_gateways(nodes, networks);
    for (node, learned) in nodes.iter_mut().zip(learned) {
        node.learned_gateways = learned;
    }
    if nodes.iter().any(|node| node.forward) {
        let routes = graph::routes(nodes, networks);
        for (node, routes) in nodes.iter_mut().zip(routes) {
            node.routes = routes;
        }
    }
    let own = groups.into_iter().flat_map(Named::iter);
    let own: Vec<_> =
        own.filter_map(|(group, _, typed)| Some((group, typed.routes.as_ref()?))).collect();
    if own.is_empty() {
        return;
    }
    let hops = Hops::of(nodes, networks);
    let mut changes = Vec::new();
    for (group, routes) in own {
        let members = nodes.iter().enumerate().filter(|(_, node)| node.group == group);
        let members: Vec<(usize, &PlannedNode)> = members.collect();
        match &routes.value {
            Routes::None => changes.extend(members.iter().map(|(number, _)| (*number, None))),
            Routes::Via(list) => {
                let mut before: Vec<Destination> = Vec::new();
                for (to, place, via) in list.iter() {
                    let to = At { value: to.to_owned(), place };
                    // One problem is enough: most nodes of a group are on the same networks.
                    let new = members.iter().map_while(|(number, node)| {
                        Some((*number, Some(hops.resolve(node, &to, via, sink)?)))
                    });
                    let new: Vec<(usize, Option<Vec<PlannedRoute>>)> = new.collect();
                    let first = new.first().and_then(|(_, routes)| routes.as_deref());
                    check_destinations(group, first.unwrap_or_default(), &mut before, place, sink);
                    changes.extend(new);
                }
            }
        }
    }
    for (number, change) in changes {
        apply(&mut nodes[number], change);
    }
}

/// Reports destinations that an entry before has in another form, such as `10.0.0.7/32` for
/// `10.0.0.7`: only one of both routes would remain.
fn check_destinations(
    group: &str,
    routes: &[PlannedRoute],
    before: &mut Vec<Destination>,
    place: Place,
    sink: &mut Sink,
) {
    for route in routes {
        if before.contains(&route.to) {
            let problem = Problem::new(format!("two routes of `{group}` to {}", route.to));
            sink.add(problem.at(place).label("remove one of them"));
        }
        before.push(route.to);
    }
}

/// Adds routes to a node, in place of those with the same destination. `None`: removes all.
fn apply(node: &mut PlannedNode, change: Option<Vec<PlannedRoute>>) {
    let Some(routes) = change else {
        (node.routes, node.gateway, node.gateway_ipv6) = (Vec::new(), None, None);
        return;
    };
    for route in routes {
        node.routes.retain(|own| own.to != route.to);
        // A route to all destinations replaces the gateway of its family.
        for gateway in [&mut node.gateway, &mut node.gateway_ipv6] {
            *gateway = gateway.filter(|via| route.to != Destination::all(via.is_ipv6()));
        }
        node.routes.push(route);
    }
}

/// Possible next hops.
struct Hops<'p> {
    /// The nodes by name.
    nodes: HashMap<&'p str, &'p PlannedNode>,
    networks: HashMap<&'p str, &'p PlannedNetwork>,
}

impl<'p> Hops<'p> {
    fn of(nodes: &'p [PlannedNode], networks: &'p [PlannedNetwork]) -> Self {
        Self {
            nodes: nodes.iter().map(|node| (node.name.as_str(), node)).collect(),
            networks: networks.iter().map(|network| (network.name.as_str(), network)).collect(),
        }
    }

    /// Whether two networks are the same, or a bridge joins them.
    fn are_joined(&self, one: &str, other: &str) -> bool {
        let network = |name| self.networks.get(name).copied();
        one == other || network(one).zip(network(other)).is_some_and(|(a, b)| a.is_joined_with(b))
    }

    /// The routes of an entry: one, or one of each family for `default`.
    fn resolve(
        &self,
        node: &PlannedNode,
        to: &At<String>,
        via: &At<String>,
        sink: &mut Sink,
    ) -> Option<Vec<PlannedRoute>> {
        let hops = self.next_hops(node, via, sink)?;
        let hop = |is_ipv6: bool| hops.iter().copied().find(|hop| hop.is_ipv6() == is_ipv6);
        if to.value == "default" {
            let families = [false, true].into_iter();
            let route =
                |is_ipv6| Some(PlannedRoute { to: Destination::all(is_ipv6), via: hop(is_ipv6)? });
            return Some(families.filter_map(route).collect());
        }
        let place = to.place;
        let to: Destination = match to.value.parse() {
            Ok(to) => to,
            Err(why) => {
                let problem = Problem::new(format!("a route to `{}`", to.value)).at(place);
                sink.add(problem.label(why));
                return None;
            }
        };
        let own = node.links.iter().filter_map(|link| self.networks.get(link.network.as_str()));
        let mut own =
            own.flat_map(|network| network.subnets().map(|subnet| (&network.name, subnet)));
        if let Some((name, _)) = own.find(|(_, subnet)| Destination::from(*subnet) == to) {
            let text =
                format!("a route of `{}` to {to}, the subnet of its network `{name}`", node.name);
            sink.add(Problem::new(text).at(place).label("remove it: its interface has this route"));
            return None;
        }
        let Some(via) = hop(to.is_ipv6()) else {
            let family = if to.is_ipv6() { "IPv6" } else { "IPv4" };
            let text =
                format!("a route to {to} via `{}`, which has no {family} address there", via.value);
            let label = "use a next hop of the same family on a network of the node";
            sink.add(Problem::new(text).at(place).label(label));
            return None;
        };
        Some(vec![PlannedRoute { to, via }])
    }

    /// Addresses of a next hop on a network of `node`: one, or one of each family.
    fn next_hops(
        &self,
        node: &PlannedNode,
        via: &At<String>,
        sink: &mut Sink,
    ) -> Option<Vec<IpAddr>> {
        let mut report = |text: String, label: String| {
            sink.add(Problem::new(text).at(via.place).label(label));
            None
        };
        let hops: Vec<IpAddr> = match via.value.trim().parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => {
                let Some(hop) = self.nodes.get(via.value.as_str()) else {
                    let text = format!("unknown next hop `{}`", via.value);
                    let mut names: Vec<&str> = self.nodes.keys().copied().collect();
                    // A hash map has no order, and errors should be the same each time.
                    names.sort_unstable();
                    return report(text, advice(&via.value, names));
                };
                let links = hop.links.iter().filter(|link| {
                    // A node shares all of its networks and is no next hop of itself.
                    hop.name != node.name
                        && node.links.iter().any(|own| self.are_joined(&own.network, &link.network))
                });
                links.flat_map(|link| link.addresses()).collect()
            }
        };
        let on = |hop: &IpAddr| {
            node.links.iter().find(|link| {
                let network = self.networks.get(link.network.as_str());
                network.is_some_and(|network| network.subnets().any(|subnet| subnet.contains(*hop)))
            })
        };
        let reachable: Vec<IpAddr> = hops.iter().copied().filter(|hop| on(hop).is_some()).collect();
        if reachable.is_empty() {
            let text = format!("the next hop `{}` is on no network of `{}`", via.value, node.name);
            return report(text, "use a node or an address on one of its networks".to_owned());
        }
        // The kernel refuses such routes (`ip route`: Nexthop has invalid gateway).
        if hops
            .iter()
            .any(|hop| node.links.iter().flat_map(|link| link.addresses()).any(|own| own == *hop))
        {
            let text = format!("the next hop `{}` is the node `{}` itself", via.value, node.name);
            return report(text, "use another address on one of its networks".to_owned());
        }
        let is_of_all = |hop: &IpAddr| {
            let subnets = on(hop).and_then(|link| self.networks.get(link.network.as_str()));
            let mut subnets = subnets.into_iter().flat_map(|network| network.subnets());
            hop.is_ipv4()
                && subnets.any(|subnet| subnet.contains(*hop) && subnet.index(*hop).is_none())
        };
        if reachable.iter().any(is_of_all) {
            let text = format!(
                "the next hop `{}` is the address of a network, or of all its nodes",
                via.value
            );
            return report(text, "use the address of one node".to_owned());
        }
        let by_dhcp = |hop: &IpAddr| on(hop).is_some_and(|link| link.is_own(hop.is_ipv6()));
        if reachable.iter().any(by_dhcp) {
            let text = format!(
                "a route of `{}` via `{}`, where the node gets its address itself",
                node.name, via.value
            );
            let label = "with `address: dhcp` or `slaac`, a node gets its routes from the network, too: remove one of both";
            return report(text, label.to_owned());
        }
        Some(reachable)
    }
}
