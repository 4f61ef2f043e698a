//! Resource usage of a broker and its clients after all clients have joined.

use crate::mqtt::workloads;
use crate::results::Results;
use record::{Mqtt, MqttRole};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use units::Instant;

/// The mean over a role's nodes during the steady phase: CPU share, and bytes sent and received per
/// second. `None` without an MQTT workload, or if the run ended before all clients had joined.
///
/// # Errors
/// When rows cannot be read.
pub(crate) fn steady(results: &Results<'_>) -> io::Result<Option<Mqtt>> {
    let plan = results.plan;
    let Some((from, to)) = window(results) else { return Ok(None) };
    // Broker, subscribers, publishers.
    let mut roles: [HashSet<&str>; 3] = Default::default();
    for (_, mqtt) in workloads(plan) {
        let clients = mqtt.clients();
        for node in &plan.nodes {
            let client = clients.iter().find(|client| client.node == node.name);
            let is = [
                mqtt.broker == node.name,
                client.is_some_and(|client| client.subscribe.is_some()),
                client.is_some_and(|client| client.publish.is_some()),
            ];
            for (nodes, is) in roles.iter_mut().zip(is) {
                if is {
                    nodes.insert(&node.name);
                }
            }
        }
    }
    let cpu = cpu_by_node(results, from, to)?;
    let measured = !results.options.is_costless();
    let bytes = bytes_by_node(results, from, to)?;
    let [broker, subscriber, publisher] = roles.map(|nodes| {
        let mean = |of: &dyn Fn(&str) -> f64| {
            nodes.iter().map(|node| of(node)).sum::<f64>() / nodes.len().max(1) as f64
        };
        let rate = |way: usize| mean(&|node| bytes.get(node).map_or(0.0, |rates| rates[way]));
        MqttRole {
            nodes: nodes.len() as u64,
            cpu_pct: measured.then(|| mean(&|node| cpu.get(node).copied().unwrap_or(0.0))),
            tx_bytes_s: rate(0),
            rx_bytes_s: rate(1),
        }
    });
    let busy = host_busy(results, from, to)?;
    Ok(Some(Mqtt {
        broker,
        subscriber,
        publisher,
        host_cpu_pct: measured.then_some(busy),
        from_s: from,
        to_s: to,
    }))
}

/// The steady phase: from the last join to the end of the schedules, in seconds from offset 0.
fn window(results: &Results<'_>) -> Option<(f64, f64)> {
    let seconds = units::Span::as_s;
    let all = workloads(results.plan).map(|(_, mqtt)| {
        let end = seconds(mqtt.planned_duration());
        (end - seconds(mqtt.duration), end)
    });
    let (from, to) = all.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))?;
    let ended = results.phases.iter().find(|(name, _)| *name == "drain")?.1;
    let to = to.min(ended.seconds_from(results.start));
    (to > from).then_some((from, to))
}

/// CPU use in percent, by node.
fn cpu_by_node(results: &Results<'_>, from: f64, to: f64) -> io::Result<HashMap<Arc<str>, f64>> {
    // The sampler's seconds begin half a second before offset 0.
    let load = results.phases.iter().find(|(name, _)| *name == "load");
    let load = load.map_or(Instant::START, |(_, at)| *at);
    let shift = load.seconds_from(results.start);
    let mut sums: HashMap<Arc<str>, (f64, u32)> = HashMap::new();
    for row in results.usage.rows() {
        let row = row?;
        let at = f64::from(row.second) + shift;
        if at >= from && at + 1.0 <= to {
            let sum = sums.entry(row.node).or_default();
            sum.0 += (row.used.user + row.used.system).as_ms();
            sum.1 += 1;
        }
    }
    // Milliseconds in each second, in percent.
    Ok(sums.into_iter().map(|(node, (ms, n))| (node, ms / f64::from(n) / 10.0)).collect())
}

/// Bytes per second, sent and received, by node.
fn bytes_by_node(
    results: &Results<'_>,
    from: f64,
    to: f64,
) -> io::Result<HashMap<String, [f64; 2]>> {
    let mut rates: HashMap<String, [f64; 2]> = HashMap::new();
    let mut covered = (f64::INFINITY, f64::NEG_INFINITY);
    for row in results.intervals.intervals() {
        let row = row?;
        // Intervals across a border would add bytes of joining or of stopping.
        if row.start_s >= from && row.end_s <= to {
            covered = (covered.0.min(row.start_s), covered.1.max(row.end_s));
            let way = usize::from(row.direction == "down");
            rates.entry(row.node.clone()).or_default()[way] += row.measured.bytes as f64;
        }
    }
    let seconds = covered.1 - covered.0;
    // Without an interval inside, there are no sums, and the difference is not finite.
    rates.values_mut().flatten().for_each(|sum| *sum /= seconds.max(1e-9));
    Ok(rates)
}

/// CPU use of the whole host in percent, over the same time.
fn host_busy(results: &Results<'_>, from: f64, to: f64) -> io::Result<f64> {
    let (mut busy, mut seconds) = (0.0, 0.0);
    for interval in results.usage.host() {
        let interval = interval?;
        let at = interval.at.seconds_from(results.start);
        if (from..to).contains(&at) {
            busy += interval.busy * interval.seconds;
            seconds += interval.seconds;
        }
    }
    Ok(100.0 * busy / f64::max(seconds, 1e-9))
}
