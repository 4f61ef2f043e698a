//! The results of a run: `summary.json`.

use crate::bed::jobs::{Job, Role};
use crate::cost::{each, handled};
use crate::energy;
use crate::exchange_figures::exchanges;
use crate::interaction::interactions;
use crate::mqtt;
use crate::results::{Results, rows_of};
use crate::steady::steady;
use measure::{LinkRow, Traffic, times};
use record::{Group, InteractionPattern, Lateness, Links, Summary};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::Path;
use units::Span;

/// The payload that a node's applications handed to their transports: once for a multicast message,
/// once per connection otherwise.
fn payload_sent(results: &Results<'_>, group: &str) -> io::Result<u64> {
    let plan = results.plan;
    let nodes = plan.nodes.iter().filter(|node| node.group == group);
    let members: HashSet<&str> = nodes.map(|node| node.name.as_str()).collect();
    let mut bytes = passed_by_brokers(results, &members)?;
    bytes += exchanged(results, &members)?;
    for (_, interaction) in interactions(plan) {
        let sends = members.contains(interaction.source.as_str());
        let is_multicast = interaction.down == InteractionPattern::PgmPublishSubscribe;
        let mut last_sent = None;
        for row in rows_of(results, &interaction.name) {
            let row = row?;
            if sends && row.sent_ns.is_some() {
                // Rows of one message follow each other, one for each receiver.
                let is_again = last_sent.replace(row.message) == Some(row.message);
                bytes += u64::from(!is_again || !is_multicast) * interaction.payload_bytes;
            }
            if row.reply_sent_ns.is_some() && members.contains(&*row.peer) {
                bytes += interaction.reply_payload_bytes;
            }
        }
    }
    Ok(bytes)
}

/// The payload of exchanges that sources sent and brokers forwarded, counting exchanges that
/// arrived or were acknowledged.
fn exchanged(results: &Results<'_>, members: &HashSet<&str>) -> io::Result<u64> {
    let mut bytes = 0;
    for (_, exchange) in crate::exchange::workloads(results.plan) {
        let passes = exchange.brokers.iter().any(|broker| members.contains(broker.as_str()));
        for row in rows_of(results, &exchange.name) {
            let row = row?;
            let came = row.received_ns.is_some();
            let sent = (came || row.reply_received_ns.is_some()) && members.contains(&*row.sender);
            bytes += (u64::from(sent) + u64::from(came && passes)) * u64::from(row.bytes);
        }
    }
    Ok(bytes)
}

/// The payload that clients of brokers published and that brokers forwarded.
fn passed_by_brokers(results: &Results<'_>, members: &HashSet<&str>) -> io::Result<u64> {
    let mut bytes = 0;
    for (_, mqtt) in mqtt::workloads(results.plan) {
        let passes = members.contains(mqtt.broker.as_str());
        for row in rows_of(results, &mqtt.name) {
            let row = row?;
            let sent = row.sent_ns.is_some() && members.contains(&*row.sender);
            let passed = row.received_ns.is_some() && passes;
            bytes += (u64::from(sent) + u64::from(passed)) * mqtt.payload_bytes;
        }
    }
    Ok(bytes)
}

/// The results of a run. Many values of exchanges need a file in `folder`.
///
/// # Errors
/// When rows of messages, usage or intervals cannot be read.
pub(crate) fn summary(
    results: &Results<'_>,
    links: &[LinkRow],
    folder: &Path,
) -> io::Result<Summary> {
    let plan = results.plan;
    let (mut groups, mut all) = groups(results, links)?;
    by_message(&mut all, results.outcomes.sent);
    if results.options.is_costless() {
        groups.values_mut().chain([&mut all]).for_each(without_cpu);
    }
    Ok(Summary {
        experiment: plan.experiment.clone(),
        cell: plan.cell.clone(),
        seed: plan.seed,
        repeat: u64::from(plan.repeat),
        verdict: results.verdict.without_evidence(),
        messages: results.outcomes.clone(),
        mqtt: steady(results)?,
        exchanges: exchanges(results, folder)?,
        loads: results.loads.clone(),
        probes: results.probes.figures.clone(),
        programs: results.programs.figures.clone(),
        groups,
        all,
        links: of_links(results, links),
    })
}

/// The figures of each group of nodes, and of all.
///
/// # Errors
/// When rows of messages cannot be read.
fn groups(
    results: &Results<'_>,
    links: &[LinkRow],
) -> io::Result<(BTreeMap<String, Group>, Group)> {
    let plan = results.plan;
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let mut all = Group::default();
    for node in &plan.nodes {
        let name = &node.group;
        if groups.contains_key(name) {
            continue;
        }
        let nodes: Vec<usize> =
            (0..plan.nodes.len()).filter(|i| plan.nodes[*i].group == *name).collect();
        let mut figures = group(results, name, &nodes)?;
        // Costs per message are ratios: a sum of them has no meaning.
        all.add(&figures);
        let messages = handled(results, name)?;
        by_message(&mut figures, messages);
        if node.board.is_some() {
            let spent = energy::of_group(results, links, &nodes);
            let joules = spent.map(|spent| spent.joules);
            figures.energy_j = Some(joules);
            figures.energy_j_per_message = Some(joules.and_then(|joules| each(joules, messages)));
            figures.battery_days = Some(spent.and_then(|spent| spent.days));
            figures.off_s = Some(spent.map(|spent| spent.off));
            if node.board.as_ref().is_some_and(|board| board.radio.is_some()) {
                let state = |state: usize| Some(spent.map(|spent| spent.radio[state]));
                figures.radio_transmit_j = state(0);
                figures.radio_receive_j = state(1);
                figures.radio_idle_j = state(2);
            }
        }
        groups.insert(name.clone(), figures);
    }
    Ok((groups, all))
}

