//! Text form of a plan, for people.

use crate::exchange::Exchange;
use crate::load::{Contention, Device, Load, Probe, Requests};
use crate::mqtt::Mqtt;
use crate::plan::{
    BROKER_NAME, Backend, Interaction, MQTT_PORT, Plan, PlannedChange, PlannedChangeKind,
    PlannedNode, Workload,
};
use crate::plan_channel_text::channel_text;
use crate::plan_links_text::write_links;
use crate::plan_machine_text::write_programs;
use crate::plan_reception_text::write_reception;
use crate::plan_routes_text::write_routes;
use link::time_text as time;
use record::{Connection, ExchangeProtocol, InteractionPattern};
use std::fmt;
use units::Span;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cell, repeat, seed) = (&self.cell, self.repeat, self.seed);
        writeln!(f, "{}  {cell}  repeat {repeat}  seed {seed}", self.experiment)?;
        let groups = self.groups();
        writeln!(f, "\nnodes: {}", self.nodes.len())?;
        for nodes in &groups {
            write_group(f, nodes)?;
        }
        for network in &self.networks {
            let channel = channel_text(&network.channel);
            let subnets: Vec<_> = network.subnets().map(|subnet| subnet.to_string()).collect();
            let (name, subnet, mtu) = (&network.name, subnets.join(" and "), network.mtu);
            let by = if network.backend == Backend::Netem { ", impaired by netem" } else { "" };
            let vlan = network.vlan.as_ref();
            let vlan = vlan.map(|own| format!(", VLAN {} of {}", own.number, own.switch));
            let vlan = vlan.unwrap_or_default();
            let offload = if network.offload { ", segmentation offload" } else { "" };
            writeln!(f, "\nnetwork {name}: {subnet}{vlan}, MTU {mtu}, {channel}{offload}{by}")?;
            if let Some(broker) = &network.mqtt {
                let (kind, on) = (broker.broker, &broker.on);
                writeln!(f, "  MQTT broker: {kind} on {on}, `{BROKER_NAME}` port {MQTT_PORT}")?;
                if !broker.devices.is_empty() {
                    writeln!(f, "  gateways of clients: {}", ends_of(&broker.devices))?;
                }
            }
            for nodes in &groups {
                write_links(f, name, nodes)?;
            }
            write_reception(f, self, network)?;
            network.timetable.iter().try_for_each(|change| write_change(f, change))?;
        }
        for (number, workload) in self.workloads.iter().enumerate() {
            match workload {
                Workload::Interaction(interaction) => write_interaction(f, interaction)?,
                Workload::Mqtt(mqtt) => write_mqtt(f, mqtt, self.impairment_seed(), number)?,
                Workload::Exchange(exchange) => write_exchange(f, exchange)?,
                Workload::Load(load) => write_load(f, load)?,
                Workload::Device(device) => write_device(f, device)?,
                Workload::Probe(probe) => write_probe(f, probe)?,
                Workload::Command(command) => {
                    writeln!(f, "\n{}: {}", command.name, command.run.join(" "))?;
                    let ends = if command.background { ", no readiness check" } else { "" };
                    writeln!(f, "  on {}{ends}", ends_of(&command.on))?;
                    command.env.iter().try_for_each(|(key, v)| writeln!(f, "  {key}={v}"))?;
                }
            }
        }
        if !self.faults.is_empty() {
            writeln!(f, "\nfaults:")?;
        }
        for fault in &self.faults {
            writeln!(f, "  at {}: {} {}", time(fault.at), fault.what, ends_of(&fault.nodes))?;
        }
        let (duration, drain) = (time(self.duration), time(self.drain));
        write!(f, "\nrun time: {duration}, then at most {drain} for messages in flight")?;
        write!(f, " (setup: at most {})", time(self.setup_limit))
    }
}

impl Plan {
    /// Nodes, split by group.
    fn groups(&self) -> Vec<&[PlannedNode]> {
        self.nodes.chunk_by(|a, b| a.group == b.group).collect()
    }
}

