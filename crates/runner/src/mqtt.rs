//! MQTT clients of a run: the configuration of each, and the results of their messages.

use crate::collect::{CollectError, read};
use crate::error::Error;
use crate::jobs::{Files, Job, Role};
use experiment::{Mqtt, MqttTls, Plan, Workload};
use measure::{ClientRow, Message};
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The configuration of a client; see the documentation of the workload programs.
#[derive(Serialize)]
struct Spec<'a> {
    node: &'a str,
    client: String,
    broker: &'a str,
    host: String,
    port: u16,
    version: experiment::MqttVersion,
    qos: u8,
    tls: Option<Tls>,
    keep_alive_s: u64,
    clean_session: bool,
    reconnect_min_ns: u64,
    reconnect_max_ns: u64,
    join_ns: Option<u64>,
    connect_limit_ns: u64,
    subscribe: Option<&'a str>,
    expected: u64,
    publish: Option<&'a str>,
    schedule: Vec<(u64, u64)>,
    payload: &'a Path,
    events: &'a Path,
}

#[derive(Serialize, Clone)]
struct Tls {
    ca: PathBuf,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// The MQTT workloads of a plan with their workload numbers.
pub(crate) fn workloads(plan: &Plan) -> impl Iterator<Item = (usize, &Mqtt)> {
    plan.workloads.iter().enumerate().filter_map(|(number, workload)| match workload {
        Workload::Mqtt(mqtt) => Some((number, mqtt)),
        _ => None,
    })
}

/// Number of messages in the schedules.
pub(crate) fn expected(plan: &Plan) -> u64 {
    workloads(plan)
        .map(|(number, mqtt)| mqtt.schedule(plan.impairment_seed(), number).len() as u64)
        .sum()
}

/// The clients of one workload, with their files in `dir`.
pub(crate) fn jobs(
    plan: &Plan,
    number: usize,
    mqtt: &Mqtt,
    program: &Path,
    dir: &Path,
) -> Result<Vec<Job>, Error> {
    let place: HashMap<&str, usize> =
        plan.nodes.iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
    let Some(&broker) = place.get(mqtt.broker.as_str()) else { return Ok(Vec::new()) };
    let clients = mqtt.clients();
    let mut schedules: Vec<Vec<(u64, u64)>> = vec![Vec::new(); clients.len()];
    let mut expected = vec![0; clients.len()];
    for (message, planned) in mqtt.schedule(plan.impairment_seed(), number).into_iter().enumerate()
    {
        schedules[planned.from].push((message as u64, planned.at.as_ns()));
        expected[planned.to] += 1;
    }
    let address = plan.nodes[broker].links.iter().find(|link| link.network == mqtt.network);
    // The certificate is checked against the host name of the connection.
    let host = match (&mqtt.tls, address) {
        (None, Some(link)) => link.address.to_string(),
        _ => mqtt.broker.clone(),
    };
    let mut jobs = Vec::new();
    for ((client, schedule), expected) in clients.iter().zip(schedules).zip(expected) {
        let Some(&node) = place.get(client.node.as_str()) else { continue };
        let files = Files::of(dir, &client.node, Some(number));
        let spec = Spec {
            node: &client.node,
            client: format!("{}-{number}", client.node),
            broker: &mqtt.broker,
            host: host.clone(),
            port: mqtt.port,
            version: mqtt.version,
            qos: mqtt.qos,
            tls: mqtt.tls.as_ref().map(|tls| self::tls(tls, dir)),
            keep_alive_s: mqtt.keep_alive.as_ns() / 1_000_000_000,
            clean_session: mqtt.clean_session,
            reconnect_min_ns: mqtt.reconnect[0].as_ns(),
            reconnect_max_ns: mqtt.reconnect[1].as_ns(),
            join_ns: client.joins.map(|joins| joins.as_ns()),
            connect_limit_ns: plan.setup_limit.as_ns(),
            subscribe: client.subscribe.as_deref(),
            expected,
            publish: client.publish.as_ref().map(|(topic, _)| topic.as_str()),
            schedule,
            payload: &mqtt.payload,
            events: &files.events,
        };
        let text = serde_json::to_vec(&spec).unwrap_or_default();
        fs::write(&files.spec, text).map_err(Error::write(&files.spec))?;
        let words = [program.as_os_str(), "mqtt".as_ref(), files.spec.as_os_str()];
        let argv = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let mut job = Job::of(node, &client.node, Some(number), Role::Mqtt, argv, dir, files);
        job.relies_on = Some(broker);
        jobs.push(job);
    }
    Ok(jobs)
}

fn tls(tls: &MqttTls, dir: &Path) -> Tls {
    match tls {
        MqttTls::Generated => {
            Tls { ca: crate::tls::folder(dir).join("ca.pem"), cert: None, key: None }
        }
        MqttTls::Files { ca, cert, key } => {
            Tls { ca: ca.clone(), cert: cert.clone(), key: key.clone() }
        }
    }
}

/// A row for each scheduled message and one for each client, filled from the clients' records.
/// Records that a dead client did not write are missing.
pub(crate) fn collect(
    plan: &Plan,
    number: usize,
    mqtt: &Mqtt,
    jobs: &[Job],
    start_ns: u64,
) -> Result<(Vec<Message>, Vec<ClientRow>), CollectError> {
    let clients = mqtt.clients();
    let interaction: Arc<str> = mqtt.name.as_str().into();
    let names: Vec<Arc<str>> = clients.iter().map(|c| c.node.as_str().into()).collect();
    let schedule = mqtt.schedule(plan.impairment_seed(), number);
    let mut rows: Vec<Message> = schedule
        .iter()
        .enumerate()
        .map(|(message, planned)| Message {
            message: message as u64,
            interaction: interaction.clone(),
            sender: names[planned.from].clone(),
            peer: names[planned.to].clone(),
            intended_ns: planned.at.as_ns() as i64,
            bytes: mqtt.payload_bytes as u32,
            one_way: true,
            ..Message::default()
        })
        .collect();
    let place: HashMap<&str, usize> =
        clients.iter().enumerate().map(|(place, c)| (c.node.as_str(), place)).collect();
    let mut table = Vec::new();
    for job in jobs.iter().filter(|job| job.workload == Some(number) && job.role == Role::Mqtt) {
        let Some(&client) = place.get(job.name.as_str()) else { continue };
        let mut row = ClientRow {
            interaction: interaction.clone(),
            client: names[client].clone(),
            publishes: clients[client].publish.is_some(),
            subscribes: clients[client].subscribe.is_some(),
            joins_ns: clients[client].joins.map(|joins| joins.as_ns() as i64),
            ..ClientRow::default()
        };
        for line in read(&job.name, &job.files.events)? {
            let time = line.time_ns as i64 - start_ns as i64;
            match line.event.as_str() {
                "connected" => {
                    row.connected_ns = row.connected_ns.or(Some(time));
                    row.connections += 1;
                    continue;
                }
                "disconnected" => {
                    row.lost += 1;
                    continue;
                }
                _ => {}
            }
            let Some(planned) = schedule.get(line.message as usize) else { continue };
            let message = &mut rows[line.message as usize];
            let (sender, receiver) = (planned.from == client, planned.to == client);
            match line.event.as_str() {
                "sent" if sender => message.sent_ns = message.sent_ns.or(Some(time)),
                "acknowledged" if sender => {
                    message.acknowledged_ns = message.acknowledged_ns.or(Some(time));
                }
                "received" if receiver => {
                    message.received_ns = message.received_ns.or(Some(time));
                }
                "duplicate" if receiver => message.duplicates += 1,
                _ => {}
            }
        }
        table.push(row);
    }
    Ok((rows, table))
}