fn of_links(results: &Results<'_>, links: &[LinkRow]) -> Links {
    let lateness = times(&results.accounting.lateness(), 1e3).unwrap_or_default();
    // The loss is over the links with a configured one, weighted by their frames.
    let lossy = links.iter().filter(|l| l.loss_configured_pct() > 0.0 && !l.changing);
    let (mut frames, mut configured, mut lost) = (0, 0.0, 0);
    for link in lossy {
        frames += link.measured.at_risk();
        configured += link.loss_configured_pct() * link.measured.at_risk() as f64;
        lost += link.measured.lost;
    }
    Links {
        delay_error_us: Lateness { p50: lateness.p50, p99: lateness.p99, max: lateness.max },
        frames: links.iter().map(|l| l.measured.at_risk()).sum(),
        loss_configured_pct: configured / (frames.max(1)) as f64,
        loss_measured_pct: 100.0 * lost as f64 / frames.max(1) as f64,
        overflow_frames: links.iter().map(|l| l.measured.overflow).sum(),
        outage_frames: links.iter().map(|l| l.measured.outage).sum(),
        contention_frames: links.iter().map(|l| l.measured.denied).sum(),
        no_access_frames: links.iter().map(|l| l.measured.no_access).sum(),
        no_demodulator_frames: links.iter().map(|l| l.measured.no_demodulator).sum(),
        half_duplex_frames: links.iter().map(|l| l.measured.half_duplex).sum(),
        weak_signal_frames: links.iter().map(|l| l.measured.weak_signal).sum(),
        too_long_frames: links.iter().map(|l| l.measured.too_long).sum(),
        rejected_frames: links.iter().map(|l| l.measured.rejected).sum(),
        out_of_tolerance: results.deviating as u64,
    }
}

/// Removes results that depend on CPU time, for programs that take none.
fn without_cpu(figures: &mut Group) {
    let by_cpu = [&mut figures.cpu_ms, &mut figures.cpu_us_per_message, &mut figures.run_delay_ms];
    by_cpu.into_iter().for_each(|figure| *figure = None);
    let by_board =
        [&mut figures.energy_j, &mut figures.energy_j_per_message, &mut figures.battery_days];
    by_board.into_iter().flatten().for_each(|figure| *figure = None);
}

/// Adds the cost per message, for `messages` handled.
fn by_message(figures: &mut Group, messages: u64) {
    figures.cpu_us_per_message = each(figures.cpu_ms.unwrap_or(0.0) * 1e3, messages);
}

fn group(results: &Results<'_>, name: &str, nodes: &[usize]) -> io::Result<Group> {
    let (mut tx, mut rx) = (Traffic::default(), Traffic::default());
    for node in nodes {
        let Some(traffic) = results.accounting.nodes().get(*node) else { continue };
        tx += traffic.tx;
        rx += traffic.rx;
    }
    let [medium_tx, medium_rx] = results.settled.medium_frames(nodes);
    let [kernel_tx, kernel_rx] = results.settled.kernel_frames(&results.design.topology, nodes);
    // A collector belongs to the measurement.
    let is_own = |job: &&Job| nodes.contains(&job.node) && job.role != Role::Collector;
    let jobs = results.jobs.iter().filter(is_own);
    let usage: Vec<_> = jobs.map(|job| (!job.has_control(), job.usage())).collect();
    let cpu: Span = usage.iter().map(|(_, usage)| usage.cpu()).sum();
    let before: Span = nodes.iter().map(|node| results.scheduled[*node].before).sum();
    // In whole microseconds, as the CPU times of programs.
    let before = Span::from_us(before.as_ns() / 1000);
    let waited: Span = nodes.iter().map(|node| results.scheduled[*node].wait).sum();
    let payload = payload_sent(results, name)?;
    let own = usage.iter().any(|(foreign, _)| *foreign);
    Ok(Group {
        nodes: nodes.len() as u64,
        tx_bytes: tx.bytes,
        rx_bytes: rx.bytes,
        tx_frames: tx.frames,
        rx_frames: rx.frames,
        payload_bytes: payload,
        // The payload of foreign programs is unknown.
        // Payload that did not reach the medium must not make the overhead negative.
        overhead_bytes: if own { 0 } else { tx.bytes - payload.min(tx.carried) },
        lower_bytes: tx.lower,
        transport_bytes: tx.transport,
        carried_bytes: tx.carried,
        control_frames: tx.control_frames,
        control_bytes: tx.control_bytes,
        retransmitted_frames: tx.retransmitted_frames,
        retransmitted_bytes: tx.retransmitted_bytes,
        rx_lower_bytes: rx.lower,
        rx_transport_bytes: rx.transport,
        rx_carried_bytes: rx.carried,
        rx_control_frames: rx.control_frames,
        rx_control_bytes: rx.control_bytes,
        cpu_ms: Some((cpu - before).as_ms()),
        run_delay_ms: Some(waited.as_ms()),
        rss_max_bytes: usage.iter().map(|(_, u)| u.peak_bytes).max().unwrap_or(0),
        medium_tx_frames: medium_tx,
        medium_rx_frames: medium_rx,
        kernel_tx_frames: kernel_tx,
        kernel_rx_frames: kernel_rx,
        // Computed from these.
        cpu_us_per_message: None,
        energy_j: None,
        energy_j_per_message: None,
        battery_days: None,
        radio_transmit_j: None,
        radio_receive_j: None,
        radio_idle_j: None,
        off_s: None,
    })
}