fn write_group(f: &mut fmt::Formatter<'_>, nodes: &[PlannedNode]) -> fmt::Result {
    let Some(first) = nodes.first() else { return Ok(()) };
    let names: Vec<_> = nodes.iter().map(|node| node.name.clone()).collect();
    write!(f, "  {}: {}", first.group, ends_of(&names))?;
    if let Some(cpus) = first.limits.cpus {
        write!(f, ", {cpus} CPU each")?;
    }
    if let Some(cpu) = first.limits.cpu {
        write!(f, ", {cpu} each")?;
    }
    if let Some(memory) = first.limits.memory {
        write!(f, ", {memory} of memory each")?;
    }
    if let Some(cpus) = first.limits.reserved_cpus {
        write!(f, ", {cpus} CPU reserved")?;
    }
    if let Some(memory) = first.limits.reserved_memory {
        write!(f, ", {memory} of memory reserved")?;
    }
    if let Some(processes) = first.limits.processes {
        write!(f, ", {processes} processes each")?;
    }
    if let Some(output) = first.limits.output {
        write!(f, ", {output} of output each")?;
    }
    if let Some(storage) = first.limits.storage {
        write!(f, ", {storage} of storage each")?;
    }
    if !first.capabilities.is_empty() {
        write!(f, ", capabilities {}", first.capabilities.join(", "))?;
    }
    if first.privileged {
        write!(f, ", PRIVILEGED: the host is not protected from it")?;
    }
    if let Some(board) = &first.board {
        let name = if board.name.is_empty() { "custom" } else { &board.name };
        write!(f, ", board {name}")?;
    }
    if let Some(interface) = &first.external {
        write!(f, ", hardware behind {interface}")?;
    }
    if first.sets_mac
        && let Some(link) = first.links.first()
    {
        write!(f, ", Ethernet address {}", link.mac)?;
    }
    for device in &first.devices {
        write!(f, ", {}", device.display())?;
    }
    if let Some(offset) = first.clock_offset {
        write!(f, ", clock ahead by {}", time(offset))?;
    }
    if !first.cores.is_empty() {
        let cores: Vec<String> = first.cores.iter().map(u32::to_string).collect();
        write!(f, ", on the cores {}", cores.join(", "))?;
    }
    if let Some(services) = first.services {
        let has = [(services.nat, "gateway"), (services.dhcp, "DHCP"), (services.dns, "DNS")];
        let has: Vec<_> = has.iter().filter(|(has, _)| *has).map(|(_, what)| *what).collect();
        write!(f, ", {}", has.join(", "))?;
    }
    if first.forward {
        write!(f, ", forwards packets")?;
    }
    if let Some(bridge) = &first.bridge {
        let stp = if bridge.stp { " with STP" } else { "" };
        write!(f, ", bridge{stp} of {}", bridge.interfaces.join(", "))?;
    }
    if let Some(root) = &first.root {
        write!(f, ", root {}", root.path.display())?;
        root.image.iter().try_for_each(|image| write!(f, " ({image})"))?;
        root.platform.iter().try_for_each(|platform| write!(f, " for {platform}"))?;
    }
    writeln!(f)?;
    write_routes(f, nodes)?;
    write_programs(f, first)
}

fn write_interaction(f: &mut fmt::Formatter<'_>, plan: &Interaction) -> fmt::Result {
    let (name, model, down, up) = (&plan.name, &plan.model, plan.down, plan.up);
    writeln!(f, "\n{name}: {model}, {down} down, {up} up")?;
    writeln!(f, "  {} to {}, over {}", plan.source, ends_of(&plan.sinks), plan.network)?;
    writeln!(f, "  payload: {} ({} B)", plan.payload.display(), plan.payload_bytes)?;
    if plan.reply_payload != plan.payload {
        writeln!(f, "  answer: {}", plan.reply_payload.display())?;
    }
    let recipients = match (plan.down.is_to_all(), plan.fan_out.is_empty()) {
        (true, true) => "each to all",
        (true, false) => "each to some",
        (false, _) => "each to the next",
    };
    let (messages, every, replies) = (plan.messages, time(plan.every), plan.replies());
    writeln!(f, "  {messages} messages, one per {every}, {recipients}: {replies} answers")?;
    if plan.down == InteractionPattern::PgmPublishSubscribe {
        writeln!(f, "  multicast rate: {}", plan.multicast_rate)?;
    }
    Ok(())
}

fn write_mqtt(f: &mut fmt::Formatter<'_>, mqtt: &Mqtt, seed: u64, number: usize) -> fmt::Result {
    let (name, version, qos) = (&mqtt.name, mqtt.version.text(), mqtt.qos);
    let tls = if mqtt.tls.is_some() { " over TLS" } else { "" };
    let (broker, port, network) = (&mqtt.broker, mqtt.port, &mqtt.network);
    writeln!(f, "\n{name}: MQTT {version}{tls}, QoS {qos}, {}", mqtt.pattern.text())?;
    writeln!(f, "  broker {broker}, port {port}, over {network}")?;
    let (publishers, subscribers) = (ends_of(&mqtt.publishers), ends_of(&mqtt.subscribers));
    writeln!(f, "  publishers: {publishers}; subscribers: {subscribers}")?;
    writeln!(f, "  payload: {} ({} B)", mqtt.payload.display(), mqtt.payload_bytes)?;
    if let Some(join) = mqtt.join {
        writeln!(f, "  clients connect one per {}, {} in total", time(join), mqtt.clients().len())?;
    }
    let (messages, every) = (mqtt.schedule(seed, number).len(), time(mqtt.every));
    writeln!(f, "  {messages} messages, one per {every} after all clients have connected")
}

