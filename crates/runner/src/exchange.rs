//! Exchanges of a run: the configuration that each side gets.

use crate::error::Error;
use crate::jobs::{Files, Job, Role};
use crate::tls;
use experiment::{Exchange, ExchangeProtocol, MqttTls, Pair, Plan, Workload};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The configuration of one side; see the documentation of the workload programs.
#[derive(Serialize)]
struct Spec<'a> {
    side: &'static str,
    node: &'a str,
    protocol: &'a str,
    options: Value,
    connection: experiment::Connection,
    address: Ipv4Addr,
    interface: &'a str,
    mtu: u64,
    peers: Vec<Peer<'a>>,
    brokers: Vec<Peer<'a>>,
    workload: usize,
    port: u16,
    exchanges: &'a [(u64, u64)],
    sizes: &'a [u64],
    offset_ns: u64,
    every_ns: u64,
    pause_ns: u64,
    timeout_ns: u64,
    seed: u64,
    tls: Option<Tls>,
    tcp_timestamps: Option<bool>,
    events: &'a Path,
    sections: PathBuf,
}

#[derive(Serialize, Clone)]
struct Peer<'a> {
    name: &'a str,
    address: Ipv4Addr,
}

#[derive(Serialize, Clone)]
struct Tls {
    ca: PathBuf,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
}

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

/// The programs of one workload, servers first, with their files in `dir`.
pub(crate) fn jobs(
    plan: &Plan,
    number: usize,
    exchange: &Exchange,
    program: &Path,
    dir: &Path,
) -> Result<Vec<Job>, Error> {
    let side = Sides { plan, number, exchange, program, dir };
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
        jobs.extend(side.job(server, Role::Sink, &drivers, &brokers, (&[], 0))?);
    }
    let schedule = exchange.schedule(plan.impairment_seed(), number);
    for (place, (pair, own)) in pairs.iter().zip(&schedule).enumerate() {
        let brokers: Vec<&str> = pair.broker.into_iter().collect();
        let offset = exchange.offset(place).as_ns();
        jobs.extend(side.job(pair.driver, Role::Source, &pair.servers, &brokers, (own, offset))?);
    }
    Ok(jobs)
}

/// Common parameters of a workload's programs.
struct Sides<'a> {
    plan: &'a Plan,
    number: usize,
    exchange: &'a Exchange,
    program: &'a Path,
    dir: &'a Path,
}

impl Sides<'_> {
    fn job(
        &self,
        name: &str,
        role: Role,
        peers: &[&str],
        brokers: &[&str],
        (exchanges, offset_ns): (&[(u64, u64)], u64),
    ) -> Result<Option<Job>, Error> {
        let Self { plan, number, exchange, program, dir } = self;
        let Some(node) = plan.nodes.iter().position(|node| node.name == name) else {
            return Ok(None);
        };
        let planned = &plan.nodes[node];
        let link = planned.links.iter().find(|link| link.network == exchange.network);
        let (Some(link), Some(network)) = (link, plan.network(&exchange.network)) else {
            return Ok(None);
        };
        let files = Files::of(dir, name, Some(*number));
        let spec = Spec {
            side: if role == Role::Source { "drive" } else { "serve" },
            node: &planned.name,
            protocol: exchange.protocol.name(),
            options: options(exchange),
            connection: exchange.connection,
            address: link.address,
            interface: &link.interface,
            mtu: network.mtu.get(),
            peers: peers.iter().filter_map(|peer| self.peer(peer)).collect(),
            brokers: brokers.iter().filter_map(|broker| self.peer(broker)).collect(),
            workload: *number,
            port: exchange.port,
            exchanges,
            sizes: &exchange.sizes,
            offset_ns,
            every_ns: exchange.every.as_ns(),
            pause_ns: exchange.pause.as_ns(),
            timeout_ns: exchange.timeout.as_ns(),
            // All cells have the same payloads, as they have the same random seed.
            seed: plan.impairment_seed(),
            tls: self.tls(name, role),
            tcp_timestamps: exchange.tcp_timestamps,
            events: &files.events,
            sections: sections(&files),
        };
        let text = serde_json::to_vec(&spec).unwrap_or_default();
        fs::write(&files.spec, text).map_err(Error::write(&files.spec))?;
        let words = [program.as_os_str(), "exchange".as_ref(), files.spec.as_os_str()];
        let argv = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let mut job = Job::of(node, name, Some(*number), role, argv, dir, files);
        let whom = brokers.first().or(peers.first());
        job.relies_on = whom.and_then(|name| plan.nodes.iter().position(|n| n.name == **name));
        Ok(Some(job))
    }

    fn peer(&self, name: &str) -> Option<Peer<'_>> {
        let node = self.plan.node(name)?;
        let link = node.links.iter().find(|link| link.network == self.exchange.network)?;
        Some(Peer { name: &node.name, address: link.address })
    }

    /// The listening side shows its certificate; the other verifies it with the authority's.
    fn tls(&self, name: &str, role: Role) -> Option<Tls> {
        let listens = role == Role::Sink && self.exchange.brokers.is_empty();
        Some(match self.exchange.tls.as_ref()? {
            MqttTls::Generated => {
                let file = |what: String| tls::folder(self.dir).join(what);
                Tls {
                    ca: file("ca.pem".to_owned()),
                    cert: listens.then(|| file(format!("{name}.pem"))),
                    key: listens.then(|| file(format!("{name}.key"))),
                }
            }
            MqttTls::Files { ca, cert, key } => {
                Tls { ca: ca.clone(), cert: cert.clone(), key: key.clone() }
            }
        })
    }
}

/// The options of the protocol.
fn options(exchange: &Exchange) -> Value {
    if let ExchangeProtocol::Coap(coap) = &exchange.protocol {
        return json!({
            "method": coap.method,
            "confirmable": coap.confirmable,
            "block": coap.block,
            "transport": coap.transport,
            "observe": coap.observe,
            "group": coap.group,
            "q_block": coap.q_block,
            "leisure_ns": coap.leisure.as_ns(),
            "ack_timeout_ns": coap.ack_timeout.as_ns(),
            "max_retransmit": coap.max_retransmit,
        });
    }
    match serde_json::to_value(&exchange.protocol) {
        Ok(Value::Object(map)) => map.into_iter().next().map_or(Value::Null, |(_, chosen)| chosen),
        _ => Value::Null,
    }
}
