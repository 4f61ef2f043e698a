//! Resolves nodes that are real hardware, and hardware devices of other nodes.

use crate::file::{File, Group, Workload};
use crate::plan::Backend;
use crate::problem::Problem;
use crate::read::{At, Named, Sink};
use crate::resolve::networks::Networks;
use crate::resolve::nodes::Nodes;
use crate::source::Place;
use std::path::{Component, Path, PathBuf};

/// Character devices of a group's nodes.
pub(super) fn devices(group: &Group) -> Vec<PathBuf> {
    let devices = group.device.iter().flat_map(|devices| &devices.value.0);
    devices.map(|device| PathBuf::from(&device.value)).collect()
}

/// Checks groups that are hardware or use hardware devices.
pub(super) fn check(file: &File, nodes: &Nodes<'_>, networks: &Networks<'_>, sink: &mut Sink) {
    for (name, _, group) in file.nodes.iter().flat_map(Named::iter) {
        for device in group.device.iter().flat_map(|devices| &devices.value.0) {
            if !is_device(&device.value) {
                let text = format!("`{}` is not the path of a device", device.value);
                sink.add(Problem::new(text).at(device.place).label(
                    "write for example \
                                                                    `/dev/ttyUSB0`",
                ));
            }
        }
        if let Some(interface) = &group.external {
            check_external(name, group, interface, networks, sink);
        }
    }
    for name in file.workloads.iter().flatten().flat_map(runs_on) {
        // An unknown name is reported where the workload is resolved.
        let discard = &mut Sink::default();
        let group = nodes.find(name, discard).map(|(group, _)| group.to_owned());
        let group = group.and_then(|group| file.nodes.as_ref()?.get(&group));
        if group.is_some_and(|group| group.external.is_some()) {
            let problem = Problem::new(format!("`{}` cannot run programs", name.value));
            sink.add(problem.at(name.place).label("it is real hardware (`external`)"));
        }
    }
}

/// Whether `path` is below /dev and has no `..`.
fn is_device(path: &str) -> bool {
    let path = Path::new(path);
    let plain = path.components().all(|p| matches!(p, Component::RootDir | Component::Normal(_)));
    path.starts_with("/dev") && path != Path::new("/dev") && plain
}

fn check_external(
    name: &str,
    group: &Group,
    interface: &At<String>,
    networks: &Networks<'_>,
    sink: &mut Sink,
) {
    let text = &interface.value;
    let fits = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
    // IFNAMSIZ of the kernel is 16, with the zero at the end.
    if text.is_empty() || text.len() > 15 || !text.chars().all(fits) {
        let problem = Problem::new(format!("`{text}` is not the name of an interface"));
        sink.add(problem.at(interface.place).label(
            "use an interface of the host, for example \
                                                    `eth1`",
        ));
    }
    let own: [(&str, Option<Place>); 14] = [
        ("count", group.count.as_ref().filter(|count| count.value > 1).map(|at| at.place)),
        ("run", group.run.as_ref().map(|at| at.place)),
        ("root", group.root.as_ref().map(|at| at.place)),
        ("cores", group.cores.as_ref().map(|at| at.place)),
        ("clock_offset", group.clock_offset.as_ref().map(|at| at.place)),
        ("address", group.address.as_ref().map(|at| at.place)),
        ("ready", group.ready.as_ref().map(|at| at.place)),
        ("after", group.after.as_ref().map(|at| at.place)),
        ("limits", group.limits.as_ref().map(|_| interface.place)),
        ("forward", group.forward.as_ref().map(|at| at.place)),
        ("routes", group.routes.as_ref().map(|at| at.place)),
        ("device", group.device.as_ref().map(|at| at.place)),
        ("capabilities", group.capabilities.as_ref().map(|at| at.place)),
        ("privileged", group.privileged.as_ref().map(|at| at.place)),
    ];
    for (key, place) in own.into_iter().filter_map(|(key, place)| Some((key, place?))) {
        let problem = Problem::new(format!("hardware nodes cannot have `{key}`")).at(place);
        sink.add(problem.label(
            "Thingbed cannot change real hardware, and each interface is one \
                                node",
        ));
    }
    let on: Vec<_> = networks.networks.iter().filter(|network| network.has(name)).collect();
    if networks.complete && on.len() != 1 {
        let text = format!("`{name}` is attached to {} networks", on.len());
        let problem = Problem::new(text).at(interface.place);
        sink.add(problem.label("attach it to one: an interface belongs to one network"));
    }
    if on.iter().any(|network| network.backend == Backend::Netem) {
        let problem = Problem::new(format!(
            "`{name}` is attached to a network with `backend: \
                                            netem`"
        ));
        sink.add(problem.at(interface.place).label(
            "remove `backend`: hardware nodes need Thingbed's \
                                               own emulation",
        ));
    }
}

/// Groups and nodes on which a workload runs programs.
pub(super) fn runs_on(workload: &Workload) -> Vec<&At<String>> {
    let mut names = Vec::new();
    if let Workload::Interaction(interaction) = workload {
        names.extend(&interaction.source);
        names.extend(interaction.sinks.iter().flat_map(|sinks| &sinks.value.0));
    }
    if let Workload::Mqtt(mqtt) = workload {
        // The broker may be hardware: Thingbed does not run its program.
        let clients = [&mqtt.publishers, &mqtt.subscribers].into_iter().flatten();
        names.extend(clients.flat_map(|clients| &clients.value.0));
    }
    if let Workload::Exchange(exchange) = workload {
        let sides = [&exchange.sources, &exchange.sinks].into_iter().flatten();
        names.extend(sides.flat_map(|side| &side.value.0));
    }
    if let Workload::Load(load) = workload {
        // Receivers may be hardware, such as a gateway under load.
        names.extend(load.on.iter().flat_map(|on| &on.value.0));
    }
    if let Workload::Device(device) = workload {
        names.extend(device.on.iter().flat_map(|on| &on.value.0));
    }
    if let Workload::Probe(probe) = workload {
        names.extend(probe.on.iter().flat_map(|on| &on.value.0));
    }
    if let Workload::Command(command) = workload {
        names.extend(command.on.iter().flat_map(|on| &on.value.0));
    }
    names
}