fn write_exchange(f: &mut fmt::Formatter<'_>, it: &Exchange) -> fmt::Result {
    write!(f, "\n{}: exchanges by {}", it.name, it.protocol.name())?;
    match &it.protocol {
        ExchangeProtocol::Udp | ExchangeProtocol::Tcp => {}
        ExchangeProtocol::Coap(coap) => {
            let text = |value: serde_json::Value| plain(&value);
            let transport = text(serde_json::to_value(coap.transport).unwrap_or_default());
            let method = text(serde_json::to_value(coap.method).unwrap_or_default());
            write!(f, " over {transport}, {method}, blocks of {} B", coap.block)?;
            let confirmed = if coap.confirmable { "confirmable" } else { "not confirmable" };
            write!(f, ", {confirmed}")?;
            for (is, what) in
                [(coap.observe, "observed"), (coap.group, "to a group"), (coap.q_block, "Q-Block")]
            {
                write!(f, "{}{}", if is { ", " } else { "" }, if is { what } else { "" })?;
            }
        }
        ExchangeProtocol::Mqtt(mqtt) => {
            write!(f, " {}, QoS {}", mqtt.version.text(), mqtt.qos)?;
        }
        ExchangeProtocol::Opcua(opcua) => {
            let variables = if opcua.variables == 1 { "variable" } else { "variables" };
            write!(f, ", {} {variables} per Read", opcua.variables)?;
        }
        ExchangeProtocol::Http(http) => {
            let method = plain(&serde_json::to_value(http.method).unwrap_or_default());
            write!(f, "/1.1, {method}")?;
        }
        ExchangeProtocol::Quic(quic) => {
            write!(f, "{}", if quic.early_data { ", early data" } else { "" })?;
        }
    }
    let tls = if it.tls.is_some() { ", TLS" } else { "" };
    let connection = match it.connection {
        Connection::New => "a new connection each",
        Connection::Kept => "persistent connections",
    };
    writeln!(f, "{tls}, {connection}")?;
    let (sources, sinks) = (ends_of(&it.sources), ends_of(&it.sinks));
    writeln!(f, "  {sources} to {sinks}, port {}, over {}", it.port, it.network)?;
    if !it.brokers.is_empty() {
        writeln!(f, "  broker: {}", ends_of(&it.brokers))?;
    }
    let sizes: Vec<String> = it.sizes.iter().map(|size| format!("{size} B")).collect();
    let (exchanges, pairs) = (it.exchanges(), it.pairs().len());
    writeln!(f, "  payload: {}; {} of each", ends_of(&sizes), it.repetitions)?;
    let (every, timeout) = (time(it.every), time(it.timeout));
    write!(f, "  {exchanges} exchanges by {pairs} pairs, one per {every}, timeout {timeout}")?;
    match it.warmup {
        0 => writeln!(f),
        each => writeln!(f, "; {each} warm-up exchanges of each pair, not counted"),
    }
}

fn write_load(f: &mut fmt::Formatter<'_>, load: &Load) -> fmt::Result {
    let kind = match load.users {
        Some(users) => format!("a closed loop of {users} users"),
        None => "an open loop".to_owned(),
    };
    let from = ends_of(&load.on);
    let made = match &load.requests {
        Requests::Trace(path) => {
            writeln!(f, "\n{}: {kind}, from the trace {}", load.name, path.display())?;
            return writeln!(f, "  sent by {from}, timeout {}", time(load.timeout));
        }
        Requests::Made(made) => made,
    };
    let network = load.network.as_deref().unwrap_or_default();
    writeln!(f, "\n{}: {kind} by {}", load.name, made.protocol.name())?;
    writeln!(f, "  {from} to {}, port {}, over {network}", ends_of(&made.to), made.port)?;
    let whose = if made.together { "all devices together" } else { "each device" };
    let count = made.count.map_or(String::new(), |count| format!(", at most {count} requests"));
    writeln!(f, "  {} for {whose}, {}{count}", made.arrivals, time(made.duration))?;
    for (what, mix) in [("method", &made.method), ("path", &made.path), ("size", &made.size)] {
        mix.iter().try_for_each(|mix| writeln!(f, "  {what}: {mix}"))?;
    }
    write_coap(f, load)?;
    writeln!(f, "  timeout {}", time(load.timeout))
}

