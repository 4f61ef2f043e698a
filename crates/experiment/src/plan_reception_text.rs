//! Text form of the radio links of a plan.

use crate::plan::{Plan, PlannedNetwork, PlannedNode};
use link::{Channel, LoraSpec, Reception};
use std::fmt;

/// The longest list of radio links.
const MAX_LINES: usize = 60;
/// Links that lose more than this share of their frames are not listed.
const LEAST_SUCCESS: f64 = 1e-3;

/// The pairs of nodes of a network that hear each other, with the loss between them.
pub(crate) fn write_reception(
    f: &mut fmt::Formatter<'_>,
    plan: &Plan,
    network: &PlannedNetwork,
) -> fmt::Result {
    let Some(reception) = plan.reception(network) else { return Ok(()) };
    let members: Vec<&PlannedNode> = plan.members(network).collect();
    if matches!(network.channel, Channel::Aloha(_)) {
        return write_gateways(f, network, &reception, &members);
    }
    // An Ethernet header around the longest packet, as the channel counts it.
    let len = network.mtu.get() as usize + 14;
    let pairs = (0..members.len()).flat_map(|a| (a + 1..members.len()).map(move |b| [a, b]));
    let links: Vec<_> = pairs.filter_map(|pair| link(&reception, &members, len, pair)).collect();
    writeln!(f, "  radio links, with the loss of frames of {len} B: {}", links.len())?;
    for line in links.iter().take(MAX_LINES) {
        writeln!(f, "    {line}")?;
    }
    if links.len() > MAX_LINES {
        writeln!(f, "    and {} more", links.len() - MAX_LINES)?;
    }
    let alone =
        |station: &usize| (0..members.len()).all(|to| !exists(&reception, *station, to, len));
    let alone: Vec<&str> =
        (0..members.len()).filter(alone).map(|station| members[station].name.as_str()).collect();
    write_alone(f, &alone)
}

/// The levels of LoRa devices at the gateways that receive them.
fn write_gateways(
    f: &mut fmt::Formatter<'_>,
    network: &PlannedNetwork,
    reception: &Reception,
    members: &[&PlannedNode],
) -> fmt::Result {
    let lora = |place: usize| -> Option<&LoraSpec> {
        let link = members[place].links.iter().find(|link| link.network == network.name)?;
        link.up.transmission.lora()
    };
    let (devices, gateways): (Vec<_>, Vec<_>) =
        (0..members.len()).partition(|place| lora(*place).is_some());
    let received = |(device, gateway): (usize, usize)| {
        let level = reception.level(device, gateway)?;
        let spec = lora(device).filter(|spec| level >= spec.sensitivity())?;
        let (from, to) = (&members[device].name, &members[gateway].name);
        Some(format!("{from} - {to}: SF{}, {level:.1} dBm", spec.spreading_factor))
    };
    let pairs = |device| gateways.iter().map(move |gateway| (device, *gateway));
    let links: Vec<_> =
        devices.iter().flat_map(|device| pairs(*device)).filter_map(received).collect();
    writeln!(f, "  devices and gateways that receive them: {}", links.len())?;
    for line in links.iter().take(MAX_LINES) {
        writeln!(f, "    {line}")?;
    }
    if links.len() > MAX_LINES {
        writeln!(f, "    and {} more", links.len() - MAX_LINES)?;
    }
    let is_alone = |device: &&usize| pairs(**device).find_map(received).is_none();
    let alone: Vec<&str> =
        devices.iter().filter(is_alone).map(|device| members[*device].name.as_str()).collect();
    write_alone(f, &alone)
}

/// The nodes without a radio link.
fn write_alone(f: &mut fmt::Formatter<'_>, alone: &[&str]) -> fmt::Result {
    match alone.len() {
        0 => Ok(()),
        1..=10 => writeln!(f, "    without a link: {}", alone.join(", ")),
        more => writeln!(f, "    without a link: {more} nodes, such as {}", alone[0]),
    }
}

fn exists(reception: &Reception, from: usize, to: usize, len: usize) -> bool {
    from != to && reception.success(from, to, len) > LEAST_SUCCESS
}

/// The text of a link, if it exists.
fn link(
    reception: &Reception,
    members: &[&PlannedNode],
    len: usize,
    [a, b]: [usize; 2],
) -> Option<String> {
    let losses = [[a, b], [b, a]].map(|[from, to]| 1.0 - reception.success(from, to, len));
    let receives = exists(reception, a, b, len) || exists(reception, b, a, len);
    if !receives && !reception.hears(a, b) && !reception.hears(b, a) {
        return None;
    }
    let mut text = format!("{} - {}: ", members[a].name, members[b].name);
    if let (Some(from), Some(to)) = (members[a].position, members[b].position)
        && let Some(level) = reception.level(a, b)
    {
        text += &format!("{:.1} m, {level:.1} dBm, ", from.metres_to(to));
    }
    let percent = |loss: f64| format!("{:.3} %", loss * 100.0);
    match receives {
        false => text += "carrier sense only",
        true if losses[0] == losses[1] => text += &format!("loss {}", percent(losses[0])),
        true => text += &format!("loss {}, back {}", percent(losses[0]), percent(losses[1])),
    }
    Some(text)
}
