//! A plan for people to read.

use crate::plan::{Interaction, Plan, PlannedChannel, PlannedLink, PlannedNode, Workload};
use medium::{Distribution, Impairment, LossUnit};
use std::fmt;
use units::{Bytes, Span};

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
            let channel = match network.channel {
                PlannedChannel::Switch => "switch, full duplex".to_owned(),
                PlannedChannel::Shared(rate) => format!("shared half-duplex channel, {rate}"),
            };
            let (name, subnet, mtu) = (&network.name, network.subnet, network.mtu);
            writeln!(f, "\nnetwork {name}: {subnet}, MTU {mtu}, {channel}")?;
            for nodes in &groups {
                write_links(f, name, nodes)?;
            }
        }
        for workload in &self.workloads {
            match workload {
                Workload::Interaction(interaction) => write_interaction(f, interaction)?,
                Workload::Command(command) => {
                    writeln!(f, "\n{}: {}", command.name, command.run.join(" "))?;
                    let ends = if command.background { ", not waited for" } else { "" };
                    writeln!(f, "  on {}{ends}", ends_of(&command.on))?;
                    command.env.iter().try_for_each(|(key, v)| writeln!(f, "  {key}={v}"))?;
                }
            }
        }
        let (duration, drain) = (time(self.duration), time(self.drain));
        write!(f, "\nrun time: {duration}, then up to {drain} for what is on its way")?;
        write!(f, " (setting up: {} at most)", time(self.setup_limit))
    }
}

impl Plan {
    /// The nodes, cut into groups.
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
    if let Some(memory) = first.limits.memory {
        write!(f, ", {memory} of memory each")?;
    }
    writeln!(f)
}

fn write_links(f: &mut fmt::Formatter<'_>, network: &str, nodes: &[PlannedNode]) -> fmt::Result {
    let link = |node: &PlannedNode| -> Option<PlannedLink> {
        node.links.iter().find(|link| link.network == network).cloned()
    };
    let first = nodes.first().and_then(|node| Some((node, link(node)?)));
    let last = nodes.last().and_then(link);
    let (Some((node, first)), Some(last)) = (first, last) else { return Ok(()) };
    write!(f, "  {}: {} {}", node.group, first.interface, first.address)?;
    if nodes.len() > 1 {
        write!(f, " .. {}", last.address)?;
    }
    writeln!(f)?;
    writeln!(f, "    up:   {}", impairment(&first.up))?;
    writeln!(f, "    down: {}", impairment(&first.down))
}

fn write_interaction(f: &mut fmt::Formatter<'_>, plan: &Interaction) -> fmt::Result {
    let (name, model, down, up) = (&plan.name, &plan.model, plan.down, plan.up);
    writeln!(f, "\n{name}: {model}, {down} down, {up} up")?;
    writeln!(f, "  {} to {}, over {}", plan.source, ends_of(&plan.sinks), plan.network)?;
    writeln!(f, "  payload: {} ({} B)", plan.payload.display(), plan.payload_bytes)?;
    if plan.reply_payload != plan.payload {
        writeln!(f, "  answer: {}", plan.reply_payload.display())?;
    }
    let whom = if plan.down.is_to_all() { "each to all" } else { "each to the next" };
    let (messages, every, replies) = (plan.messages, time(plan.every), plan.replies());
    writeln!(f, "  {messages} messages, one in {every}, {whom}: {replies} answers")?;
    if plan.down == crate::InteractionPattern::PgmPublishSubscribe {
        writeln!(f, "  multicast rate: {}", plan.multicast_rate)?;
    }
    Ok(())
}

/// `consumer-1 .. consumer-300 (300)`.
fn ends_of(names: &[String]) -> String {
    match names {
        [] => "nobody".to_owned(),
        [first, _, _, .., last] => format!("{first} .. {last} ({})", names.len()),
        few => few.join(", "),
    }
}

/// What a direction does, in the words of the file.
fn impairment(asked: &Impairment) -> String {
    if asked.is_none() {
        return "nothing".to_owned();
    }
    let mut parts = Vec::new();
    if let Some(rate) = asked.rate {
        let burst = if asked.burst == Bytes::new(0) {
            String::new()
        } else {
            format!(" (burst {} B)", asked.burst.get())
        };
        parts.push(format!("{rate}{burst}, queue {}", asked.queue));
    }
    if asked.delay != Span::ZERO || asked.jitter != Span::ZERO {
        let mut delay = format!("delay {}", time(asked.delay));
        if asked.jitter != Span::ZERO {
            let shape = match asked.distribution {
                Distribution::Uniform => "",
                Distribution::Normal => " (normal)",
            };
            delay.push_str(&format!(" +/- {}{shape}", time(asked.jitter)));
            if asked.keep_order {
                delay.push_str(", order kept");
            }
        }
        parts.push(delay);
    }
    if asked.loss.fraction() > 0.0 {
        let unit = match asked.loss_unit {
            LossUnit::Frame => "frame",
            LossUnit::Train => "train",
        };
        parts.push(format!("loss {} a {unit}", asked.loss));
    }
    parts.join(", ")
}

/// A time in the unit that people would use.
fn time(span: Span) -> String {
    let ns = span.as_ns();
    match ns {
        0 => "0 s".to_owned(),
        n if n < 1_000_000 => span.to_string(),
        n if n < 1_000_000_000 => format!("{} ms", n as f64 / 1e6),
        n if n < 120_000_000_000 => format!("{} s", n as f64 / 1e9),
        n => format!("{} min", (n as f64 / 6e8).round() / 100.0),
    }
}
