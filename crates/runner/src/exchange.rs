//! Exchanges of a run: the spec of each side.

use crate::bed::jobs::{Files, Job, Role};
use crate::bed::tls;
use crate::error::Error;
use crate::program_specs::Programs;
use experiment::{Exchange, MqttTls, Pair, Plan, Workload};
use record::spec::{ExchangeSpec, GATEWAY_PORT, Side};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// The exchanges of a plan with their workload numbers.
pub(crate) fn workloads(plan: &Plan) -> impl Iterator<Item = (usize, &Exchange)> {
    plan.workloads.iter().enumerate().filter_map(|(number, workload)| match workload {
        Workload::Exchange(exchange) => Some((number, exchange)),
        _ => None,
    })
}

/// Number of exchanges in the schedules.
pub(crate) fn expected(plan: &Plan) -> u64 {
    workloads(plan).map(|(_, exchange)| exchange.all_exchanges()).sum()
}

/// The path of the sections file of a program with `files`.
pub(crate) fn sections(files: &Files) -> PathBuf {
    files.events.with_extension("sections.csv")
}

/// The programs of one workload, servers first.
pub(crate) fn jobs(programs: Programs<'_>, exchange: &Exchange) -> Result<Vec<Job>, Error> {
    let pairs = exchange.pairs();
    let mut served: BTreeMap<&str, Vec<&Pair<'_>>> = BTreeMap::new();
    for pair in &pairs {
        for server in &pair.servers {
            served.entry(server).or_default().push(pair);
        }
    }
    let mut jobs = Vec::new();
    for (server, pairs) in served {
        let drivers: Vec<&str> = pairs.iter().map(|pair| pair.driver).collect();
        let mut brokers: Vec<&str> = pairs.iter().filter_map(|pair| pair.broker).collect();
        brokers.sort_unstable();
        brokers.dedup();
        let Some(spec) = spec(programs, exchange, Side::Serve, server) else { continue };
        jobs.extend(job(programs, exchange, &drivers, &brokers, spec)?);
    }
    let schedule = exchange.schedule(programs.plan.impairment_seed(), programs.number);
    for (place, (pair, own)) in pairs.iter().zip(&schedule).enumerate() {
        let brokers: Vec<&str> = pair.broker.into_iter().collect();
        let Some(mut spec) = spec(programs, exchange, Side::Drive, pair.driver) else { continue };
        spec.exchanges = own.iter().map(|(number, size)| (*number, *size as usize)).collect();
        spec.offset_ns = exchange.offset(place).as_ns();
        jobs.extend(job(programs, exchange, &pair.servers, &brokers, spec)?);
    }
    Ok(jobs)
}

/// A side's program, with its peers and brokers.
fn job(
    programs: Programs<'_>,
    exchange: &Exchange,
    peers: &[&str],
    brokers: &[&str],
    mut spec: ExchangeSpec,
) -> Result<Option<Job>, Error> {
    let all = |names: &[&str]| {
        names.iter().filter_map(|name| programs.peer(name, &exchange.network)).collect()
    };
    (spec.peers, spec.brokers) = (all(peers), all(brokers));
    for broker in &mut spec.brokers {
        if programs.plan.has_local_gateway(&broker.name, exchange.port) {
            spec.gateway = Some((broker.address, GATEWAY_PORT).into());
            broker.address = Ipv4Addr::LOCALHOST.into();
        }
    }
    let role = match spec.side {
        Side::Drive => Role::Source,
        Side::Serve => Role::Sink,
    };
    // Its output is part of the error if this side fails: the other end often has the cause.
    let whom = brokers.first().or(peers.first()).copied();
    programs.job(&spec.node.clone(), role, whom, &spec)
}

/// The spec of a side, without its peers and schedule.
fn spec(
    programs: Programs<'_>,
    exchange: &Exchange,
    side: Side,
    name: &str,
) -> Option<ExchangeSpec> {
    let way = programs.way(name, &exchange.network)?;
    let files = programs.files(name);
    // The listening side shows its certificate; the other verifies it with the authority's.
    let tls = exchange.tls.as_ref().map(|tls| {
        let mut files = programs.tls(tls);
        let listens = side == Side::Serve && exchange.brokers.is_empty();
        if listens && *tls == MqttTls::Generated {
            let folder = tls::folder(programs.dir);
            files.cert = Some(folder.join(format!("{name}.pem")));
            files.key = Some(folder.join(format!("{name}.key")));
        }
        files
    });
    Some(ExchangeSpec {
        side,
        node: name.to_owned(),
        protocol: exchange.protocol.clone(),
        connection: exchange.connection,
        address: way.address,
        interface: way.link.interface.clone(),
        mtu: programs.mtu(name, &exchange.network)?,
        peers: Vec::new(),
        brokers: Vec::new(),
        gateway: None,
        workload: programs.number,
        port: exchange.port,
        exchanges: Vec::new(),
        sizes: exchange.sizes.iter().map(|size| *size as usize).collect(),
        offset_ns: 0,
        every_ns: exchange.every.as_ns(),
        pause_ns: exchange.pause.as_ns(),
        timeout_ns: exchange.timeout.as_ns(),
        // All cells have the same payloads, as they have the same random seed.
        seed: programs.plan.impairment_seed(),
        tls,
        tcp_timestamps: exchange.tcp_timestamps,
        sections: sections(&files),
        events: files.events,
    })
}
