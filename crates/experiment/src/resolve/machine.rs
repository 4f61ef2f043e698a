//! Resolves nodes that are machines.

use crate::file::{Addressing, ConsoleStep, File, Group, Qemu};
use crate::limits::ONE;
use crate::mac::Mac;
use crate::plan::PlannedMachine;
use crate::problem::Problem;
use crate::read::{At, Named, Sink};
use crate::resolve::architecture;
use crate::resolve::hardware::runs_on;
use crate::resolve::networks::Networks;
use crate::resolve::nodes::Nodes;
use crate::resolve::payload::near_file;
use crate::source::Place;
use std::collections::HashMap;
use std::path::Path;
use units::Span;

/// Memory of an emulated machine by default, in MiB.
/// It is QEMU's default, written out so that a plan does not depend on QEMU's version.
const MEMORY: u64 = 128;

/// The machine of node `index` of a group, counted from 0, on `networks` networks, if it is one. Its
/// problems were reported by [`check`].
pub(super) fn of(
    group: &Group,
    index: u64,
    networks: usize,
    base: &Path,
) -> Option<PlannedMachine> {
    let text = |at: &Option<At<String>>| at.as_ref().map(|at| at.value.clone());
    let step = |step: &ConsoleStep| record::spec::ConsoleStep {
        wait: text(&step.wait),
        pause_ns: pause(step, index).as_ns(),
        send: text(&step.send),
        keys: text(&step.keys),
        every_ns: step.every.as_ref().map_or(0, |at| at.value.as_ns()),
    };
    let steps = group.console.iter().flat_map(|console| &console.value.0).map(step).collect();
    if let Some(qemu) = &group.qemu {
        let taps: Vec<String> = (0..networks).map(|number| format!("tap{number}")).collect();
        let argv = qemu_line(&qemu.value, &taps, base);
        return Some(PlannedMachine { argv, taps, tun: None, is_emulated: true, steps });
    }
    let firmware = group.firmware.as_ref()?;
    let argv = firmware.value.iter().map(|word| word.value.clone()).collect();
    let taps = text(&group.tap).into_iter().collect();
    Some(PlannedMachine { argv, taps, tun: text(&group.tun), is_emulated: false, steps })
}

/// How long node `index` of the group waits before it enters `step`.
fn pause(step: &ConsoleStep, index: u64) -> Span {
    let of = |at: &Option<At<Span>>| at.as_ref().map_or(0, |at| at.value.as_ns());
    Span::from_ns(of(&step.pause).saturating_add(of(&step.stagger).saturating_mul(index)))
}

/// QEMU's command line, with placeholders for Ethernet addresses.
fn qemu_line(qemu: &Qemu, taps: &[String], base: &Path) -> Vec<String> {
    let arch = qemu.arch.as_ref().map_or("x86_64", |arch| &arch.value);
    let machine = match arch {
        "x86_64" | "i386" => "pc",
        _ => "virt",
    };
    let machine = qemu.machine.as_ref().map_or(machine, |machine| &machine.value);
    let memory = qemu.memory.as_ref().map_or(MEMORY, |at| at.value.get().div_ceil(1 << 20));
    let mut line = vec![format!("qemu-system-{arch}")];
    let mut add = |option: &str, value: String| line.extend([format!("-{option}"), value]);
    add("machine", machine.to_owned());
    add("m", format!("{memory}M"));
    let file = |at: &At<String>| full(base, &at.value);
    let options = [
        ("cpu", qemu.cpu.as_ref().map(|at| at.value.clone())),
        ("smp", qemu.cpus.as_ref().map(|at| at.value.to_string())),
        ("bios", qemu.bios.as_ref().map(file)),
        ("kernel", qemu.kernel.as_ref().map(file)),
        ("initrd", qemu.initrd.as_ref().map(file)),
        ("dtb", qemu.dtb.as_ref().map(file)),
        ("append", qemu.append.as_ref().map(|at| at.value.clone())),
    ];
    for (option, value) in options {
        if let Some(value) = value {
            add(option, value);
        }
    }
    if let Some(disk) = &qemu.disk {
        let path = file(disk);
        let format = if path.ends_with(".qcow2") { "qcow2" } else { "raw" };
        // In QEMU's lists, a comma within a value is doubled.
        let path = path.replace(',', ",,");
        // `snapshot=on`: what a run writes must not reach the next one, nor a second node.
        add("drive", format!("file={path},format={format},if=virtio,snapshot=on"));
    }
    let nic = qemu.nic.as_ref().map_or("virtio-net-pci", |nic| &nic.value);
    for (number, tap) in taps.iter().enumerate() {
        add(
            "netdev",
            // Without virtio-net headers QEMU hands over frames of the MTU with complete checksums,
            // as the emulator needs them (decision 49).
            format!("tap,id=net{number},ifname={tap},script=no,downscript=no,vnet_hdr=off"),
        );
        add("device", format!("{nic},netdev=net{number},mac={{eth{number}.mac}}"));
    }
    if taps.is_empty() {
        add("nic", "none".to_owned());
    }
    // The user's own configuration of QEMU would make the run another one elsewhere.
    line.extend(["-nographic", "-no-user-config"].map(str::to_owned));
    // Ctrl-C is for the machine.
    let console = "stdio,id=console,signal=off";
    for (option, value) in
        [("chardev", console), ("serial", "chardev:console"), ("monitor", "none")]
    {
        line.extend([format!("-{option}"), value.to_owned()]);
    }
    // A guest that escapes the emulator can start no programs.
    let sandbox = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
    line.extend(["-sandbox".to_owned(), sandbox.to_owned()]);
    line.extend(qemu.args.iter().flat_map(|args| &args.value).map(|word| word.value.clone()));
    line
}

