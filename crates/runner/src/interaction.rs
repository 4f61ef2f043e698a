//! Interactions of a run: the spec of each program.

use crate::bed::jobs::{Job, Role};
use crate::error::Error;
use crate::program_specs::Programs;
use experiment::{Interaction, Plan, Workload};
use record::spec::{InteractionSpec, Role as Side};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ports and group of the first workload; others count up from them. The group has
/// organisation-local scope (RFC 2365).
const PORT_DOWN: u16 = 5556;
const PORT_UP: u16 = 6556;
/// The director's other stacks use the next three ports.
const PORT_OUTSIDE: u16 = 7556;
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 192, 0, 1);
/// The same of the link's scope, transient (RFC 4291, section 2.7).
const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0xd1, 1);

/// The PGM port of a workload.
pub(crate) fn port_down(workload: usize) -> u16 {
    PORT_DOWN + workload as u16
}

/// The programs of one workload, sinks before the source.
pub(crate) fn jobs(programs: Programs<'_>, interaction: &Interaction) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    for name in &interaction.sinks {
        let Some(spec) = spec(programs, interaction, name, Side::Sink) else { continue };
        jobs.extend(programs.job(name, Role::Sink, None, &spec)?);
    }
    let source = &interaction.source;
    if let Some(spec) = spec(programs, interaction, source, Side::Source) {
        jobs.extend(programs.job(source, Role::Source, None, &spec)?);
    }
    Ok(jobs)
}

/// The multicast group of an interaction.
fn group(number: usize, is_ipv6: bool) -> IpAddr {
    match is_ipv6 {
        false => Ipv4Addr::from(u32::from(GROUP) + number as u32).into(),
        true => Ipv6Addr::from(u128::from(GROUP_V6) + number as u128).into(),
    }
}

fn spec(
    programs: Programs<'_>,
    interaction: &Interaction,
    name: &str,
    role: Side,
) -> Option<InteractionSpec> {
    let number = programs.number;
    let peer = |name: &String| programs.peer(name, &interaction.network);
    let address = programs.way(name, &interaction.network)?.address;
    Some(InteractionSpec {
        role,
        node: name.to_owned(),
        down: interaction.down,
        up: interaction.up,
        address,
        group: Some(group(number, address.is_ipv6())),
        port_down: port_down(number),
        port_up: match interaction.down.is_director() {
            true => PORT_OUTSIDE + 4 * number as u16,
            false => PORT_UP + number as u16,
        },
        mtu: programs.mtu(name, &interaction.network)?,
        multicast_rate_bit_s: interaction.multicast_rate.bit_s(),
        assume_loss: interaction.assume_loss.map(|loss| loss.fraction()),
        assume_round_trip_ns: interaction.assume_round_trip.map(|trip| trip.as_ns()),
        assume_nothing: interaction.assume_nothing,
        lifetime_ns: interaction.lifetime.map(|lifetime| lifetime.as_ns()),
        outside: interaction.outside.clone(),
        broker: interaction.broker.as_ref().and_then(peer).map(|broker| broker.address),
        peers: match role {
            Side::Source => interaction.sinks.iter().filter_map(peer).collect(),
            Side::Sink => peer(&interaction.source).into_iter().collect(),
        },
        payload: interaction.payload.clone(),
        reply_payload: interaction.reply_payload.clone(),
        events: programs.files(name).events,
        every_ns: interaction.every.as_ns(),
        messages: interaction.messages,
        fan_out: interaction.fan_outs().collect(),
    })
}

/// The interactions of a plan with their workload numbers.
pub(crate) fn interactions(plan: &Plan) -> impl Iterator<Item = (usize, &Interaction)> {
    plan.workloads.iter().enumerate().filter_map(|(number, workload)| match workload {
        Workload::Interaction(interaction) => Some((number, interaction)),
        _ => None,
    })
}
