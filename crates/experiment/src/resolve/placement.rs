//! The planned nodes: what the file says of them, and what their networks say.

use crate::file::{Addressing, Group};
use crate::mac::Mac;
use crate::plan::{PlannedLimits, PlannedLink, PlannedNode};
use crate::problem::Problem;
use crate::program::{Program, Ready};
use crate::read::{At, Named, Sink};
use crate::resolve::networks::Networks;
use crate::resolve::nodes::Nodes;
use crate::resolve::{
    after, boundary, bridges, cores, hardware, interfaces, machine, metrics, program_check,
    reception, routes, services,
};
use std::path::Path;

/// All nodes with their links and routes. `None` if one has more interfaces than a node can have: what
/// needs routes would only repeat that.
pub(super) fn planned(
    nodes: &Nodes<'_>,
    networks: &Networks<'_>,
    base: &Path,
    sink: &mut Sink,
) -> Option<Vec<PlannedNode>> {
    // Before the links, of which a file of thousands of networks has millions.
    interfaces::check_networks(nodes, networks, sink).then_some(())?;
    let mut planned = Vec::new();
    for group in nodes.counts.keys() {
        let typed = nodes.groups.and_then(|groups| groups.get(group));
        let limits = PlannedLimits { cpu: nodes.cpus.get(group).copied(), ..limits(typed) };
        let program = nodes.groups.and_then(|groups| program(groups.get(group)?, nodes));
        let typed = nodes.groups.and_then(|groups| groups.get(group));
        let source = typed.and_then(|typed| typed.address.as_ref());
        let source = source.map_or(Addressing::Planned, |at| at.value);
        let mac: Option<Mac> = typed.and_then(|typed| typed.mac.as_ref()?.value.parse().ok());
        for (index, name) in nodes.names(group).into_iter().enumerate() {
            let index = index as u64;
            let mut links = networks.links(group, index, source);
            let gateway = |is_ipv6| services::gateway(group, index, source, is_ipv6, networks);
            let (gateway, gateway_ipv6) = (gateway(false), gateway(true));
            let resolver = services::resolver(group, index, networks);
            let machine = typed.and_then(|typed| machine::of(typed, index, links.len(), base));
            if let (Some(mac), Some(first)) = (mac, links.first_mut()) {
                first.mac = mac;
            }
            let bridge = typed.and_then(|typed| bridges::of(typed, &mut links));
            let root = nodes.roots.get(group).cloned();
            let board = nodes.boards.get(group).cloned();
            let (group, program) = ((*group).to_owned(), program.clone());
            planned.push(PlannedNode {
                name,
                group,
                links,
                limits,
                board,
                external: typed.and_then(|group| Some(group.external.as_ref()?.value.clone())),
                devices: typed.map(hardware::devices).unwrap_or_default(),
                clock_offset: typed.and_then(|group| Some(group.clock_offset.as_ref()?.value)),
                cores: typed.map(cores::of).unwrap_or_default(),
                position: reception::position(typed, index),
                services: None,
                gateway,
                gateway_ipv6,
                learned_gateways: Vec::new(),
                forward: typed.is_some_and(routes::is_router),
                bridge,
                routes: Vec::new(),
                resolver,
                root,
                capabilities: typed.map(boundary::capabilities).unwrap_or_default(),
                privileged: typed.is_some_and(boundary::is_privileged),
                is_idle: typed.is_some_and(Group::is_idle),
                sets_mac: mac.is_some(),
                machine,
                program,
            });
        }
    }
    // Behind all others, whose numbers then do not depend on services.
    planned.extend(services::nodes(networks));
    interfaces::check_vlans(nodes, &planned, sink).then_some(())?;
    check_macs(nodes, &planned, sink);
    // Last, because routes lead over gateways, which are nodes of services.
    routes::add(nodes.groups, &mut planned, &networks.planned(), sink);
    Some(planned)
}

