//! Compose files: services become groups of nodes, networks become networks.

use super::compose_networks::{attach, networks};
use super::compose_order::{self, dependencies};
use super::limits::{count, limits, ready};
use super::names::{Names, Wanted, host_name};
use super::program;
use super::reader::{Reader, entries, get, is, list, text, variables};
use super::text::list as yaml_list;
use super::variables::Expanded;
use super::writer::{Draft, Group};
use crate::problem::Problem;
use crate::tree::{Key, Node};
use std::collections::HashSet;
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
    let name = get(root, "name").and_then(|name| {
        Some(reader.with_defaults(text(name)?, "the name of the project", name.place))
    });
    let name = name.or(folder.map(|name| name.into_owned())).unwrap_or_default();
    let mut draft = Draft { name: host_name(&name), ..Draft::default() };
    let network_names = networks(root, &mut draft, reader);
    let needed = Needed::by(&services);
    let mut services: Vec<Service<'_>> =
        services.into_iter().filter_map(|(key, node)| Service::of(key, node, reader)).collect();
    if services.is_empty() {
        return Err(Problem::new("the file has no service with replicas").at(root.place));
    }
    let wanted: Vec<Wanted<'_>> = services.iter().map(Service::wanted).collect();
    let names = Names::of_nodes(&wanted);
    for service in &mut services {
        let name = names.get(&service.key.text).unwrap_or_default();
        let mut group =
            Group { name: name.to_owned(), count: service.count.take(), ..Group::default() };
        service.describe(&mut group, host_programs, &mut draft, reader);
        service.schedule(&mut group, &needed, reader);
        attach(service.key, service.node, name, &network_names, &mut draft, reader);
        draft.groups.push(group);
    }
    let dependent: Vec<_> = services.iter().map(|one| (one.key, one.node)).collect();
    compose_order::set(&dependent, &mut draft.groups, reader);
    Ok(draft)
}

/// Services that others depend on.
#[derive(Default)]
struct Needed<'n> {
    /// Others wait until it has started.
    serving: HashSet<&'n str>,
    /// Others wait until it has ended.
    ending: HashSet<&'n str>,
}

impl<'n> Needed<'n> {
    fn by(services: &[(&'n Key, &'n Node)]) -> Self {
        let mut needed = Self::default();
        for depends in services.iter().filter_map(|(_, service)| get(service, "depends_on")) {
            for other in dependencies(depends) {
                let of = if other.is_end { &mut needed.ending } else { &mut needed.serving };
                of.insert(other.name);
            }
        }
        needed
    }
}

/// A service, with its number of nodes.
struct Service<'n> {
    key: &'n Key,
    node: &'n Node,
    what: String,
    count: Option<Expanded>,
}

impl<'n> Service<'n> {
    /// None if it has no replicas.
    fn of(key: &'n Key, node: &'n Node, reader: &mut Reader) -> Option<Self> {
        let what = format!("the service {}", key.text);
        let deploy = get(node, "deploy");
        let replicas = deploy.and_then(|deploy| get(deploy, "replicas")).or(get(node, "scale"));
        let count = replicas.and_then(|node| count(node, &what, reader));
        if count.as_ref().is_some_and(|count| count.plain.trim() == "0") {
            reader.note(key.place, format!("{what}: it has no replicas"));
            return None;
        }
        // A group of one node has a name without a number.
        let count = count.filter(|count| count.text.trim() != "1");
        Some(Self { key, node, what, count })
    }

