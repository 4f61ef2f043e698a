//! Resolves a file to the plan of one cell, with all checks.

mod advertisements;
mod after;
mod all_networks;
mod architecture;
mod board;
mod boundary;
mod bridges;
mod broker;
mod capture;
mod checks;
mod context;
mod cores;
mod device;
mod directions;
mod exchange;
mod faults;
mod graph;
mod hardware;
mod interaction;
mod interfaces;
mod joined_services;
mod links;
mod load;
mod load_keys;
mod lowpan;
mod machine;
mod members;
mod metrics;
mod mqtt;
mod mtu;
mod netem;
mod networks;
mod nodes;
mod on_switch;
mod payload;
mod placeholders;
mod placement;
mod ports;
mod program_check;
mod reception;
mod root;
mod routes;
mod services;
mod stacks;
mod subnets;
mod taken;
mod timetable;
mod vlan_networks;
mod vlan_workloads;
mod vlans;
mod workloads;

use crate::file::File;
use crate::limits::ONE;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::read::{At, Sink};
pub(crate) use board::cpu_of;
use checks::{check_name, positive};
use context::Topology;
pub(crate) use directions::direction;
pub(crate) use mtu::is_mtu;
use networks::Networks;
use nodes::Nodes;
pub(crate) use nodes::{check_host_name, check_limits_of as check_limits};
pub(crate) use reception::MAX_STATIONS;
use record::Cell;
use std::path::Path;
pub(crate) use subnets::of_mac;
pub(crate) use timetable::changed_keys;
use units::Span;

const DRAIN: Span = Span::from_ns(30_000_000_000);
const SETUP_LIMIT: Span = Span::from_ns(60_000_000_000);
/// For experiments with emulated machines, which boot an operating system.
const SETUP_LIMIT_OF_MACHINES: Span = Span::from_ns(300_000_000_000);

/// The plan of `cell`, for repeat 0 and the file's seed. It is valid only if the sink stays empty.
pub(crate) fn resolve(file: &File, cell: &Cell, base: &Path, sink: &mut Sink) -> Plan {
    // Networks attach nodes, links and routes need networks, and workloads need routes to know
    // which nodes reach each other.
    let nodes = Nodes::of(file, base, sink);
    reception::check_counts(nodes.groups, sink);
    let networks = Networks::of(file, &nodes, base, sink);
    services::check(file, &networks, sink);
    hardware::check(file, &nodes, &networks, sink);
    machine::check(file, &nodes, &networks, base, sink);
    after::check(&nodes, sink);
    let duration = positive(&file.duration, "duration", sink);
    let span = |at: &Option<At<Span>>, other| at.as_ref().map_or(other, |at| at.value);
    let drain = span(&file.drain, DRAIN);
    let (mut planned_networks, planned) =
        (networks.planned(), placement::planned(&nodes, &networks, base, sink));
    let is_planned = planned.is_some();
    let planned = planned.unwrap_or_default();
    if is_planned && networks.complete {
        advertisements::check_senders(file, &networks, &planned, &planned_networks, sink);
    }
    broker::resolve(file, &nodes, &mut planned_networks, &planned, sink);
    let topology = Topology::of(&planned, &planned_networks);
    let (workloads, durations) = match is_planned {
        true => workloads::of(file, &nodes, &networks, &topology, duration, base, sink),
        false => Default::default(),
    };
    broker::check_workloads(file, &planned_networks, &workloads, sink);
    vlan_workloads::check(file, &topology, &workloads, sink);
    ports::check(file, &workloads, sink);
    if let Some(name) = &file.experiment {
        check_name(name, sink);
    }
    if let Some(repeats) = file.repeats.as_ref().filter(|at| u64::from(at.value) < ONE) {
        let problem = Problem::new("0 repeats: no run would start").at(repeats.place);
        sink.add(problem.label("use 1 or more"));
    }
    positive(&file.setup_limit, "setup_limit", sink);
    let has_machines =
        planned.iter().any(|node| node.machine.as_ref().is_some_and(|m| m.is_emulated));
    let setup_limit = if has_machines { SETUP_LIMIT_OF_MACHINES } else { SETUP_LIMIT };
    let plan = Plan {
        experiment: file.experiment.as_ref().map_or(String::new(), |name| name.value.clone()),
        cell: cell.clone(),
        seed: file.seed.as_ref().map_or(1, |seed| seed.value),
        repeat: 0,
        networks: planned_networks,
        nodes: planned,
        workloads,
        faults: faults::of(file, &nodes, base, sink),
        capture: capture::of(file, &nodes, sink),
        affinity: file.affinity.as_ref().is_some_and(|affinity| affinity.value),
        duration: duration.unwrap_or(Span::ZERO).max(durations.sending),
        // The longest wait of all interactions; those without a value use the experiment's.
        drain: durations.drain.into_iter().map(|own| own.unwrap_or(drain)).max().unwrap_or(drain),
        setup_limit: span(&file.setup_limit, setup_limit),
    };
    // A network that failed was reported; without it, a node would have no addresses.
    if networks.complete && is_planned {
        placeholders::check(file, &plan, sink);
    }
    plan
}