/// Reports Ethernet addresses of the file that are the planned one of another node on the network.
/// Groups with the same address in the file are reported with the groups.
fn check_macs(nodes: &Nodes<'_>, planned: &[PlannedNode], sink: &mut Sink) {
    for node in planned.iter().filter(|node| node.sets_mac) {
        let Some(own) = node.links.first() else { continue };
        let is_same = |link: &PlannedLink| link.network == own.network && link.mac == own.mac;
        let mut others = planned.iter().filter(|other| other.name != node.name && !other.sets_mac);
        let typed = nodes.groups.and_then(|groups| groups.get(&node.group)?.mac.as_ref());
        if let (Some(other), Some(at)) =
            (others.find(|other| other.links.iter().any(is_same)), typed)
        {
            let text =
                format!("`{}` has the same Ethernet address on `{}`", other.name, own.network);
            let label = "use another one, such as `52:54:00:12:34:56`";
            sink.add(Problem::new(text).at(at.place).label(label));
        }
    }
}

/// Limits and reservations of a group's nodes.
fn limits(group: Option<&Group>) -> PlannedLimits {
    let limits = group.and_then(|group| group.limits.as_ref());
    let reserve = group.and_then(|group| group.reserve.as_ref());
    PlannedLimits {
        cpus: limits.and_then(|limits| Some(limits.cpus.as_ref()?.value)),
        cpu: None,
        memory: limits.and_then(|limits| Some(limits.memory.as_ref()?.value)),
        reserved_cpus: reserve.and_then(|reserve| Some(reserve.cpus.as_ref()?.value)),
        reserved_memory: reserve.and_then(|reserve| Some(reserve.memory.as_ref()?.value)),
        processes: limits.and_then(|limits| Some(limits.processes.as_ref()?.value)),
        storage: limits.and_then(|limits| Some(limits.storage.as_ref()?.value)),
        output: limits.and_then(|limits| Some(limits.output.as_ref()?.value)),
    }
}

/// The `run` program of a group's nodes.
fn program(group: &Group, nodes: &Nodes<'_>) -> Option<Program> {
    // Without `run`, they apply to the image's program.
    let more = [
        group.ready.is_some(),
        group.env.is_some(),
        group.metrics.is_some(),
        group.after.is_some(),
        group.expect.is_some(),
    ];
    if group.is_idle() {
        return None;
    }
    let of_image = group.root.is_some() && more.contains(&true);
    let run = match &group.run {
        Some(run) => run.value.iter().map(|word| word.value.clone()).collect(),
        None if of_image || machine::is_one(group) => Vec::new(),
        None => return None,
    };
    let env = group.env.iter().flat_map(Named::iter);
    let port = |port: &At<u32>| port.value as u16;
    let ready = group.ready.as_ref().and_then(|ready| {
        let ready = &ready.value;
        let tcp = ready.tcp.as_ref().map(|at| Ready::Tcp(port(at)));
        let udp = || ready.udp.as_ref().map(|at| Ready::Udp(port(at)));
        let text = |at: &Option<At<String>>| at.as_ref().map(|at| at.value.clone());
        let log = || text(&ready.log).map(Ready::Log);
        tcp.or_else(udp).or_else(log).or_else(|| text(&ready.console).map(Ready::Console))
    });
    // Without steps a machine is ready at once: its console never reports that they are done.
    let has_steps = group.console.as_ref().is_some_and(|console| !console.value.0.is_empty());
    let ready = ready.or_else(|| has_steps.then_some(Ready::Steps));
    let env = env.map(|(key, _, value)| (key.to_owned(), value.value.clone())).collect();
    // Problems of these were reported with the group and would appear twice.
    let metrics = metrics::of(&group.metrics, &mut Sink::default());
    let check = program_check::of(&group.expect, &mut Sink::default());
    Some(Program { run, env, ready, after: after::of(group, nodes), metrics, check })
}
