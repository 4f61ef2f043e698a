//! Results of probes: rows, statistics, and where contention was highest.

use crate::bed::jobs::Job;
use crate::collect::{CollectError, events};
use crate::load::probes;
use experiment::{Plan, Probe, Workload};
use measure::{Contended, ProbeRow, times};
use record::ProbeStatistics;
use record::event::Probed;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::Histogram;

/// The results of a run's probes.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// A row for each request.
    pub rows: Vec<ProbeRow>,
    /// For the summary: each workload's results by name; `None` without any.
    pub figures: Option<BTreeMap<String, record::Probes>>,
    /// For the verdict: each core and mode by itself.
    pub contended: Vec<Contended>,
}

/// Reads the probes' records. The unfinished line of a killed program is ignored.
///
/// # Errors
/// A file of events is invalid.
pub(crate) fn collect(plan: &Plan, jobs: &[Job]) -> Result<Probes, CollectError> {
    let mut found = Probes::default();
    let mut figures = BTreeMap::new();
    for (number, probe) in probes(plan) {
        let begin = found.rows.len();
        for job in jobs.iter().filter(|job| job.workload == Some(number)) {
            let name: Arc<str> = probe.name.as_str().into();
            let node: Arc<str> = job.name.as_str().into();
            for probed in events::<Probed>(&job.name, &job.files.events)? {
                found.rows.push(row(&probed?, probe, &name, &node));
            }
        }
        let (own, contended) = of(probe, &found.rows[begin..]);
        found.contended.extend(telling(plan, contended));
        figures.insert(probe.name.clone(), own);
    }
    found.figures = (!figures.is_empty()).then_some(figures);
    Ok(found)
}

/// The probes that behave like the run's devices: contention affects computing and waiting programs
/// differently. All probes if there are no devices or no such probes.
fn telling(plan: &Plan, contended: Vec<Contended>) -> Vec<Contended> {
    let modes: BTreeSet<String> = plan
        .workloads
        .iter()
        .flat_map(|workload| match workload {
            Workload::Device(device) => device.modes(),
            _ => Vec::new(),
        })
        .map(|mode| mode.to_string())
        .collect();
    let alike = |probes: &Contended| modes.contains(&probes.mode);
    if contended.iter().any(alike) {
        contended.into_iter().filter(alike).collect()
    } else {
        contended
    }
}

fn row(probed: &Probed, probe: &Probe, name: &Arc<str>, node: &Arc<str>) -> ProbeRow {
    ProbeRow {
        probe: name.clone(),
        node: node.clone(),
        core: probed.core as u32,
        mode: probed.mode.to_string().into(),
        intended_ns: probed.intended_ns as i64,
        sent_ns: probed.sent_ns as i64,
        answered_ns: probed.answered_ns.map(|at| at as i64),
        deviation: probed.deviation(probe.service().as_ns()),
    }
}

/// The results of one workload, and of each of its cores and modes.
fn of(probe: &Probe, rows: &[ProbeRow]) -> (record::Probes, Vec<Contended>) {
    let mut each: BTreeMap<(u32, &str), Vec<&ProbeRow>> = BTreeMap::new();
    for row in rows {
        each.entry((row.core, &row.mode)).or_default().push(row);
    }
    let mut by_core: BTreeMap<u64, BTreeMap<String, _>> = BTreeMap::new();
    let mut contended = Vec::new();
    for ((core, mode), rows) in &each {
        let own = deviations(rows.iter().copied());
        let worst = rows.iter().max_by(|a, b| a.deviation.total_cmp(&b.deviation));
        contended.push(Contended {
            core: *core,
            mode: (*mode).to_owned(),
            mean: own.as_ref().map_or(0.0, |own| own.mean),
            median: own.as_ref().map_or(0.0, |own| own.p50),
            over_pct: 100.0 * over(rows, probe.limit.fraction()),
            worst_s: worst.map_or(0.0, |row| row.sent_ns as f64 / 1e9),
        });
        by_core.entry(u64::from(*core)).or_default().insert((*mode).to_owned(), own);
    }
    let figures = record::Probes {
        service_ms: probe.service().as_ns() as f64 / 1e6,
        limit: probe.limit.fraction(),
        requests: rows.len() as u64,
        over_limit_pct: 100.0 * over(&rows.iter().collect::<Vec<_>>(), probe.limit.fraction()),
        deviation: deviations(rows.iter()),
        cores: by_core,
    };
    (figures, contended)
}

/// The fraction of requests above the limit, 0 to 1.
fn over(rows: &[&ProbeRow], limit: f64) -> f64 {
    let over = rows.iter().filter(|row| row.deviation > limit).count();
    over as f64 / rows.len().max(1) as f64
}

/// Mean and percentiles, recorded in units of a millionth of the service time.
fn deviations<'a>(rows: impl Iterator<Item = &'a ProbeRow>) -> Option<ProbeStatistics> {
    let latency: Histogram =
        // Faster than the service time counts as on time: the histogram has no negative values.
        rows.map(|row| (row.deviation.max(0.0) * 1e6).round() as u64).collect();
    let found = times(&latency, 1e6)?;
    let record::Times { mean, p50, p95, p99, max, .. } = found;
    Some(ProbeStatistics { mean, p50, p95, p99, max })
}
