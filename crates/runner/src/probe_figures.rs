//! Results of probes: rows, statistics, and where contention was highest.

use crate::bed::jobs::Job;
use crate::collect::{CollectError, events};
use crate::load::probes;
use experiment::{Plan, Probe, Workload};
use measure::{Contended, ProbeRow, RowTable, times};
use record::ProbeStatistics;
use record::event::Probed;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use units::Histogram;

/// The results of a run's probes.
#[derive(Debug)]
pub(crate) struct Probes {
    /// A row for each request.
    pub rows: RowTable<ProbeRow>,
    /// For the summary: each workload's results by name; `None` without any.
    pub figures: Option<BTreeMap<String, record::Probes>>,
    /// For the verdict: each core and mode by itself.
    pub contended: Vec<Contended>,
}

/// Reads the probes' records. The unfinished line of a killed program is ignored. Many rows need a
/// file in `folder`.
///
/// # Errors
/// A file of events is invalid.
pub(crate) fn collect(plan: &Plan, jobs: &[Job], folder: &Path) -> Result<Probes, CollectError> {
    let mut rows = RowTable::new(folder);
    let (mut figures, mut contended) = (BTreeMap::new(), Vec::new());
    for (number, probe) in probes(plan) {
        let mut own = Figures::new(probe);
        for job in jobs.iter().filter(|job| job.workload == Some(number)) {
            let name: Arc<str> = probe.name.as_str().into();
            let node: Arc<str> = job.name.as_str().into();
            for probed in events::<Probed>(&job.name, &job.files.events)? {
                let row = row(&probed?, probe, &name, &node);
                own.add(&row);
                rows.push(row);
            }
        }
        contended.extend(telling(plan, own.contended()));
        figures.insert(probe.name.clone(), own.probes());
    }
    Ok(Probes { rows, figures: (!figures.is_empty()).then_some(figures), contended })
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

/// The figures of one workload, and of each of its cores and modes.
struct Figures<'a> {
    probe: &'a Probe,
    all: Requests,
    each: BTreeMap<(u32, Arc<str>), Requests>,
}

/// The figures of some requests.
#[derive(Debug, Default)]
struct Requests {
    count: u64,
    /// Requests above the limit.
    over: u64,
    /// In millionths of the service time. Faster than the service time counts as on time: the
    /// histogram has no negative values.
    deviations: Histogram,
    /// The largest deviation, and when that request was sent.
    worst: Option<(f64, i64)>,
}

impl<'a> Figures<'a> {
    fn new(probe: &'a Probe) -> Self {
        Self { probe, all: Requests::default(), each: BTreeMap::new() }
    }

    fn add(&mut self, row: &ProbeRow) {
        let limit = self.probe.limit.fraction();
        self.all.add(row, limit);
        self.each.entry((row.core, row.mode.clone())).or_default().add(row, limit);
    }

    fn contended(&self) -> Vec<Contended> {
        let of = |((core, mode), own): (&(u32, Arc<str>), &Requests)| {
            let deviations = own.statistics();
            Contended {
                core: *core,
                mode: mode.to_string(),
                mean: deviations.as_ref().map_or(0.0, |own| own.mean),
                median: deviations.as_ref().map_or(0.0, |own| own.p50),
                over_pct: 100.0 * own.over(),
                worst_s: own.worst.map_or(0.0, |(_, sent_ns)| sent_ns as f64 / 1e9),
            }
        };
        self.each.iter().map(of).collect()
    }

    fn probes(&self) -> record::Probes {
        let mut cores: BTreeMap<u64, BTreeMap<String, _>> = BTreeMap::new();
        for ((core, mode), own) in &self.each {
            cores.entry((*core).into()).or_default().insert(mode.to_string(), own.statistics());
        }
        record::Probes {
            service_ms: self.probe.service().as_ns() as f64 / 1e6,
            limit: self.probe.limit.fraction(),
            requests: self.all.count,
            over_limit_pct: 100.0 * self.all.over(),
            deviation: self.all.statistics(),
            cores,
        }
    }
}

impl Requests {
    fn add(&mut self, row: &ProbeRow, limit: f64) {
        self.count += 1;
        self.over += u64::from(row.deviation > limit);
        self.deviations.record((row.deviation.max(0.0) * 1e6).round() as u64);
        if self.worst.is_none_or(|(worst, _)| row.deviation.total_cmp(&worst).is_ge()) {
            self.worst = Some((row.deviation, row.sent_ns));
        }
    }

    /// The fraction of requests above the limit, 0 to 1.
    fn over(&self) -> f64 {
        self.over as f64 / self.count.max(1) as f64
    }

    /// Mean and percentiles; `None` without requests.
    fn statistics(&self) -> Option<ProbeStatistics> {
        let record::Times { mean, p50, p95, p99, max, .. } = times(&self.deviations, 1e6)?;
        Some(ProbeStatistics { mean, p50, p95, p99, max })
    }
}
