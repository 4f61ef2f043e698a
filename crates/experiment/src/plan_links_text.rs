//! Text form of the links of a plan.

use crate::plan::{PlannedLink, PlannedNode};
use link::PortVlans;
use std::fmt;

/// The links of a group to a network, one for all nodes if they are alike.
pub(crate) fn write_links(
    f: &mut fmt::Formatter<'_>,
    network: &str,
    nodes: &[PlannedNode],
) -> fmt::Result {
    let on: Vec<(&PlannedNode, &PlannedLink)> = nodes
        .iter()
        .filter_map(|node| Some((node, node.links.iter().find(|link| link.network == network)?)))
        .collect();
    for part in on.chunk_by(|(_, a), (_, b)| are_alike(a, b)) {
        let [(first, link), ..] = part else { continue };
        let last = part.last().filter(|_| part.len() > 1);
        let name = match last {
            _ if part.len() == nodes.len() => first.group.clone(),
            Some((last, _)) => format!("{} .. {}", first.name, last.name),
            None => first.name.clone(),
        };
        write_link(f, &name, link, last.map(|(_, link)| *link))?;
    }
    Ok(())
}

/// Whether two links differ in their addresses only.
fn are_alike(a: &PlannedLink, b: &PlannedLink) -> bool {
    let same = (&a.interface, &a.up, &a.down) == (&b.interface, &b.up, &b.down);
    same && a.states == b.states && a.profile == b.profile && a.vlans == b.vlans
}

/// The link of a node, or of several up to the one with the link `last`.
fn write_link(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    first: &PlannedLink,
    last: Option<&PlannedLink>,
) -> fmt::Result {
    write!(f, "  {name}: {}", first.interface)?;
    for (place, address) in first.addresses().enumerate() {
        write!(f, "{} {address}", if place > 0 { " and" } else { "" })?;
        if let Some(last) = last.and_then(|last| last.addresses().nth(place)) {
            write!(f, " .. {last}")?;
        }
    }
    let own = if first.by_slaac { ", by SLAAC" } else { "" };
    write!(f, "{}", if first.by_dhcp { ", by DHCP" } else { own })?;
    match &first.vlans {
        None => writeln!(f)?,
        Some(PortVlans::Access(vlan)) => writeln!(f, ", VLAN {vlan}")?,
        Some(PortVlans::Trunk(all)) => {
            let all: Vec<_> = all.iter().map(u16::to_string).collect();
            writeln!(f, ", trunk of the VLANs {}", all.join(", "))?;
        }
    }
    if let Some(profile) = &first.profile {
        writeln!(f, "    profile {}: {}", profile.name, profile.quality)?;
    }
    writeln!(f, "    up:   {}", first.up.text())?;
    writeln!(f, "    down: {}", first.down.text())?;
    if let Some(radio) = &first.states {
        writeln!(f, "    radio: {}", radio.text())?;
    }
    Ok(())
}
