//! Merges all programs' records into the rows of the run folder's tables.

use crate::bed::jobs::{Job, Role};
use crate::collect::{FanOut, Schedule, collect};
use crate::error::Error;
use crate::exchange_rows::{Passed, Tables};
use experiment::{Interaction, Plan, Workload};
use measure::{ClientRow, MessageTable, RowTable, SectionRow};
use std::path::Path;
use units::Instant;

/// The rows of all programs.
#[derive(Debug)]
pub(crate) struct Rows {
    /// All messages, workload by workload.
    pub messages: MessageTable,
    /// All clients of brokers.
    pub clients: Vec<ClientRow>,
    /// The sections of all exchanges.
    pub sections: RowTable<SectionRow>,
    /// Traffic of the nodes that drove exchanges, by their own counters.
    pub passed: Vec<Passed>,
}

/// The rows of all workloads. Tables may need files in `folder`.
pub(crate) fn rows(
    plan: &Plan,
    jobs: &[Job],
    start: Instant,
    folder: &Path,
) -> Result<Rows, Error> {
    let mut rows = Rows {
        messages: MessageTable::new(folder),
        clients: Vec::new(),
        sections: RowTable::new(folder),
        passed: Vec::new(),
    };
    for (number, workload) in plan.workloads.iter().enumerate() {
        match workload {
            Workload::Interaction(interaction) => {
                answered(interaction, number, jobs, start, &mut rows.messages)?;
            }
            Workload::Mqtt(mqtt) => {
                let messages = &mut rows.messages;
                let own = crate::mqtt::collect(plan, number, mqtt, jobs, start, messages)?;
                rows.clients.extend(own);
            }
            Workload::Exchange(exchange) => {
                let tables = Tables {
                    messages: &mut rows.messages,
                    sections: &mut rows.sections,
                    passed: &mut rows.passed,
                };
                crate::exchange_rows::collect(plan, number, exchange, jobs, start, tables)?;
            }
            // Loads have statistics only: too many requests for rows.
            Workload::Load(_) | Workload::Device(_) | Workload::Probe(_) | Workload::Command(_) => {
            }
        }
    }
    Ok(rows)
}

/// Adds the rows of one interaction.
fn answered(
    interaction: &Interaction,
    number: usize,
    jobs: &[Job],
    start: Instant,
    rows: &mut MessageTable,
) -> Result<(), Error> {
    let schedule = Schedule {
        name: &interaction.name,
        start,
        every: interaction.every,
        messages: interaction.messages,
        sinks: &interaction.sinks,
        fan_out: interaction.down.is_to_all().then(|| {
            let sinks = |message| interaction.sinks_of(message) as usize;
            FanOut::of((0..interaction.messages).map(sinks))
        }),
        bytes: interaction.payload_bytes as u32,
    };
    let of = |role: Role| {
        jobs.iter().filter(move |job| job.workload == Some(number) && job.role == role)
    };
    let Some(source) = of(Role::Source).next() else { return Ok(()) };
    let sinks: Vec<_> =
        of(Role::Sink).map(|job| (job.name.as_str(), job.files.events.clone())).collect();
    Ok(collect(&schedule, (&source.name, &source.files.events), &sinks, rows)?)
}