fn full(base: &Path, path: &str) -> String {
    let full = base.join(path);
    std::path::absolute(&full).unwrap_or(full).display().to_string()
}

/// Checks groups that are machines, and keys that only those have.
pub(super) fn check(
    file: &File,
    nodes: &Nodes<'_>,
    networks: &Networks<'_>,
    base: &Path,
    sink: &mut Sink,
) {
    let mut macs = HashMap::new();
    for (name, _, group) in file.nodes.iter().flat_map(Named::iter) {
        check_mac(name, group, &mut macs, sink);
        let Some((key, place)) = kind(group) else {
            check_alone(group, sink);
            continue;
        };
        check_kinds(group, key, sink);
        check_networks(name, group, place, networks, sink);
        if let (Some(_), Some(address)) = (&group.tun, &group.address) {
            let problem = Problem::new("`tun` with `address`").at(address.place);
            let label = "remove it: DHCP and SLAAC need Ethernet frames; give the firmware its planned address by \
                         the placeholder `{address}`, or use `tap`";
            sink.add(problem.label(label));
        } else if let Some(address) = &group.address
            && address.value == Addressing::Slaac
            && group.has_own_stack()
        {
            let problem = Problem::new(format!("`{key}` with `address: slaac`")).at(address.place);
            let label = "remove it: the machine makes its address of advertisements itself, from its Ethernet \
                         address, and the plan would name another one";
            sink.add(problem.label(label));
        }
        if let Some(firmware) = &group.firmware
            && firmware.value.first().is_none_or(|program| program.value.is_empty())
        {
            let problem = Problem::new("`firmware` has no program").at(firmware.place);
            sink.add(problem.label("write for example `[./zephyr.exe]`"));
        }
        if let Some(qemu) = &group.qemu {
            check_qemu(&qemu.value, base, sink);
        }
        for (name, what) in [(&group.tap, "TAP"), (&group.tun, "tunnel")] {
            name.iter().for_each(|name| check_interface(name, what, sink));
        }
        check_ready(group, sink);
        check_console(group, sink);
    }
    for name in file.workloads.iter().flatten().flat_map(runs_on) {
        let group = nodes.find(name, &mut Sink::default()).map(|(group, _)| group.to_owned());
        let group = group.and_then(|group| file.nodes.as_ref()?.get(&group));
        if group.is_some_and(Group::has_own_stack) {
            let problem = Problem::new(format!("`{}` cannot run programs", name.value));
            sink.add(problem.at(name.place).label(
                "its interfaces belong to its machine: enter commands with `console`, or use \
                 another node",
            ));
        }
    }
}

/// The key that makes a group's nodes machines, and its position.
fn kind(group: &Group) -> Option<(&'static str, Place)> {
    let qemu = group.qemu.as_ref().map(|qemu| ("qemu", qemu.place));
    qemu.or_else(|| Some(("firmware", group.firmware.as_ref()?.place)))
}

/// Whether the nodes of a group are machines.
pub(super) fn is_one(group: &Group) -> bool {
    kind(group).is_some()
}

