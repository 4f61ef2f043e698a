//! From what a run measured to rows, the facts of the verdict and the run folder's results.

use crate::bed::Topology;
use crate::bed::netem;
use crate::error::Error;
use crate::exchange_rows::Passed;
use crate::folder::Results;
use crate::link_rows::{link_rows, with_netem};
use crate::load_figures::{self, Loads};
use crate::measurement::Measured;
use crate::overflows::overflows;
use crate::probe_figures::{self, Probes};
use crate::program_metrics::{self, ProgramMetrics};
use crate::rows::{Rows, rows};
use crate::run::Options;
use crate::waits::Waits;
use experiment::{Backend, Clock, Plan};
use measure::{Accounting, Count, Deviation, Facts, Failure, LinkRow, Tolerances, Written};
use record::{Messages, Verdict};
use std::time::SystemTime;
use units::Span;

/// The rows and figures of a run.
pub(crate) struct Evaluation {
    rows: Rows,
    loads: Loads,
    probes: Probes,
    programs: ProgramMetrics,
    outcomes: Messages,
    /// Configured and measured impairments of links, for the whole run and by intervals.
    links: Vec<LinkRow>,
    intervals: Vec<LinkRow>,
    tolerances: Tolerances,
    scheduled: Vec<Waits>,
}

impl Evaluation {
    /// Reads what the programs wrote, and compares links with their configuration.
    ///
    /// # Errors
    /// If a program's file cannot be read.
    pub fn of(plan: &Plan, measured: &Measured) -> Result<Self, Error> {
        let Measured { jobs, outcome, start_ns, by_netem, usage, .. } = measured;
        let rows = rows(plan, jobs, *start_ns)?;
        let outcomes = measure::outcomes(&rows.messages, plan.duration.as_ns() as i64);
        let topology = &measured.design.topology;
        let (links, intervals) =
            link_rows(plan, topology, &outcome.totals, &outcome.intervals, *start_ns);
        let (links, intervals) = with_netem(links, intervals, topology, by_netem);
        let tolerances = Tolerances::of(&intervals);
        let [before, after] = &measured.scheduled;
        let scheduled = Waits::between(plan, before.clone(), after, usage);
        Ok(Self {
            loads: load_figures::collect(plan, jobs),
            probes: probe_figures::collect(plan, jobs)?,
            programs: program_metrics::collect(plan, jobs),
            rows,
            outcomes,
            links,
            intervals,
            tolerances,
            scheduled,
        })
    }

    /// What the verdict is based on.
    pub fn facts(&self, plan: &Plan, options: &Options<'_>, measured: &Measured) -> Facts {
        let Measured { outcome, usage, captured, by_netem, .. } = measured;
        let accounting = &outcome.observer;
        let absolute = |ns: i64| (measured.start_ns as i64 + ns) as u64;
        let under_way = measure::under_way(&self.rows.messages);
        let excused = netem::excused(by_netem);
        Facts {
            configured_cpu: options.clock == Clock::Virtual,
            costless: options.is_costless(),
            smallest_delay_ns: smallest_delay(plan),
            delayed: accounting.delayed().clone(),
            undelayed: accounting.undelayed().clone(),
            rtd_ms: self.outcomes.rtd_ms,
            slip_ms: self.outcomes.slip_ms,
            unsent: self.outcomes.unsent,
            host: usage.host.clone(),
            under_way: under_way.iter().map(|(a, b)| (absolute(*a), absolute(*b))).collect(),
            kernel_drops: self.kernel_drops(measured).saturating_sub(excused.kernel),
            rejected: rejected(&self.links),
            overflows: overflows(plan, &measured.design.topology, outcome, &measured.shortened),
            socket_drops: measured.socket_drops.saturating_sub(excused.sockets),
            stalls: outcome.stalls,
            frames: accounting.nodes().iter().map(|node| node.tx.frames).sum(),
            capture_missed: captured.missed,
            deviations: self.deviations(),
            compared: self.intervals.iter().filter(|row| row.measured.frames > 0).count(),
            unmeasured: by_netem.len(),
            backlog_drops: measured.backlog_drops,
            run_delay_pct: Waits::share_pct(&self.scheduled),
            run_delay_per_message_ms: Waits::per_message_ms(
                &self.scheduled,
                usage,
                self.outcomes.sent,
            ),
            loads: self.loads.submitted.clone(),
            probes: self.probes.contended.clone(),
            counts: counts_of(
                plan,
                &self.rows.passed,
                accounting,
                &measured.design.topology,
                captured,
            ),
            failures: self.failures(measured),
        }
    }

