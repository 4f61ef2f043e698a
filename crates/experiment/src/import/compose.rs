//! Compose files: services become groups of nodes, networks become networks.

use super::command::{with_variables, words};
use super::reader::{Reader, entries, get, is, list, text, text_of, variables};
use super::writer::{Draft, Group, Network, host_name, list as yaml_list, scalar};
use crate::problem::Problem;
use crate::tree::{Content, Key, Node};
use std::path::Path;

/// Keys of a service that are carried over, or that need no counterpart.
const KNOWN: [&str; 21] = [
    "image",
    "build",
    "command",
    "entrypoint",
    "environment",
    "networks",
    "network_mode",
    "deploy",
    "scale",
    "cpus",
    "mem_limit",
    "ports",
    "expose",
    "depends_on",
    "hostname",
    "container_name",
    "cap_add",
    "privileged",
    "devices",
    "volumes",
    "restart",
];

pub(super) fn convert(
    root: &Node,
    file: &Path,
    host_programs: bool,
    reader: &mut Reader,
) -> Result<Draft, Problem> {
    let known = ["version", "name", "services", "networks", "volumes"];
    reader.unknown(root, "the file", &known);
    let services = get(root, "services").map(entries).unwrap_or_default();
    if services.is_empty() {
        return Err(Problem::new("the file has no services").at(root.place));
    }
    // By convention, the name of a project is that of its folder.
    let folder = std::path::absolute(file).unwrap_or_default();
    let folder = folder.parent().and_then(Path::file_name).map(|name| name.to_string_lossy());
    let name = text_of(root, "name").map(str::to_owned).or(folder.map(|name| name.into_owned()));
    let mut draft = Draft { name: host_name(&name.unwrap_or_default()), ..Draft::default() };
    networks(root, &mut draft, reader);
    let needed = needed(&services);
    for (key, service) in services {
        let mut group = service_group(key, service, host_programs, &mut draft, reader);
        // Another service waits for it, so it serves; others may be done at some time.
        let serves = needed.contains(&key.text) || get(service, "ports").is_some();
        group.ends = !serves && !group.run.is_empty() && get(service, "restart").is_none();
        attach(key, service, &group.name, &mut draft, reader);
        draft.groups.push(group);
    }
    draft.networks.retain(|network| !network.attach.is_empty());
    Ok(draft)
}

/// Services that others depend on.
fn needed(services: &[(&Key, &Node)]) -> Vec<String> {
    let of = |service: &Node| -> Vec<String> {
        let Some(depends) = get(service, "depends_on") else { return Vec::new() };
        match &depends.content {
            Content::Map(_) => entries(depends).iter().map(|(key, _)| key.text.clone()).collect(),
            _ => list(depends).into_iter().filter_map(text).map(str::to_owned).collect(),
        }
    };
    services.iter().flat_map(|(_, service)| of(service)).collect()
}

/// The networks of the file, and the default one, in this order.
fn networks(root: &Node, draft: &mut Draft, reader: &mut Reader) {
    let named = get(root, "networks").map(entries).unwrap_or_default();
    let default = named.iter().all(|(key, _)| key.text != "default");
    let mut number = 0;
    for (key, network) in &named {
        reader.unknown(network, &format!("the network {}", key.text), &["ipam", "driver", "name"]);
        let subnet = get(network, "ipam").and_then(|ipam| get(ipam, "config"));
        let subnet =
            subnet.and_then(|config| list(config).into_iter().find_map(|c| text_of(c, "subnet")));
        let subnet = subnet.filter(|subnet| !subnet.contains(':')).map(str::to_owned);
        draft.networks.push(Network {
            name: key.text.clone(),
            subnet: subnet.unwrap_or_else(|| next_subnet(&mut number)),
            ..Network::default()
        });
    }
    if default {
        let (name, subnet) = ("default".to_owned(), next_subnet(&mut number));
        draft.networks.push(Network { name, subnet, ..Network::default() });
    }
}

fn next_subnet(number: &mut u32) -> String {
    *number += 1;
    format!("10.{number}.0.0/24")
}

/// A service as a group of nodes.
fn service_group(
    key: &Key,
    service: &Node,
    host_programs: bool,
    draft: &mut Draft,
    reader: &mut Reader,
) -> Group {
    let what = format!("the service {}", key.text);
    reader.unknown(service, &what, &KNOWN);
    let mut group = Group { name: host_name(&key.text), ..Group::default() };
    if group.name != key.text {
        reader.note(key.place, format!("the name {}: a node is `{}`", key.text, group.name));
    }
    notes(key, service, &what, reader);
    let deploy = get(service, "deploy");
    let replicas = deploy.and_then(|deploy| get(deploy, "replicas")).or(get(service, "scale"));
    group.count = replicas.and_then(text).map(with_variables).filter(|count| count != "1");
    if let Some(limits) = limits(service, deploy) {
        group.keys.push(("limits", limits));
    }
    if let Some(added) = get(service, "cap_add") {
        let names = list(added).into_iter().filter_map(text);
        let names: Vec<String> =
            names.map(|name| name.trim_start_matches("CAP_").to_owned()).collect();
        group.keys.push(("capabilities", yaml_list(&names)));
    }
    if is(service, "privileged") {
        group.keys.push(("privileged", "true".to_owned()));
    }
    image(service, &what, host_programs, &mut group, draft, reader);
    program(service, &what, host_programs, &mut group, reader);
    if let Some(port) = get(service, "ports").and_then(first_port) {
        group.keys.push(("ready", format!("{{tcp: {port}}}")));
    }
    group
}

