//! Merges all programs' records into the rows of the run folder's tables.

use crate::bed::jobs::{Job, Role};
use crate::collect::{Schedule, collect};
use crate::error::Error;
use crate::exchange_rows::Passed;
use experiment::{Interaction, Plan, Workload};
use measure::{ClientRow, Message, SectionRow};

/// The rows of all programs.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// All messages, workload by workload.
    pub messages: Vec<Message>,
    /// All clients of brokers.
    pub clients: Vec<ClientRow>,
    /// The sections of all exchanges.
    pub sections: Vec<SectionRow>,
    /// Traffic of the nodes that drove exchanges, by their own counters.
    pub passed: Vec<Passed>,
}

/// The rows of all workloads.
pub(crate) fn rows(plan: &Plan, jobs: &[Job], start_ns: u64) -> Result<Rows, Error> {
    let mut rows = Rows::default();
    for (number, workload) in plan.workloads.iter().enumerate() {
        match workload {
            Workload::Interaction(interaction) => {
                rows.messages.extend(answered(interaction, number, jobs, start_ns)?);
            }
            Workload::Mqtt(mqtt) => {
                let (more, own) = crate::mqtt::collect(plan, number, mqtt, jobs, start_ns)?;
                rows.messages.extend(more);
                rows.clients.extend(own);
            }
            Workload::Exchange(exchange) => {
                let found = crate::exchange_rows::collect(plan, number, exchange, jobs, start_ns)?;
                rows.messages.extend(found.messages);
                rows.sections.extend(found.sections);
                rows.passed.extend(found.passed);
            }
            // Loads have statistics only: too many requests for rows.
            Workload::Load(_) | Workload::Device(_) | Workload::Probe(_) | Workload::Command(_) => {
            }
        }
    }
    Ok(rows)
}

/// The rows of one interaction.
fn answered(
    interaction: &Interaction,
    number: usize,
    jobs: &[Job],
    start_ns: u64,
) -> Result<Vec<Message>, Error> {
    let schedule = Schedule {
        name: &interaction.name,
        start_ns,
        every_ns: interaction.every.as_ns(),
        messages: interaction.messages,
        sinks: &interaction.sinks,
        fan_out: interaction.down.is_to_all().then(|| {
            (0..interaction.messages)
                .map(|message| interaction.sinks_of(message) as usize)
                .collect()
        }),
        bytes: interaction.payload_bytes as u32,
    };
    let of = |role: Role| {
        jobs.iter().filter(move |job| job.workload == Some(number) && job.role == role)
    };
    let Some(source) = of(Role::Source).next() else { return Ok(Vec::new()) };
    let sinks: Vec<_> =
        of(Role::Sink).map(|job| (job.name.as_str(), job.files.events.clone())).collect();
    Ok(collect(&schedule, (&source.name, &source.files.events), &sinks)?)
}
