//! The programs of network services: dnsmasq on a network's own node and on routers, and DHCP clients
//! on nodes with `address: dhcp`.

use crate::bed::advertisements;
use crate::bed::jobs::{Files, Job, Role};
use crate::bed::leases::{file_of_clones, lease_lines};
use crate::bed::uplink::NAME_SERVER;
use crate::error::Error;
use experiment::{Plan, PlannedLink, PlannedNode, PlannedServices, Ready};
use record::spec::{DhcpSpec, Spec};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const DNSMASQ: &str = "dnsmasq";
/// Port of DHCPv6 servers (RFC 8415, section 7.2).
const DHCPV6_PORT: u16 = 547;
/// The script of the DHCP client, as described in its manual.
const SCRIPT: &str = "#!/bin/sh
case $1 in bound|renew) ;; *) exit 0 ;; esac
busybox ip -4 addr flush dev $interface
busybox ip addr add $ip/$mask broadcast + dev $interface || exit 1
for gateway in $router; do
  busybox ip route replace default via $gateway ${METRIC:+metric $METRIC}; break
done
";
/// How long clients ask for their addresses, in s: servers run before them.
const PATIENCE: u32 = 20;
/// Time from the start of a bridge with STP until its ports forward frames, in s: listening and learning
/// for a forward delay of 15 s each (IEEE 802.1D-2004, table 17-1).
const SPANNING_TREE: u32 = 30;
/// The script's variable with the metric of the default route; without it, the route replaces others.
const METRIC: &str = "METRIC";

/// The programs of `plan`, with their files in `dir`; `workload` implements the DHCPv6 client.
pub(crate) fn programs(plan: &Plan, workload: &Path, dir: &Path) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    for (node, planned) in plan.nodes.iter().enumerate() {
        if let Some(services) = planned.services.filter(|services| services.dhcp || services.dns) {
            // Two servers: a single one would also resolve the names of its leases, even of nodes
            // that are long gone, because leases do not expire.
            for own in [
                PlannedServices { dns: false, ..services },
                PlannedServices { dhcp: false, ..services },
            ] {
                if own.dhcp || own.dns {
                    jobs.push(server(plan, node, own, services, dir)?);
                }
            }
        }
        if let Some(text) = advertisements::configuration(plan, planned) {
            let name = format!("{}.advertisements", planned.name);
            let mut job = dnsmasq(node, planned, &name, &text, dir)?;
            job.ready = Some(match advertisements::serves_dhcp(&text) {
                true => Ready::Udp(DHCPV6_PORT),
                // Without DHCP, dnsmasq has no port.
                false => Ready::Log(advertisements::READY.to_owned()),
            });
            jobs.push(job);
        }
        // A machine has its own client.
        let links = planned.links.iter().enumerate().filter(|_| !planned.has_own_stack());
        for (number, link) in links.filter(|(_, link)| link.by_dhcp || link.by_slaac) {
            let client = |version: &str, argv| {
                let name = format!("{}.dhcp{version}-{}", planned.name, link.interface);
                Job::new(node, planned, Role::Client, argv, dir, Files::named(dir, &name))
            };
            if link.by_dhcp && link.ipv4().is_some() {
                let mut job = client("", ipv4_client(link, patience(plan, link), dir)?);
                // Clients of several networks run at the same time: the planned route must win.
                if !leads_out(plan, planned, link) {
                    job.env.push((METRIC.to_owned(), number.max(1).to_string()));
                }
                jobs.push(job);
            }
            if link.address_of(true).is_some() {
                let mut job = client("v6", Vec::new());
                let patience_s = patience(plan, link);
                job.argv = ipv6_client(link, patience_s, workload, &job.files.spec)?;
                jobs.push(job);
            }
        }
    }
    Ok(jobs)
}

/// Whether the default route of IPv4 that the plan expects the node to learn leads over a link.
fn leads_out(plan: &Plan, node: &PlannedNode, link: &PlannedLink) -> bool {
    let gateway = node.learned_gateways.iter().find(|gateway| gateway.is_ipv4());
    let subnet = plan.network(&link.network).and_then(|network| network.ipv4());
    gateway.zip(subnet).is_none_or(|(gateway, subnet)| subnet.contains(*gateway))
}

/// How long the client of a link asks for its address, in s.
fn patience(plan: &Plan, link: &PlannedLink) -> u32 {
    let network = plan.network(&link.network);
    match network.is_some_and(|network| plan.has_spanning_tree(network)) {
        true => PATIENCE + SPANNING_TREE,
        false => PATIENCE,
    }
}

