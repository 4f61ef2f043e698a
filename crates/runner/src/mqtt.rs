//! MQTT clients of a run: the configuration of each, and the results of their messages.

use crate::bed::jobs::{Job, Role};
use crate::collect::{CollectError, events};
use crate::error::Error;
use crate::program_specs::Programs;
use experiment::{Mqtt, MqttMessage, Plan, Workload};
use measure::{ClientRow, Message, MessageTable};
use record::event::{ClientEvent, MessageEvent};
use record::spec::MqttSpec;
use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use units::Instant;

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
    let mut expected: Vec<Vec<u64>> = vec![Vec::new(); clients.len()];
    for (message, planned) in mqtt.schedule(plan.impairment_seed(), number).into_iter().enumerate()
    {
        schedules[planned.from].push((message as u64, planned.at.as_ns()));
        expected[planned.to].push(message as u64);
    }
    // The certificate is checked against the host name of the connection.
    let is_local = plan.has_local_gateway(&mqtt.broker, mqtt.port);
    let host = match (&mqtt.tls, programs.way(&mqtt.broker, &mqtt.network)) {
        _ if is_local => Ipv4Addr::LOCALHOST.to_string(),
        (None, Some(way)) => way.address.to_string(),
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

/// Adds a row for each scheduled message, filled from the clients' records, and returns one for each client.
/// Records that a dead client did not write are missing.
pub(crate) fn collect(
    plan: &Plan,
    number: usize,
    mqtt: &Mqtt,
    jobs: &[Job],
    start: Instant,
    rows: &mut MessageTable,
) -> Result<Vec<ClientRow>, CollectError> {
    let clients = mqtt.clients();
    let interaction: Arc<str> = mqtt.name.as_str().into();
    let names: Vec<Arc<str>> = clients.iter().map(|c| c.node.as_str().into()).collect();
    let schedule = mqtt.schedule(plan.impairment_seed(), number);
    let begin = rows.len();
    rows.extend(schedule.iter().enumerate().map(|(message, planned)| Message {
        message: message as u64,
        interaction: interaction.clone(),
        sender: names[planned.from].clone(),
        peer: names[planned.to].clone(),
        intended_ns: planned.at.as_ns() as i64,
        bytes: mqtt.payload_bytes as u32,
        one_way: true,
        ..Message::default()
    }));
    let place: HashMap<&str, usize> =
        clients.iter().enumerate().map(|(place, c)| (c.node.as_str(), place)).collect();
    let mut messages = MessageRows { schedule, rows, begin };
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
            let line = line?;
            let time = Instant::from_ns(line.time_ns).ns_from(start);
            let noted = messages.note(&line, client, time, &mut row);
            noted.map_err(CollectError::of(&job.name, &job.files.events))?;
        }
        table.push(row);
    }
    Ok(table)
}

/// The scheduled messages, each with its row.
struct MessageRows<'a> {
    schedule: Vec<MqttMessage>,
    rows: &'a mut MessageTable,
    /// The first message's row.
    begin: usize,
}

impl MessageRows<'_> {
    /// Records an event of `client` at `time`, in ns since the start.
    fn note(
        &mut self,
        line: &MessageEvent<'_, ClientEvent>,
        client: usize,
        time: i64,
        row: &mut ClientRow,
    ) -> io::Result<()> {
        let change: fn(&mut Message, i64) = match line.event {
            ClientEvent::Connected => {
                row.connected_ns.get_or_insert(time);
                row.connections += 1;
                return Ok(());
            }
            ClientEvent::Disconnected => {
                row.lost += 1;
                return Ok(());
            }
            ClientEvent::Sent => |row, time| _ = row.sent_ns.get_or_insert(time),
            ClientEvent::Acknowledged => |row, time| _ = row.acknowledged_ns.get_or_insert(time),
            ClientEvent::Received => |row, time| _ = row.received_ns.get_or_insert(time),
            ClientEvent::Duplicate => |row, _| row.duplicates += 1,
        };
        let place = line.message as usize;
        let Some(planned) = self.schedule.get(place) else { return Ok(()) };
        let is_receiver = matches!(line.event, ClientEvent::Received | ClientEvent::Duplicate);
        // A client knows only what it publishes or receives.
        if client != if is_receiver { planned.to } else { planned.from } {
            return Ok(());
        }
        self.rows.update(self.begin + place, |row| change(row, time))
    }
}

#[cfg(test)]
#[path = "mqtt_tests.rs"]
mod tests;
