//! MQTT clients of a run: the configuration of each, and the results of their messages.

use crate::bed::jobs::{Job, Role};
use crate::collect::{CollectError, events};
use crate::error::Error;
use crate::programs::Programs;
use experiment::{Mqtt, MqttMessage, Plan, Workload};
use measure::{ClientRow, Message};
use record::event::{ClientEvent, MessageEvent};
use record::spec::MqttSpec;
use std::collections::HashMap;
use std::sync::Arc;

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

/// The clients of one workload.
pub(crate) fn jobs(programs: Programs<'_>, mqtt: &Mqtt) -> Result<Vec<Job>, Error> {
    let Programs { plan, number, .. } = programs;
    let clients = mqtt.clients();
    let mut schedules: Vec<Vec<(u64, u64)>> = vec![Vec::new(); clients.len()];
    let mut expected = vec![0; clients.len()];
    for (message, planned) in mqtt.schedule(plan.impairment_seed(), number).into_iter().enumerate()
    {
        schedules[planned.from].push((message as u64, planned.at.as_ns()));
        expected[planned.to] += 1;
    }
    // The certificate is checked against the host name of the connection.
    let host = match (&mqtt.tls, programs.link(&mqtt.broker, &mqtt.network)) {
        (None, Some(link)) => link.address.to_string(),
        _ => mqtt.broker.clone(),
    };
    let mut jobs = Vec::new();
    for ((client, schedule), expected) in clients.into_iter().zip(schedules).zip(expected) {
        let spec = MqttSpec {
            node: client.node.clone(),
            client: format!("{}-{number}", client.node),
            broker: mqtt.broker.clone(),
            host: host.clone(),
            port: mqtt.port,
            version: mqtt.version,
            qos: mqtt.qos,
            tls: mqtt.tls.as_ref().map(|tls| programs.tls(tls)),
            // The experiment allows at most 65535 s.
            keep_alive_s: (mqtt.keep_alive.as_ns() / 1_000_000_000) as u16,
            clean_session: mqtt.clean_session,
            reconnect_min_ns: mqtt.reconnect[0].as_ns(),
            reconnect_max_ns: mqtt.reconnect[1].as_ns(),
            join_ns: client.joins.map(|joins| joins.as_ns()),
            connect_limit_ns: plan.setup_limit.as_ns(),
            subscribe: client.subscribe,
            expected,
            publish: client.publish.map(|(topic, _)| topic),
            schedule,
            payload: mqtt.payload.clone(),
            events: programs.files(&client.node).events,
        };
        jobs.extend(programs.job(&client.node, Role::Mqtt, Some(&mqtt.broker), &spec)?);
    }
    Ok(jobs)
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
    let rows: Vec<Message> = schedule
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
    let mut messages = MessageRows { schedule, rows };
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
        for line in events::<MessageEvent<'_, ClientEvent>>(&job.name, &job.files.events)? {
            messages.note(&line, client, line.time_ns as i64 - start_ns as i64, &mut row);
        }
        table.push(row);
    }
    Ok((messages.rows, table))
}

/// The scheduled messages, each with its row.
struct MessageRows {
    schedule: Vec<MqttMessage>,
    rows: Vec<Message>,
}

impl MessageRows {
    /// The row of a message that `client` publishes.
    fn sent_by(&mut self, client: usize, message: u64) -> Option<&mut Message> {
        let planned = self.schedule.get(message as usize)?;
        (planned.from == client).then_some(&mut self.rows[message as usize])
    }

    /// The row of a message that `client` receives.
    fn received_by(&mut self, client: usize, message: u64) -> Option<&mut Message> {
        let planned = self.schedule.get(message as usize)?;
        (planned.to == client).then_some(&mut self.rows[message as usize])
    }

    /// Records an event of `client` at `time`, in ns since the start.
    fn note(
        &mut self,
        line: &MessageEvent<'_, ClientEvent>,
        client: usize,
        time: i64,
        row: &mut ClientRow,
    ) {
        let message = line.message;
        match line.event {
            ClientEvent::Connected => {
                row.connected_ns.get_or_insert(time);
                row.connections += 1;
            }
            ClientEvent::Disconnected => row.lost += 1,
            ClientEvent::Sent => {
                if let Some(sent) = self.sent_by(client, message) {
                    sent.sent_ns.get_or_insert(time);
                }
            }
            ClientEvent::Acknowledged => {
                if let Some(sent) = self.sent_by(client, message) {
                    sent.acknowledged_ns.get_or_insert(time);
                }
            }
            ClientEvent::Received => {
                if let Some(received) = self.received_by(client, message) {
                    received.received_ns.get_or_insert(time);
                }
            }
            ClientEvent::Duplicate => {
                if let Some(received) = self.received_by(client, message) {
                    received.duplicates += 1;
                }
            }
        }
    }
}