/// The command line of the DHCP client of IPv4.
fn ipv4_client(link: &PlannedLink, patience_s: u32, dir: &Path) -> Result<Vec<String>, Error> {
    let script = dir.join("dhcp.sh");
    if !script.exists() {
        fs::write(&script, SCRIPT).map_err(Error::write(&script))?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&script, mode).map_err(Error::write(&script))?;
    }
    // One lease without expiry: the client's work is done once it has it.
    // In the foreground, until it has a lease or has asked so often, a second apart.
    let times = patience_s.to_string();
    let argv = ["busybox", "udhcpc", "-f", "-q", "-n", "-t", &times, "-T", "1", "-i"];
    let rest = [&link.interface, "-s", &script.display().to_string()].map(str::to_owned);
    Ok(argv.into_iter().map(str::to_owned).chain(rest).collect())
}

/// The command line of the DHCP client of IPv6, which busybox does not have in all distributions.
fn ipv6_client(
    link: &PlannedLink,
    patience_s: u32,
    workload: &Path,
    spec: &Path,
) -> Result<Vec<String>, Error> {
    let advertised = link.slaac_address();
    let (interface, mac) = (link.interface.clone(), link.mac.0);
    let client = DhcpSpec { interface, mac, advertised, patience_s };
    let text = serde_json::to_vec(&client).unwrap_or_default();
    fs::write(spec, text).map_err(Error::write(spec))?;
    let argv = [workload, Path::new(DhcpSpec::PROGRAM), spec];
    Ok(argv.map(|word| word.display().to_string()).into())
}

/// The server for the part `own` of a network's `services`.
fn server(
    plan: &Plan,
    node: usize,
    own: PlannedServices,
    services: PlannedServices,
    dir: &Path,
) -> Result<Job, Error> {
    let planned = &plan.nodes[node];
    let name = match services.dhcp && own.dns {
        true => format!("{}.dns", planned.name),
        false => planned.name.clone(),
    };
    let mut text = configuration(plan, planned, own, services);
    if own.dhcp {
        let clones = file_of_clones(dir, &name);
        fs::write(&clones, "").map_err(Error::write(&clones))?;
        let _ = writeln!(text, "dhcp-hostsfile={}", clones.display());
    }
    let mut job = dnsmasq(node, planned, &name, &text, dir)?;
    let has_ipv4 = planned.links.iter().any(|link| link.ipv4().is_some());
    job.ready = Some(Ready::Udp(match (own.dns, has_ipv4) {
        // DNS (RFC 1035, section 4.2); DHCP servers (RFC 2131, section 4.1).
        (true, _) => 53,
        (false, true) => 67,
        (false, false) => DHCPV6_PORT,
    }));
    Ok(job)
}

/// A dnsmasq on a node with the configuration `text`.
fn dnsmasq(
    node: usize,
    planned: &PlannedNode,
    name: &str,
    text: &str,
    dir: &Path,
) -> Result<Job, Error> {
    let path = dir.join(format!("{name}.conf"));
    fs::write(&path, text).map_err(Error::write(&path))?;
    // It keeps its user and groups in this mode: a user's nodes have no others to change to.
    let argv = [DNSMASQ, "--no-daemon", "--log-facility=-"];
    let argv =
        argv.into_iter().map(str::to_owned).chain([format!("--conf-file={}", path.display())]);
    let files = Files::named(dir, name);
    let mut job = Job::new(node, planned, Role::Service, argv.collect(), dir, files);
    job.env.push(with_servers());
    Ok(job)
}

/// Whether a program is dnsmasq, which reads its hosts file again on SIGHUP.
pub(super) fn is_name_server(job: &Job) -> bool {
    job.argv.first().is_some_and(|program| program == DNSMASQ)
}

/// PATH with the folders of servers, which may be missing in a user's.
pub(super) fn with_servers() -> (String, String) {
    let path = std::env::var("PATH").unwrap_or_default();
    ("PATH".to_owned(), format!("{path}:/usr/sbin:/sbin"))
}

/// The dnsmasq configuration: leases, or name resolution from the hosts file.
fn configuration(
    plan: &Plan,
    own: &PlannedNode,
    does: PlannedServices,
    services: PlannedServices,
) -> String {
    let mut text = String::from("interface=eth0\nbind-interfaces\nno-resolv\nno-poll\n");
    let Some(link) = own.links.first() else { return text };
    let network = plan.network(&link.network);
    let mut line = |words: std::fmt::Arguments<'_>| {
        let _ = text.write_fmt(words);
        text.push('\n');
    };
    match does.dns {
        false => line(format_args!("port=0")),
        true if services.nat => line(format_args!("server={NAME_SERVER}")),
        true => {}
    }
    if let Some(network) = network.filter(|_| does.dhcp) {
        text.push_str(&lease_lines(plan, network, link, services));
    }
    text
}

#[cfg(test)]
#[path = "services_tests.rs"]
mod tests;