    fn wanted(&self) -> Wanted<'n> {
        Wanted { foreign: &self.key.text, many: self.count.is_some() }
    }

    /// Sets what the group is: its root, program, limits and rights.
    fn describe(
        &self,
        group: &mut Group,
        host_programs: bool,
        draft: &mut Draft,
        reader: &mut Reader,
    ) {
        let Self { key, node, what, .. } = self;
        reader.unknown(node, what, &KNOWN);
        if group.name != key.text {
            reader.note(key.place, format!("the name {}: a node is `{}`", key.text, group.name));
        }
        notes(node, what, reader);
        if let Some(limits) = limits(node, what, reader) {
            group.keys.push(("limits", limits));
        }
        rights(node, what, group, reader);
        self.image(host_programs, group, draft, reader);
        self.program(group, reader);
    }

    /// The image as root file system.
    fn image(
        &self,
        host_programs: bool,
        group: &mut Group,
        draft: &mut Draft,
        reader: &mut Reader,
    ) {
        let what = &self.what;
        let built = get(self.node, "build");
        let image = get(self.node, "image");
        let Some(at) = image.or(built) else { return };
        if host_programs {
            let text = format!("the image of {what}: programs of this machine run instead");
            reader.note(at.place, text);
            return;
        }
        let name = image.and_then(text).map(str::to_owned);
        let name = name.unwrap_or_else(|| format!("{}-{}", draft.name, group.name));
        if let Some(built) = built {
            reader.note(built.place, format!("`build` of {what}: build the image {name} first"));
        }
        program::root(&name, what, at.place, group, draft, reader);
    }

    /// Entry point, command and variables.
    fn program(&self, group: &mut Group, reader: &mut Reader) {
        let what = &self.what;
        let mut of = |key: &str| match get(self.node, key) {
            Some(node) => program::words(node, &format!("`{key}` of {what}"), reader),
            None => Vec::new(),
        };
        let (entry, command) = (of("entrypoint"), of("command"));
        if group.has("root")
            && entry.is_empty()
            && !command.is_empty()
            && let Some(at) = get(self.node, "command")
        {
            let text =
                "replaces the image's entry point too: put the entry point in front of `run`";
            reader.note(at.place, format!("`command` of {what} {text}, if the image has one"));
        }
        let words = entry.into_iter().chain(command).collect();
        program::run(group, words, what, self.key.place, reader);
        let environment = get(self.node, "environment").map(variables).unwrap_or_default();
        for (name, value, place) in &environment {
            let (value, place) = (value.as_deref(), *place);
            let variable = program::Variable { name, value, place };
            program::variable(group, &variable, what, reader);
        }
        program::without_program(group, what, self.key.place, reader);
    }

    /// Decides if the program is part of the node or a workload that may end.
    fn schedule(&self, group: &mut Group, needed: &Needed<'_>, reader: &mut Reader) {
        let name = self.key.text.as_str();
        let ports = get(self.node, "ports");
        // Another service waits for it, so it serves; others may be done at some time.
        let serves = needed.serving.contains(name) || ports.is_some();
        let done = needed.ending.contains(name);
        let may_end = done || !serves && get(self.node, "restart").is_none();
        group.ends = may_end && !group.run.is_empty();
        if group.ends {
            return;
        }
        if done && group.has("root") {
            group.keys.push(("expect", "{exit: 0}".to_owned()));
        }
        let port = ports.and_then(|ports| ready(ports, &self.what, reader));
        if let Some(port) = port.filter(|_| group.has("root") || !group.run.is_empty()) {
            group.keys.push(("ready", format!("{{tcp: {port}}}")));
        }
    }
}

/// Notes keys that have no counterpart but are common.
fn notes(service: &Node, what: &str, reader: &mut Reader) {
    let texts = [
        (
            "ports",
            "ports are not published on the host: use `thingbed exec`, or a network with `nat: true`",
        ),
        ("volumes", "nodes see the files of their image or of the host, without volumes"),
        ("restart", "programs are not restarted: a program that ends is reported"),
        ("hostname", "a node's host name is its name"),
        ("devices", "name devices with `device:` by hand"),
    ];
    for (name, text) in texts {
        if let Some((key, _)) = entries(service).into_iter().find(|(key, _)| key.text == name) {
            reader.note(key.place, format!("`{name}` of {what}: {text}"));
        }
    }
    let mode = get(service, "network_mode");
    if let Some(mode) = mode.filter(|mode| text(mode) != Some("bridge")) {
        reader.note(mode.place, format!("`network_mode` of {what}: it is on the default network"));
    }
}

/// Capabilities, all or some.
fn rights(service: &Node, what: &str, group: &mut Group, reader: &mut Reader) {
    // A foreign text goes into the file only if it is the name of a capability.
    let known: HashSet<String> = caps::all().iter().map(ToString::to_string).collect();
    let (mut names, mut all) = (Vec::new(), is(service, "privileged"));
    for node in get(service, "cap_add").map(list).unwrap_or_default() {
        let given = reader.with_defaults(
            text(node).unwrap_or_default(),
            &format!("`cap_add` of {what}"),
            node.place,
        );
        let name = given.to_ascii_uppercase();
        let name = name.strip_prefix("CAP_").unwrap_or(&name);
        if name == "ALL" {
            let text = "it has all rights: its programs can do damage on this machine";
            reader.note(node.place, format!("`cap_add: ALL` of {what} is `privileged`: {text}"));
            all = true;
        } else if !known.contains(&format!("CAP_{name}")) {
            let text = format!("`cap_add` of {what}: there is no capability `{given}`");
            reader.note(node.place, text);
        } else if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    if !names.is_empty() {
        group.keys.push(("capabilities", yaml_list(&names)));
    }
    if all {
        group.keys.push(("privileged", "true".to_owned()));
    }
}