/// Reports keys that need a machine.
fn check_alone(group: &Group, sink: &mut Sink) {
    let of_console = group.ready.as_ref().and_then(|ready| ready.value.console.as_ref());
    let keys = [
        ("tap", group.tap.as_ref().map(|at| at.place)),
        ("tun", group.tun.as_ref().map(|at| at.place)),
        ("console", group.console.as_ref().map(|at| at.place)),
        ("ready: {console}", of_console.map(|at| at.place)),
    ];
    for (key, place) in keys.into_iter().filter_map(|(key, place)| Some((key, place?))) {
        let problem = Problem::new(format!("`{key}` without a machine")).at(place);
        sink.add(problem.label("add `firmware: [PROGRAM, ...]` or `qemu: {...}`"));
    }
}

/// Reports keys that exclude each other.
fn check_kinds(group: &Group, key: &str, sink: &mut Sink) {
    let both = (group.qemu.is_some() && group.firmware.is_some())
        .then_some(())
        .and_then(|()| group.firmware.as_ref().map(|at| at.place));
    let others = [
        ("firmware", both),
        ("tap", group.tap.as_ref().filter(|_| group.qemu.is_some()).map(|at| at.place)),
        ("tun", group.tun.as_ref().filter(|_| group.qemu.is_some()).map(|at| at.place)),
        ("run", group.run.as_ref().map(|at| at.place)),
        ("root", group.root.as_ref().map(|at| at.place)),
        ("external", group.external.as_ref().map(|at| at.place)),
        ("clock_offset", group.clock_offset.as_ref().map(|at| at.place)),
    ];
    if let (Some(_), Some(tun)) = (&group.tap, &group.tun) {
        let problem = Problem::new("`tap` and `tun` exclude each other").at(tun.place);
        sink.add(
            problem.label(
                "keep the one that the firmware opens: with `tun`, without Ethernet headers",
            ),
        );
    }
    for (other, place) in others.into_iter().filter_map(|(other, place)| Some((other, place?))) {
        let problem = Problem::new(format!("`{other}` and `{key}` exclude each other"));
        sink.add(problem.at(place).label("remove one of them"));
    }
}

fn check_networks(
    name: &str,
    group: &Group,
    place: Place,
    networks: &Networks<'_>,
    sink: &mut Sink,
) {
    let on: Vec<_> = networks.networks.iter().filter(|network| network.has(name)).collect();
    let port = [(&group.tap, "TAP"), (&group.tun, "tunnel")];
    let port = port.into_iter().find(|(name, _)| name.is_some());
    if let Some((_, what)) = port.filter(|_| networks.complete && on.len() != 1) {
        let text = format!("`{name}` has one {what}, and is attached to {} networks", on.len());
        sink.add(Problem::new(text).at(place).label("attach it to one network"));
    }
    if group.has_own_stack() && on.iter().any(|network| networks.has_offload(network.name)) {
        let text = format!("`{name}` is attached to a network with `offload`");
        let label = "remove `offload`: a machine's own adapter takes plain frames only";
        sink.add(Problem::new(text).at(place).label(label));
    }
}

fn check_interface(at: &At<String>, what: &str, sink: &mut Sink) {
    let name = &at.value;
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = !name.is_empty() && name.len() <= 15 && name.chars().all(fits);
    // The node's own interfaces and its bridges have these names (decision 100).
    if !is_name || name.starts_with("eth") || name.starts_with("br-") || name == "lo" {
        let problem = Problem::new(format!("`{name}` is not the name of a {what}")).at(at.place);
        let example = if what == "TAP" { "`tap0` or `zeth`" } else { "`tun0`" };
        sink.add(
            problem.label(format!("use the name that the firmware opens, for example {example}")),
        );
    }
}

/// Reports ports that the node's kernel does not know, because the machine has its own network stack.
fn check_ready(group: &Group, sink: &mut Sink) {
    let Some(ready) = group.ready.as_ref().filter(|_| group.has_own_stack()) else { return };
    let port = ready.value.tcp.as_ref().map(|at| at.place);
    if let Some(place) = port.or_else(|| Some(ready.value.udp.as_ref()?.place)) {
        let problem = Problem::new("`ready` with a port of a machine with its own network stack");
        sink.add(problem.at(place).label("use `ready: {console: TEXT}`"));
    }
}

