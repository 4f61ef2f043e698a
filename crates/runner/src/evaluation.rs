//! From what a run measured to rows, the facts of the verdict and the run folder's results.

use crate::bed::{Topology, emulated, netem};
use crate::error::Error;
use crate::exchange_rows::Passed;
use crate::folder::Folder;
use crate::full_disk::lost_to_full_disk;
use crate::link_rows::LinkRows;
use crate::load_figures::{self, Loads};
use crate::measurement::Measured;
use crate::options::Options;
use crate::overflows::overflows;
use crate::probe_figures::{self, Probes};
use crate::program_metrics::{self, ProgramMetrics};
use crate::results::Results;
use crate::rows::{Rows, rows};
use crate::waits::Waits;
use experiment::{Backend, Clock, Plan};
use measure::{
    Accounting, Count, Deviation, Facts, Failure, HostLoad, LinkRow, LossGroups, Lost, Overflows,
    Tests, Tolerances, Usage, Written,
};
use record::{Messages, Verdict};
use std::time::SystemTime;
use units::Span;

/// The rows and figures of a run.
pub(crate) struct Evaluation<'a> {
    plan: &'a Plan,
    options: &'a Options<'a>,
    rows: Rows,
    loads: Loads,
    probes: Probes,
    programs: ProgramMetrics,
    outcomes: Messages,
    /// Configured and measured impairments of links, for the whole run and by intervals.
    links: Vec<LinkRow>,
    intervals: LinkRows,
    tolerances: Tolerances,
    /// How far links are from their configuration.
    compared: Compared,
    scheduled: Vec<Waits>,
}

impl<'a> Evaluation<'a> {
    /// Reads what the programs wrote, and compares links with their configuration.
    ///
    /// # Errors
    /// If a program's file cannot be read.
    pub fn of(
        plan: &'a Plan,
        options: &'a Options<'a>,
        measured: &mut Measured,
        folder: &Folder,
    ) -> Result<Self, Error> {
        let intervals = std::mem::take(&mut measured.intervals);
        let Measured { jobs, outcome, start, by_netem, usage, shortened, .. } = &*measured;
        let rows = rows(plan, jobs, *start, folder.path())?;
        let outcomes = measure::outcomes(&rows.messages, plan.duration.as_ns() as i64)
            .map_err(Error::io(READ_MESSAGES))?;
        let topology = &measured.design.topology;
        let intervals = LinkRows::of(plan, topology, &outcome.totals, intervals, *start)
            .map_err(Error::io(READ_INTERVALS))?
            .with_netem(by_netem);
        let (tolerances, compared) = compare(&intervals).map_err(Error::io(READ_INTERVALS))?;
        let [before, after] = &measured.scheduled;
        let scheduled = Waits::between(plan, before.clone(), after, usage);
        Ok(Self {
            plan,
            options,
            loads: load_figures::collect(plan, jobs),
            probes: probe_figures::collect(plan, jobs, folder.path())?,
            programs: program_metrics::collect(plan, jobs, *start, shortened, folder.path()),
            rows,
            outcomes,
            links: intervals.whole(),
            intervals,
            tolerances,
            compared,
            scheduled,
        })
    }

    /// What the verdict is based on.
    ///
    /// # Errors
    /// When the usage of the host cannot be read.
    pub fn facts(&self, measured: &Measured) -> Result<Facts, Error> {
        let Measured { outcome, usage, captured, by_netem, .. } = measured;
        let (accounting, excused) = (&outcome.observer, netem::excused(by_netem));
        Ok(Facts {
            configured_cpu: self.options.clock == Clock::Virtual,
            costless: self.options.is_costless(),
            smallest_delay: smallest_delay(self.plan),
            delayed: accounting.delayed().clone(),
            undelayed: accounting.undelayed().clone(),
            rtd_ms: self.outcomes.rtd_ms,
            slip_ms: self.outcomes.slip_ms,
            unsent: self.outcomes.unsent,
            host: self.host_load(measured)?,
            kernel_drops: self.kernel_drops(measured).saturating_sub(excused.kernel),
            rejected: rejected(&self.links),
            overflows: self.overflows(measured),
            socket_drops: measured.socket_drops.saturating_sub(excused.sockets),
            stalls: outcome.stalls,
            frames: accounting.nodes().iter().map(|node| node.tx.frames).sum(),
            capture_missed: captured.missed,
            lost: lost(measured),
            deviations: self.compared.deviations.clone(),
            compared: self.compared.intervals,
            unmeasured: by_netem.len(),
            backlog_drops: measured.backlog_drops,
            run_delay_pct: Waits::share_pct(&self.scheduled),
            run_delay_per_message_ms: self.run_delay_per_message_ms(usage),
            loads: self.loads.submitted.clone(),
            probes: self.probes.contended.clone(),
            counts: self.counts(measured),
            emulated: emulated(self.plan),
            failures: self.failures(measured),
        })
    }

