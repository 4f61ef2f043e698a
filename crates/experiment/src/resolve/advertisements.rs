//! Checks router advertisements of networks.

use crate::file::File;
use crate::plan::{PlannedNetwork, PlannedNode, routers_of};
use crate::problem::Problem;
use crate::read::Sink;
use crate::resolve::networks::{Networks, Resolved};

/// Prefix length of IPv6 subnets in which hosts make addresses (RFC 4862): the interface identifier has
/// the other 64 bits (RFC 4291, section 2.5.1).
const PREFIX: u8 = 64;

/// Reports networks whose subnets make `advertise` useless.
pub(super) fn check(file: &File, networks: &Networks<'_>, sink: &mut Sink) {
    for network in &networks.networks {
        let typed = file.networks.as_ref().and_then(|all| all.get(network.name));
        let Some(at) = typed.and_then(|typed| typed.advertise.as_ref()).filter(|at| at.value)
        else {
            continue;
        };
        let (name, mut subnets) = (network.name, network.subnets.iter());
        match subnets.find(|subnet| subnet.is_ipv6()) {
            None => {
                let text = format!("`{name}` has `advertise` and no IPv6 subnet");
                let label = "add one, such as `fd00::/64`, or remove `advertise`";
                sink.add(Problem::new(text).at(at.place).label(label));
            }
            Some(subnet) if subnet.prefix() != PREFIX => {
                let text = format!("`{name}` has `advertise` and the subnet {subnet}");
                let label = format!(
                    "hosts make addresses of prefixes with the length {PREFIX}: use `{}/{PREFIX}`",
                    subnet.base()
                );
                sink.add(Problem::new(text).at(at.place).label(label));
            }
            Some(_) => {}
        }
    }
}

/// Reports networks with `advertise` and no router from which Thingbed can send advertisements.
pub(super) fn check_senders(
    file: &File,
    networks: &Networks<'_>,
    planned: &[PlannedNode],
    planned_networks: &[PlannedNetwork],
    sink: &mut Sink,
) {
    // Where `advertise` has no effect for another reason, that was reported.
    let has_prefix = |own: &&Resolved<'_>| {
        let mut ipv6 = own.subnets.iter().filter(|subnet| subnet.is_ipv6());
        ipv6.any(|subnet| subnet.prefix() == PREFIX)
    };
    for own in networks.networks.iter().filter(has_prefix).filter(|own| !own.served.nat) {
        let typed = file.networks.as_ref().and_then(|all| all.get(own.name));
        let at = typed.and_then(|typed| typed.advertise.as_ref()).filter(|at| at.value);
        let network = planned_networks.iter().find(|network| network.name == own.name);
        let (Some(at), Some(network)) = (at, network) else { continue };
        let routers = routers_of(planned, planned_networks, network);
        let keys = routers.iter().map(|(router, _)| (router, router.foreign_key()));
        let keys: Vec<_> = keys.collect();
        let problem = match keys.first() {
            None => {
                let text = format!("no router sends the advertisements of `{}`", own.name);
                let label = "attach a node with `forward: true` that is on another network, too";
                Problem::new(text).label(label)
            }
            // With `dhcp`, the node of the services sends them, and such a router may send its own.
            Some((first, Some(key))) if !own.served.dhcp => {
                if keys.iter().any(|(_, key)| key.is_none()) {
                    continue;
                }
                cannot_send(own.name, &first.group, key)
            }
            Some(_) => continue,
        };
        sink.add(problem.at(at.place));
    }
}

/// The problem of a network whose routers have kernels or files that are not Thingbed's.
fn cannot_send(network: &str, router: &str, key: &str) -> Problem {
    let text = format!(
        "no router sends the advertisements of `{network}`: `{router}` has `{key}`, and Thingbed starts \
         none there"
    );
    let label =
        "attach a router without `root`, `qemu`, `firmware` and `external`, or remove `advertise`";
    Problem::new(text).label(label).note(format!(
        "without `advertise`, a program of `{router}` can send them, such as radvd; nodes with \
         `address: slaac` cannot wait for it, because they have their addresses before programs start"
    ))
}

#[cfg(test)]
mod tests {
    use crate::test_plan::plan;

    const FILE: &str = "\
experiment: e
nodes: {a: {address: slaac}, r: {forward: true}, s: {forward: true}, b: {}}
networks:
  lan: {attach: [a, r, s], subnet: [10.0.0.0/24, 'fd00::/64'], advertise: true}
  far: {attach: [r, s, b], subnet: ['fd01::/64', 10.1.0.0/24]}
";

    #[test]
    fn hosts_learn_a_router_and_keep_their_planned_addresses() {
        let plan = plan(FILE).unwrap_or_else(|error| panic!("{error}"));
        let host = plan.node("a").unwrap();
        let link = &host.links[0];
        assert!(link.by_slaac && link.is_own(true) && !link.is_own(false));
        assert_eq!(link.second_address, Some("fd00::1".parse().unwrap()));
        assert_eq!(host.learned_gateways, ["fd00::2".parse::<std::net::IpAddr>().unwrap()]);
        // The route of IPv4 is the lab's.
        let routes = host.routes.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(routes, ["default via 10.0.0.2"]);
        assert_eq!(plan.routers(&plan.networks[0]).len(), 2);
        for part in ["fd00::1, by SLAAC", "routes by router advertisements: default via fd00::2"] {
            assert!(plan.to_string().contains(part), "{plan}");
        }
    }

    #[test]
    fn a_router_with_a_root_sends_no_advertisements() {
        let root = tempfile::tempdir().unwrap();
        let rooted = format!("r: {{forward: true, root: {}}}", root.path().display());
        let mixed = FILE.replace("r: {forward: true}", &rooted);
        assert!(plan(&mixed).is_ok(), "{:?}", plan(&mixed).err());
        let alone = mixed.replace("r, s", "r");
        let error = plan(&alone).unwrap_err();
        for part in ["`r` has `root`", "attach a router without `root`", "1 error in"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        // The server of the network sends some.
        let served = alone.replace("advertise: true", "advertise: true, dhcp: true");
        assert!(plan(&served).is_ok(), "{:?}", plan(&served).err());
    }

    #[test]
    fn mistakes_are_said_once() {
        for (from, to, message) in [
            (", 'fd00::/64'], adv", "], adv", "`lan` has `advertise` and no IPv6 subnet"),
            ("'fd00::/64'], adv", "'fd00::/80'], adv", "use `fd00::/64`"),
            (", advertise: true", "", "`a` gets no router advertisements"),
            ("r: {forward: true}, s: {forward: true}", "r: {}, s: {}", "no router sends"),
            (
                "a: {address: slaac}",
                "a: {address: slack}",
                "`slack` is not a way to assign addresses",
            ),
            (
                "a: {address: slaac}",
                "a: {address: slaac, firmware: [cat], tap: tap0}",
                "`firmware` with `address: slaac`",
            ),
        ] {
            let error = plan(&FILE.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(message) && error.contains("1 error in"), "{to}: {error}");
        }
    }
}