/// Reports keys that would be pressed for ever, or never again.
fn check_console(group: &Group, sink: &mut Sink) {
    let Some(console) = &group.console else { return };
    let steps = &console.value.0;
    for (number, step) in steps.iter().enumerate() {
        let Some(every) = &step.every else { continue };
        let ends = steps.get(number + 1).is_some_and(|next| next.wait.is_some());
        let label = match (&step.keys, ends) {
            _ if every.value == Span::ZERO => "a time above 0 is needed, such as `0.5 s`",
            (None, _) => "this step needs `keys` to press",
            (_, false) => "the next step needs `wait`: its text ends the pressing",
            _ => continue,
        };
        let problem = Problem::new("`every` presses the keys of a step again").at(every.place);
        sink.add(problem.label(label));
    }
}

/// Checks the Ethernet address of the group `name`; `macs` has those of the groups before.
fn check_mac<'a>(name: &'a str, group: &Group, macs: &mut HashMap<Mac, &'a str>, sink: &mut Sink) {
    let Some(mac) = &group.mac else { return };
    match mac.value.parse::<Mac>() {
        Err(text) => sink.add(
            Problem::new(text).at(mac.place).label("write six bytes, such as `52:54:00:12:34:56`"),
        ),
        // Bit 0 of the first byte marks a group address (IEEE 802).
        Ok(Mac([first, ..])) if first & 1 == 1 => {
            let text = format!("`{}` is the address of a multicast group", mac.value);
            sink.add(Problem::new(text).at(mac.place).label("the first byte must be even"));
        }
        Ok(Mac([0, 0, 0, 0, 0, 0])) => {
            let text = format!("`{}` is no address of an interface", mac.value);
            let label = "write six bytes, such as `52:54:00:12:34:56`";
            sink.add(Problem::new(text).at(mac.place).label(label));
        }
        Ok(_) if group.count.as_ref().is_some_and(|count| count.value > 1) => {
            let problem = Problem::new("several nodes with one Ethernet address").at(mac.place);
            sink.add(problem.label("remove `count`, or make a group for each node"));
        }
        Ok(address) => {
            if let Some(other) = macs.insert(address, name) {
                let problem = Problem::new(format!("`{other}` has the same Ethernet address"));
                sink.add(problem.at(mac.place).label("change one of them"));
            }
        }
    }
}

fn check_qemu(qemu: &Qemu, base: &Path, sink: &mut Sink) {
    let word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    for (at, what) in [(&qemu.arch, "an architecture"), (&qemu.nic, "a network adapter")] {
        if let Some(at) =
            at.as_ref().filter(|at| at.value.is_empty() || !at.value.chars().all(word))
        {
            let problem = Problem::new(format!("`{}` is not the name of {what}", at.value));
            sink.add(problem.at(at.place).label("use QEMU's name, such as `arm` or `e1000`"));
        }
    }
    let arch = qemu.arch.as_ref().filter(|at| !at.value.is_empty() && at.value.chars().all(word));
    arch.into_iter().for_each(|arch| architecture::check(arch, sink));
    if let Some(cpus) = qemu.cpus.as_ref().filter(|cpus| u64::from(cpus.value) < ONE) {
        sink.add(Problem::new("0 processors").at(cpus.place).label("use 1 or more"));
    }
    if let Some(memory) = qemu.memory.as_ref().filter(|memory| memory.value.get() < 1 << 20) {
        let problem = Problem::new(format!("a machine with {} of memory", memory.value));
        sink.add(problem.at(memory.place).label("use 1 MiB or more"));
    }
    if let (Some(append), None) = (&qemu.append, &qemu.kernel) {
        let problem = Problem::new("`append` without `kernel`").at(append.place);
        sink.add(problem.label("add the file of the kernel"));
    }
    let files = [&qemu.bios, &qemu.kernel, &qemu.initrd, &qemu.dtb, &qemu.disk];
    for at in files.into_iter().flatten() {
        let full = base.join(&at.value);
        let Err(error) = input::open(&full, input::ANY_SIZE) else { continue };
        let text = format!("the file `{}` cannot be opened: {error}", at.value);
        let problem = Problem::new(text).at(at.place);
        // A file that exists is not misspelt.
        let near = if full.exists() { None } else { near_file(&full) };
        sink.add(problem.label(match near {
            Some(near) => {
                format!("did you mean `{}`?", Path::new(&at.value).with_file_name(near).display())
            }
            None if full.exists() => "use a regular file that you may read".to_owned(),
            None => "paths are relative to the experiment file".to_owned(),
        }));
    }
}
