//! Converts impairments of the file to the medium's types.

use crate::file::{Cells, Codel, Gilbert, Impairment, Markov, Outage, Red, Shape, Slot};
use crate::problem::Problem;
use crate::read::{At, Sink};
use medium::Distribution;
use std::path::Path;
use units::Ratio;

fn some<T: Copy>(at: &Option<At<T>>) -> Option<T> {
    at.as_ref().map(|at| at.value)
}

/// Converts `asked` to the medium's type. File names are relative to `base`.
pub(super) fn resolve(asked: &Impairment, base: &Path, sink: &mut Sink) -> medium::Impairment {
    let none = medium::Impairment::default();
    let outages = asked.outage.iter().flat_map(|at| &at.value.0);
    medium::Impairment {
        delay: some(&asked.delay).unwrap_or(none.delay),
        jitter: some(&asked.jitter).unwrap_or(none.jitter),
        correlation: some(&asked.correlation).unwrap_or_default(),
        distribution: asked
            .distribution
            .as_ref()
            .map_or(none.distribution, |at| distribution(&at.value, base, sink)),
        keep_order: some(&asked.keep_order).unwrap_or(none.keep_order),
        loss: some(&asked.loss).unwrap_or_default(),
        loss_correlation: some(&asked.loss_correlation).unwrap_or_default(),
        loss_unit: some(&asked.loss_unit).unwrap_or_default(),
        gilbert_elliott: asked.gilbert_elliott.as_ref().map(|at| gilbert(&at.value)),
        markov: asked.markov.as_ref().map(|at| markov(&at.value)),
        corrupt: some(&asked.corrupt).unwrap_or_default(),
        corrupt_correlation: some(&asked.corrupt_correlation).unwrap_or_default(),
        duplicate: some(&asked.duplicate).unwrap_or_default(),
        duplicate_correlation: some(&asked.duplicate_correlation).unwrap_or_default(),
        reorder: some(&asked.reorder).unwrap_or_default(),
        reorder_correlation: some(&asked.reorder_correlation).unwrap_or_default(),
        gap: some(&asked.gap).unwrap_or(none.gap),
        rate: some(&asked.rate),
        burst: some(&asked.burst).unwrap_or(none.burst),
        overhead: some(&asked.overhead).map_or(none.overhead, |signed| signed.0),
        cell: asked.cell.as_ref().and_then(|at| cells(&at.value)),
        trace: asked.trace.as_ref().and_then(|at| trace(at, base, sink)),
        grant: asked.grant.as_ref().map(|at| at.value.0.clone()),
        queue: some(&asked.queue).unwrap_or(none.queue),
        codel: asked.codel.as_ref().map(|at| codel(&at.value)),
        red: asked.red.as_ref().and_then(|at| red(&at.value)),
        slot: asked.slot.as_ref().and_then(|at| slot(&at.value)),
        outages: outages.filter_map(|at| outage(&at.value)).collect(),
    }
}

fn distribution(shape: &Shape, base: &Path, sink: &mut Sink) -> Distribution {
    match shape {
        Shape::Uniform => Distribution::Uniform,
        Shape::Normal => Distribution::Normal,
        Shape::Pareto => Distribution::Pareto,
        Shape::ParetoNormal => Distribution::ParetoNormal,
        Shape::Table(file) => match medium::Table::read(&base.join(&file.value)) {
            Ok(table) => Distribution::Table(table),
            Err(error) => {
                let label = "a file in the `.dist` format of iproute2; paths are relative to this \
                             file";
                sink.add(Problem::new(error.to_string()).at(file.place).label(label));
                Distribution::Uniform
            }
        },
    }
}

fn trace(file: &At<String>, base: &Path, sink: &mut Sink) -> Option<medium::Trace> {
    match medium::Trace::read(&base.join(&file.value)) {
        Ok(trace) => Some(trace),
        Err(error) => {
            let label = "a file in the trace format of Mahimahi; paths are relative to this file";
            sink.add(Problem::new(error.to_string()).at(file.place).label(label));
            None
        }
    }
}

fn share(percent: f64) -> Ratio {
    Ratio::from_fraction(percent.clamp(0.0, 1.0)).unwrap_or_default()
}

fn gilbert(asked: &Gilbert) -> medium::GilbertElliott {
    let p = some(&asked.p).unwrap_or_default();
    medium::GilbertElliott {
        p,
        r: some(&asked.r).unwrap_or(share(1.0 - p.fraction())),
        loss_bad: some(&asked.loss_bad).unwrap_or(share(1.0)),
        loss_good: some(&asked.loss_good).unwrap_or_default(),
    }
}

fn markov(asked: &Markov) -> medium::Markov {
    let p13 = some(&asked.p13).unwrap_or_default();
    medium::Markov {
        p13,
        p31: some(&asked.p31).unwrap_or(share(1.0 - p13.fraction())),
        p32: some(&asked.p32).unwrap_or_default(),
        p23: some(&asked.p23).unwrap_or(share(1.0)),
        p14: some(&asked.p14).unwrap_or_default(),
    }
}

fn cells(asked: &Cells) -> Option<medium::Cell> {
    let overhead = some(&asked.overhead).unwrap_or_default();
    Some(medium::Cell { size: some(&asked.size)?, overhead })
}

fn codel(asked: &Codel) -> medium::Codel {
    let usual = medium::Codel::default();
    medium::Codel {
        target: some(&asked.target).unwrap_or(usual.target),
        interval: some(&asked.interval).unwrap_or(usual.interval),
    }
}

fn red(asked: &Red) -> Option<medium::Red> {
    Some(medium::Red {
        min: some(&asked.min)?,
        max: some(&asked.max)?,
        probability: some(&asked.probability).unwrap_or(share(0.02)),
        weight: some(&asked.weight).unwrap_or(share(0.002)),
    })
}

fn slot(asked: &Slot) -> Option<medium::Slot> {
    let min = some(&asked.min)?;
    let max = some(&asked.max).unwrap_or(min);
    Some(medium::Slot { min, max, packets: some(&asked.packets), bytes: some(&asked.bytes) })
}

fn outage(asked: &Outage) -> Option<medium::Outage> {
    match (some(&asked.mean_up), some(&asked.mean_down)) {
        (Some(mean_up), Some(mean_down)) => Some(medium::Outage::Random { mean_up, mean_down }),
        _ => Some(medium::Outage::Scheduled {
            at: some(&asked.at)?,
            lasts: some(&asked.lasts)?,
            every: some(&asked.every),
        }),
    }
}