/// Notes keys that have no counterpart but are common.
fn notes(key: &Key, service: &Node, what: &str, reader: &mut Reader) {
    let texts = [
        (
            "ports",
            "ports are not published on the host: use `thingbed exec`, or a network with `nat: true`",
        ),
        ("volumes", "nodes see the files of their image or of the host, without volumes"),
        ("restart", "programs are not restarted: a program that ends is reported"),
        ("hostname", "a node's host name is its name"),
        ("depends_on", "all nodes start together; workloads start when all nodes are `ready`"),
        ("devices", "name devices with `device:` by hand"),
    ];
    for (name, text) in texts {
        if let Some((own, _)) = entries(service).into_iter().find(|(own, _)| own.text == name) {
            reader.note(own.place, format!("`{name}` of {what}: {text}"));
        }
    }
    let mode = get(service, "network_mode");
    if let Some(mode) = mode.filter(|mode| text(mode) != Some("bridge")) {
        reader.note(mode.place, format!("`network_mode` of {what}: it is on the default network"));
    }
    let _ = key;
}

/// Limits of CPU and memory.
fn limits(service: &Node, deploy: Option<&Node>) -> Option<String> {
    let resources = deploy.and_then(|deploy| get(get(deploy, "resources")?, "limits"));
    let of = |key: &str, old: &str| {
        resources.and_then(|limits| text_of(limits, key)).or_else(|| text_of(service, old))
    };
    let cpus = of("cpus", "cpus").map(|cpus| format!("cpus: {}", scalar(cpus)));
    let memory = of("memory", "mem_limit").and_then(memory).map(|size| format!("memory: {size}"));
    let all: Vec<String> = cpus.into_iter().chain(memory).collect();
    (!all.is_empty()).then(|| format!("{{{}}}", all.join(", ")))
}

/// A size such as `64m`, in powers of 1024.
fn memory(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let unit = lower.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &lower[..lower.len() - unit.len()];
    let unit = match unit.trim_end_matches('b') {
        "" => "B",
        "k" => "KiB",
        "m" => "MiB",
        "g" => "GiB",
        _ => return None,
    };
    (!number.is_empty()).then(|| format!("{number} {unit}"))
}

/// The image as root file system.
fn image(
    service: &Node,
    what: &str,
    host_programs: bool,
    group: &mut Group,
    draft: &mut Draft,
    reader: &mut Reader,
) {
    let built = get(service, "build");
    let image = text_of(service, "image").map(str::to_owned);
    let image = image.or_else(|| built.map(|_| format!("{}-{}", draft.name, group.name)));
    let Some(image) = image else { return };
    if host_programs {
        let place = get(service, "image").or(built).map_or(service.place, |node| node.place);
        reader.note(place, format!("the image of {what}: programs of this machine run instead"));
        return;
    }
    if let Some(built) = built {
        reader.note(built.place, format!("`build` of {what}: build the image {image} first"));
    }
    let archive = draft.archive(&image);
    group.keys.push(("root", scalar(&archive)));
}

/// Entry point, command and variables.
fn program(
    service: &Node,
    what: &str,
    host_programs: bool,
    group: &mut Group,
    reader: &mut Reader,
) {
    let split = |key: &str| -> Vec<String> {
        let Some(value) = get(service, key) else { return Vec::new() };
        match &value.content {
            Content::Scalar(text) => words(text),
            _ => list(value).into_iter().filter_map(text).map(str::to_owned).collect(),
        }
    };
    let (entry, command) = (split("entrypoint"), split("command"));
    if !host_programs
        && entry.is_empty()
        && !command.is_empty()
        && let Some(at) = get(service, "command")
    {
        let text = "replaces the image's entry point too: put the entry point in front of `run`";
        reader.note(at.place, format!("`command` of {what} {text}, if the image has one"));
    }
    group.run = entry.into_iter().chain(command).map(|word| with_variables(&word)).collect();
    for (name, value, _) in get(service, "environment").map(variables).unwrap_or_default() {
        let value =
            value.map_or_else(|| format!("${{env:{name}:-}}"), |text| with_variables(&text));
        group.env.push((name, value));
    }
}

/// The first TCP port in the container.
fn first_port(ports: &Node) -> Option<u16> {
    list(ports).into_iter().find_map(|port| {
        let text = match text_of(port, "target") {
            Some(target) if text_of(port, "protocol").is_none_or(|p| p == "tcp") => target,
            Some(_) => return None,
            None => text(port)?,
        };
        let inside = text.rsplit(':').next()?;
        inside.strip_suffix("/tcp").unwrap_or(inside).parse().ok()
    })
}

/// Attaches the nodes of a service to its networks.
fn attach(key: &Key, service: &Node, group: &str, draft: &mut Draft, reader: &mut Reader) {
    let own: Vec<String> = match get(service, "networks") {
        None => vec!["default".to_owned()],
        Some(names) => match &names.content {
            Content::Map(_) => {
                for (network, keys) in entries(names) {
                    let what = format!("{} on the network {}", key.text, network.text);
                    reader.unknown(keys, &what, &[]);
                }
                entries(names).into_iter().map(|(network, _)| network.text.clone()).collect()
            }
            _ => list(names).into_iter().filter_map(text).map(str::to_owned).collect(),
        },
    };
    for name in own {
        match draft.networks.iter_mut().find(|network| network.name == name) {
            Some(network) => network.attach.push(group.to_owned()),
            None => reader.note(key.place, format!("the network {name}: the file has none")),
        }
    }
}