    /// CPU load of the host while messages were in flight. Rows count from offset 0, the samples
    /// of the host are on CLOCK_MONOTONIC.
    fn host_load(&self, measured: &Measured) -> Result<HostLoad, Error> {
        let absolute = |ns: i64| measured.start.at_offset(ns);
        let spans = measure::under_way(&self.rows.messages).map_err(Error::io(READ_MESSAGES))?;
        let spans: Vec<_> = spans.iter().map(|(a, b)| (absolute(*a), absolute(*b))).collect();
        HostLoad::of(measured.usage.host(), &spans).map_err(Error::io("read the host's usage"))
    }

    fn overflows(&self, measured: &Measured) -> Overflows {
        let topology = &measured.design.topology;
        overflows(self.plan, topology, &measured.outcome, &measured.shortened)
    }

    fn run_delay_per_message_ms(&self, usage: &Usage) -> Option<f64> {
        Waits::per_message_ms(&self.scheduled, usage, self.outcomes.sent)
    }

    fn counts(&self, measured: &Measured) -> Vec<Count> {
        let (accounting, topology) = (&measured.outcome.observer, &measured.design.topology);
        counts_of(self.plan, &self.rows.passed, accounting, topology, &measured.captured)
    }

    /// Frames that the nodes' kernels dropped, without those that a configured bit error made
    /// invalid.
    fn kernel_drops(&self, measured: &Measured) -> u64 {
        let counted = measured.settled.kernel.iter().flatten().map(|c| c.tx_dropped + c.rx_dropped);
        let refused = measured.outcome.observer.nodes().iter().map(|node| node.refused);
        let corrupted = self.links.iter().map(|row| row.measured.corrupted).sum();
        (counted.sum::<u64>() + refused.sum::<u64>()).saturating_sub(corrupted)
    }

    /// Failures of programs and of the bed.
    fn failures(&self, measured: &Measured) -> Vec<Failure> {
        let end = measured.phases.last().map_or(measured.start, |(_, at)| *at);
        let checks = crate::program_checks::failures(&measured.jobs, end, &measured.shortened);
        let of_loads = self.loads.failures.iter().chain(&self.programs.failures).chain(&checks);
        let of_loads = of_loads.cloned().map(Failure::Program);
        let refused = measured.outcome.refused.iter();
        let refused = refused.map(|why| Failure::Bed(format!("could not change a link: {why}")));
        measured.failures.iter().cloned().chain(of_loads).chain(refused).collect()
    }

    /// All results, for the run folder.
    pub fn results(
        &'a self,
        measured: &'a Measured,
        started: SystemTime,
        verdict: &'a Verdict,
    ) -> Results<'a> {
        Results {
            plan: self.plan,
            options: self.options,
            started,
            phases: &measured.phases,
            start: measured.start,
            design: &measured.design,
            jobs: &measured.jobs,
            messages: &self.rows.messages,
            clients: &self.rows.clients,
            sections: &self.rows.sections,
            loads: &self.loads.figures,
            probes: &self.probes,
            programs: &self.programs,
            outcomes: &self.outcomes,
            usage: &measured.usage,
            uncounted: measured.uncounted.as_deref(),
            scheduled: &self.scheduled,
            accounting: &measured.outcome.observer,
            links: &self.links,
            intervals: &self.intervals,
            tolerances: &self.tolerances,
            deviating: self.compared.deviating,
            made: &measured.changes,
            injected: &measured.faults,
            decisions_missed: measured.decisions_missed,
            priority: measured.outcome.priority,
            frame_path: measured.frame_path,
            stalls: measured.outcome.stalls,
            settled: &measured.settled,
            verdict,
        }
    }
}