    /// Frames that the nodes' kernels dropped, without those that a configured bit error made
    /// invalid.
    fn kernel_drops(&self, measured: &Measured) -> u64 {
        let counted = measured.kernel.iter().flatten().map(|c| c.tx_dropped + c.rx_dropped);
        let refused = measured.outcome.observer.nodes().iter().map(|node| node.refused);
        let corrupted = self.links.iter().map(|row| row.measured.corrupted).sum();
        (counted.sum::<u64>() + refused.sum::<u64>()).saturating_sub(corrupted)
    }

    /// Links outside tolerance.
    fn deviations(&self) -> Vec<Deviation> {
        let single = self.intervals.iter().filter_map(|row| self.tolerances.deviation(row));
        single.chain(self.tolerances.group_deviations(&self.intervals)).collect()
    }

    /// Failures of programs and of the bed.
    fn failures(&self, measured: &Measured) -> Vec<Failure> {
        let of_loads = self.loads.failures.iter().chain(&self.programs.failures);
        let of_loads = of_loads.cloned().map(Failure::Program);
        let refused = measured.outcome.refused.iter();
        let refused = refused.map(|why| Failure::Bed(format!("could not change a link: {why}")));
        measured.failures.iter().cloned().chain(of_loads).chain(refused).collect()
    }

    /// All results, for the run folder.
    pub fn results<'a>(
        &'a self,
        plan: &'a Plan,
        options: &'a Options<'a>,
        measured: &'a Measured,
        started: SystemTime,
        verdict: &'a Verdict,
    ) -> Results<'a> {
        let design = &measured.design;
        Results {
            plan,
            options,
            started,
            phases: &measured.phases,
            start_ns: measured.start_ns,
            topology: &design.topology,
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
            host_cpu: design.is_limited_by_host.then_some(&design.host_cpu),
            scheduled: &self.scheduled,
            accounting: &measured.outcome.observer,
            links: &self.links,
            intervals: &self.intervals,
            tolerances: &self.tolerances,
            made: &measured.changes,
            injected: &measured.faults,
            decisions_missed: measured.decisions_missed,
            priority: measured.outcome.priority,
            threads: design.threads.count(),
            frame_path: measured.frame_path,
            why_path: design.path.why(),
            stalls: measured.outcome.stalls,
            placement: design.placement.as_ref(),
            kernel: &measured.kernel,
            verdict,
        }
    }
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
        let in_capture = in_capture.filter(|_| captured.missed == 0);
        for (number, way, kernel, medium) in
            [(0, "sent", *out_bytes, medium.tx.bytes), (1, "received", *in_bytes, medium.rx.bytes)]
        {
            let capture = in_capture.map(|bytes| bytes[number]);
            counts.push(Count { node: planned.name.clone(), way, kernel, medium, capture });
        }
    }
    counts
}

/// The smallest configured delay above 0 of any link, in ns.
fn smallest_delay(plan: &Plan) -> u64 {
    let links = plan.nodes.iter().flat_map(|node| &node.links);
    let delays = links.flat_map(|link| [link.up.delay.mean, link.down.delay.mean]);
    delays.filter(|delay| *delay > Span::ZERO).map(Span::as_ns).min().unwrap_or(0)
}
