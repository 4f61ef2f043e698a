//! What gateways (`nat`) reach from this machine.

use experiment::Plan;
use std::fs;

/// A warning if a gateway of `plan` is to forward IPv6 and this machine has no IPv6 route to other
/// networks.
pub(crate) fn warning(plan: &Plan) -> Option<String> {
    let routes = fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    if has_default_route(&routes) {
        return None;
    }
    let is_gateway = |node: &&experiment::PlannedNode| node.services.is_some_and(|own| own.nat);
    // A gateway without an IPv6 address translates IPv4 only.
    let links = plan.nodes.iter().filter(is_gateway).flat_map(|node| &node.links);
    let link = links.into_iter().find(|link| link.address_of(true).is_some())?;
    Some(format!(
        "the nodes of `{}` reach no IPv6 addresses outside this machine, because this machine has no IPv6 \
         default route; add one, or remove the IPv6 subnet",
        link.network
    ))
}

/// Whether a table of `/proc/net/ipv6_route` has a default route. The kernel adds one of the loopback
/// interface that rejects packets.
fn has_default_route(routes: &str) -> bool {
    routes.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // The second field is the length of the prefix, in hexadecimal.
        let is_default = fields.get(1) == Some(&"00");
        is_default && fields.last().is_some_and(|interface| *interface != "lo")
    })
}

#[cfg(test)]
mod tests {
    use super::has_default_route;

    #[test]
    fn a_default_route_is_one_of_an_interface() {
        let zero = "00000000000000000000000000000000";
        let line = |prefix: &str, interface: &str| {
            format!(
                "{zero} {prefix} {zero} 00 {zero} 00000400 00000001 00000000 00000003 {interface:>8}\n"
            )
        };
        assert!(has_default_route(&(line("40", "eth0") + &line("00", "eth0"))));
        assert!(!has_default_route(&(line("40", "eth0") + &line("00", "lo"))));
        assert!(!has_default_route("") && !has_default_route("\n0 \n"));
    }
}