/// Writes the CoAP options, if there are any.
fn write_coap(f: &mut fmt::Formatter<'_>, load: &Load) -> fmt::Result {
    let coap = &load.coap;
    let mut words = Vec::new();
    words.extend(load.confirmable.then(|| "confirmable".to_owned()));
    if coap.max_retransmit > 0 {
        let (times, first) = (coap.max_retransmit, time(coap.ack_timeout));
        let factor = coap.ack_random_factor;
        words.push(format!(
            "at most {times} retransmissions, the first after {first} to {factor} times that"
        ));
    }
    words.extend(coap.block.map(|size| format!("blocks of {size} B")));
    words.extend(coap.nstart.map(|most| format!("NSTART {most}")));
    words.extend(coap.observe.map(|span| format!("observed for {}", time(span))));
    if words.is_empty() { Ok(()) } else { writeln!(f, "  {}", words.join(", ")) }
}

fn write_device(f: &mut fmt::Formatter<'_>, device: &Device) -> fmt::Result {
    let ports =
        [("CoAP", device.coap), ("HTTP", device.http), ("UDP", device.udp), ("TCP", device.tcp)];
    let ports: Vec<String> = ports
        .iter()
        .filter_map(|(what, port)| Some(format!("{what} on port {}", (*port)?)))
        .collect();
    let (on, threads, queue) = (ends_of(&device.on), device.threads, device.queue);
    writeln!(f, "\n{}: devices, {}", device.name, ports.join(", "))?;
    let s = if threads == 1 { "" } else { "s" };
    writeln!(f, "  on {on}, {threads} thread{s}, queue of {queue}")?;
    device.resources.iter().take(20).try_for_each(|line| writeln!(f, "  {line}"))?;
    device.notify.iter().try_for_each(|notify| writeln!(f, "  values change: {notify}"))?;
    let more = device.resources.len().saturating_sub(20);
    if more > 0 { writeln!(f, "  and {more} more") } else { Ok(()) }
}

fn write_probe(f: &mut fmt::Formatter<'_>, probe: &Probe) -> fmt::Result {
    let (service, modes, every) =
        (time(probe.service()), probe.modes.join(" and "), time(probe.every));
    let cores = match &probe.cores[..] {
        [] => "on each core".to_owned(),
        [one] => format!("on core {one}"),
        some => {
            let some: Vec<String> = some.iter().map(u32::to_string).collect();
            format!("on the cores {}", some.join(", "))
        }
    };
    writeln!(f, "\n{}: probes, {modes} for {service}, {cores}", probe.name)?;
    let ends = match probe.contention {
        Contention::Report => "",
        Contention::Abort => ", and stops the run",
    };
    writeln!(f, "  on {}, one per {every}", ends_of(&probe.on))?;
    writeln!(f, "  more than {} longer counts as contention{ends}", probe.limit)
}

/// Formats a list of names: `consumer-1 .. consumer-300 (300)`.
fn ends_of(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        [first, _, _, .., last] => format!("{first} .. {last} ({})", names.len()),
        few => few.join(", "),
    }
}

/// Writes a change with the file's keys.
fn write_change(f: &mut fmt::Formatter<'_>, change: &PlannedChange) -> fmt::Result {
    write!(f, "  at {}: ", time(change.at))?;
    match &change.what {
        PlannedChangeKind::Set { nodes, ways, set, over } => {
            let values = link::Impairment::change_text(set);
            let ways = match ways[..] {
                [link::Direction::Up] => " up",
                [link::Direction::Down] => " down",
                _ => "",
            };
            write!(f, "{}{ways}: {}", ends_of(nodes), values)?;
            if *over == Span::ZERO { writeln!(f) } else { writeln!(f, ", over {}", time(*over)) }
        }
        PlannedChangeKind::Down { nodes, down } => {
            writeln!(f, "{} {}", ends_of(nodes), if *down { "down" } else { "up again" })
        }
        PlannedChangeKind::Multicast { passes: true } => writeln!(f, "multicast restored"),
        PlannedChangeKind::Multicast { passes: false } => writeln!(f, "multicast off"),
        PlannedChangeKind::Partition { parts } if parts.is_empty() => writeln!(f, "partition ends"),
        PlannedChangeKind::Partition { parts } => {
            let parts: Vec<_> = parts.iter().map(|part| ends_of(part)).collect();
            writeln!(f, "partition: {}", parts.join(" | "))
        }
    }
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
