//! All results of a finished run.

use crate::bed::faults::InjectedFault;
use crate::bed::jobs::Job;
use crate::bed::{Design, ManualChange, Settled};
use crate::link_rows::LinkRows;
use crate::options::Options;
use crate::probe_figures::Probes;
use crate::program_metrics::ProgramMetrics;
use crate::progress::Begun;
use crate::waits::Waits;
use engine::{FramePath, Priority, Stalls};
use experiment::Plan;
use measure::{
    Accounting, ClientRow, LinkRow, Message, MessageTable, RowTable, SectionRow, Tolerances, Usage,
};
use record::{Load, Messages, Verdict};
use std::collections::BTreeMap;
use std::io;
use std::time::SystemTime;
use units::Instant;

/// All results of a finished run.
pub(crate) struct Results<'a> {
    pub plan: &'a Plan,
    pub options: &'a Options<'a>,
    pub started: SystemTime,
    pub phases: &'a [Begun],
    /// Time of offset 0.
    pub start: Instant,
    pub design: &'a Design,
    pub jobs: &'a [Job],
    pub messages: &'a MessageTable,
    pub clients: &'a [ClientRow],
    /// The sections of exchanges.
    pub sections: &'a RowTable<SectionRow>,
    /// The results of loads.
    pub loads: &'a Option<BTreeMap<String, Load>>,
    /// The results of probes.
    pub probes: &'a Probes,
    /// The values that programs printed.
    pub programs: &'a ProgramMetrics,
    pub outcomes: &'a Messages,
    pub usage: &'a Usage,
    /// Why resource usage does not come from control groups, if so.
    pub uncounted: Option<&'a str>,
    /// Run and wait time of each node's programs.
    pub scheduled: &'a [Waits],
    pub accounting: &'a Accounting,
    /// Configured and measured impairments of links, for the whole run and by intervals.
    pub links: &'a [LinkRow],
    pub intervals: &'a LinkRows,
    /// The tolerances between configured and measured values.
    pub tolerances: &'a Tolerances,
    /// Number of link intervals outside tolerance.
    pub deviating: usize,
    /// Changes made by hand during the run.
    pub made: &'a [ManualChange],
    /// Faults injected into programs.
    pub injected: &'a [InjectedFault],
    /// Number of decisions missing in `decisions.parquet`.
    pub decisions_missed: u64,
    pub priority: Priority,
    pub frame_path: FramePath,
    pub stalls: Stalls,
    pub settled: &'a Settled,
    pub verdict: &'a Verdict,
}

/// The rows of a workload.
pub(crate) fn rows_of<'a>(
    results: &'a Results<'_>,
    workload: &'a str,
) -> impl Iterator<Item = io::Result<Message>> + 'a {
    let is_own = move |row: &io::Result<Message>| match row {
        Ok(row) => *row.interaction == *workload,
        Err(_) => true,
    };
    results.messages.iter().filter(is_own)
}