const READ_MESSAGES: &str = "read the rows of messages";
const READ_INTERVALS: &str = "read the intervals of links";

/// How far links are from their configuration.
struct Compared {
    /// Intervals and groups of links outside tolerance.
    deviations: Vec<Deviation>,
    /// Number of intervals among them.
    deviating: usize,
    /// Number of intervals with frames.
    intervals: usize,
}

/// Compares all intervals with their configuration, in constant memory.
fn compare(rows: &LinkRows) -> std::io::Result<(Tolerances, Compared)> {
    // Two passes, because the share of false alarms of each test depends on the number of tests
    // (decision 61).
    let mut tests = Tests::default();
    for row in rows.intervals() {
        tests.add(&row?);
    }
    let tolerances = tests.tolerances();
    let (mut deviations, mut groups, mut intervals) = (Vec::new(), LossGroups::default(), 0);
    for row in rows.intervals() {
        let row = row?;
        deviations.extend(tolerances.deviation(&row));
        groups.add(&row);
        intervals += usize::from(row.measured.frames > 0);
    }
    let deviating = deviations.len();
    deviations.extend(groups.deviations(&tolerances));
    Ok((tolerances, Compared { deviations, deviating, intervals }))
}

/// What was given up because the disk was full.
fn lost(measured: &Measured) -> Vec<Lost> {
    let Measured { disk, captured, decisions_missed, start, .. } = measured;
    let output = measured.shortened.iter().map(|log| log.bytes).sum();
    lost_to_full_disk(disk, captured, output, *decisions_missed, *start)
}

/// Number of frames that networks rejected, and the source of most of them.
fn rejected(links: &[LinkRow]) -> (u64, String) {
    let worst = links.iter().max_by_key(|row| row.measured.rejected);
    let name = worst.map_or(String::new(), |row| format!("{}:{}", row.node, row.interface));
    (links.iter().map(|row| row.measured.rejected).sum(), name)
}

/// The frame counts of nodes that drove exchanges, together with the medium's and the capture's.
/// Skips nodes on several networks, because they count on one only, and nodes on networks that
/// netem impairs, because they count on its other side.
fn counts_of(
    plan: &Plan,
    passed: &[Passed],
    accounting: &Accounting,
    topology: &Topology,
    captured: &Written,
) -> Vec<Count> {
    let mut counts = Vec::new();
    for (node, out_bytes, in_bytes) in passed {
        let (planned, Some(medium)) = (&plan.nodes[*node], accounting.nodes().get(*node)) else {
            continue;
        };
        let by_netem = |link: &experiment::PlannedLink| {
            plan.network(&link.network).is_some_and(|n| n.backend == Backend::Netem)
        };
        if planned.links.len() != 1 || planned.links.iter().any(by_netem) {
            continue;
        }
        let own = |place: &&engine::Place| topology.owners[place.segment][place.endpoint] == *node;
        let place = topology.places.iter().find(own);
        let in_capture =
            place.and_then(|place| *captured.bytes.get(place.segment)?.get(place.endpoint)?);
        // Frames missed because of a slow disk are reported separately.
        let in_capture = in_capture.filter(|_| captured.missed + captured.given_up == 0);
        for (number, way, kernel, medium) in
            [(0, "sent", *out_bytes, medium.tx.bytes), (1, "received", *in_bytes, medium.rx.bytes)]
        {
            let capture = in_capture.map(|bytes| bytes[number]);
            counts.push(Count { node: planned.name.clone(), way, kernel, medium, capture });
        }
    }
    counts
}

/// The smallest configured delay above 0 of any link.
fn smallest_delay(plan: &Plan) -> Option<Span> {
    let links = plan.nodes.iter().flat_map(|node| &node.links);
    let delays = links.flat_map(|link| [link.up.delay.mean, link.down.delay.mean]);
    delays.filter(|delay| *delay > Span::ZERO).min()
}
