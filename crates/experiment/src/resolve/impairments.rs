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

/// Converts `impairment` to the medium's type. File names are relative to `base`.
pub(super) fn resolve(impairment: &Impairment, base: &Path, sink: &mut Sink) -> medium::Impairment {
    let none = medium::Impairment::default();
    let outages = impairment.outage.iter().flat_map(|at| &at.value.0);
    medium::Impairment {
        delay: some(&impairment.delay).unwrap_or(none.delay),
        jitter: some(&impairment.jitter).unwrap_or(none.jitter),
        correlation: some(&impairment.correlation).unwrap_or_default(),
        distribution: impairment
            .distribution
            .as_ref()
            .map_or(none.distribution, |at| distribution(&at.value, base, sink)),
        keep_order: some(&impairment.keep_order).unwrap_or(none.keep_order),
        loss: some(&impairment.loss).unwrap_or_default(),
        loss_correlation: some(&impairment.loss_correlation).unwrap_or_default(),
        loss_unit: some(&impairment.loss_unit).unwrap_or_default(),
        gilbert_elliott: impairment.gilbert_elliott.as_ref().map(|at| gilbert(&at.value)),
        markov: impairment.markov.as_ref().map(|at| markov(&at.value)),
        corrupt: some(&impairment.corrupt).unwrap_or_default(),
        corrupt_correlation: some(&impairment.corrupt_correlation).unwrap_or_default(),
        duplicate: some(&impairment.duplicate).unwrap_or_default(),
        duplicate_correlation: some(&impairment.duplicate_correlation).unwrap_or_default(),
        reorder: some(&impairment.reorder).unwrap_or_default(),
        reorder_correlation: some(&impairment.reorder_correlation).unwrap_or_default(),
        gap: some(&impairment.gap).unwrap_or(none.gap),
        rate: some(&impairment.rate),
        burst: some(&impairment.burst).unwrap_or(none.burst),
        overhead: some(&impairment.overhead).map_or(none.overhead, |signed| signed.0),
        cell: impairment.cell.as_ref().and_then(|at| cells(&at.value)),
        trace: impairment.trace.as_ref().and_then(|at| trace(at, base, sink)),
        grant: impairment.grant.as_ref().map(|at| at.value.0.clone()),
        queue: some(&impairment.queue).unwrap_or(none.queue),
        codel: impairment.codel.as_ref().map(|at| codel(&at.value)),
        red: impairment.red.as_ref().and_then(|at| red(&at.value)),
        slot: impairment.slot.as_ref().and_then(|at| slot(&at.value)),
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

fn gilbert(impairment: &Gilbert) -> medium::GilbertElliott {
    let p = some(&impairment.p).unwrap_or_default();
    medium::GilbertElliott {
        p,
        r: some(&impairment.r).unwrap_or(share(1.0 - p.fraction())),
        loss_bad: some(&impairment.loss_bad).unwrap_or(share(1.0)),
        loss_good: some(&impairment.loss_good).unwrap_or_default(),
    }
}

fn markov(impairment: &Markov) -> medium::Markov {
    let p13 = some(&impairment.p13).unwrap_or_default();
    medium::Markov {
        p13,
        p31: some(&impairment.p31).unwrap_or(share(1.0 - p13.fraction())),
        p32: some(&impairment.p32).unwrap_or_default(),
        p23: some(&impairment.p23).unwrap_or(share(1.0)),
        p14: some(&impairment.p14).unwrap_or_default(),
    }
}

fn cells(impairment: &Cells) -> Option<medium::Cell> {
    let overhead = some(&impairment.overhead).unwrap_or_default();
    Some(medium::Cell { size: some(&impairment.size)?, overhead })
}

fn codel(impairment: &Codel) -> medium::Codel {
    let defaults = medium::Codel::default();
    medium::Codel {
        target: some(&impairment.target).unwrap_or(defaults.target),
        interval: some(&impairment.interval).unwrap_or(defaults.interval),
    }
}

fn red(impairment: &Red) -> Option<medium::Red> {
    Some(medium::Red {
        min: some(&impairment.min)?,
        max: some(&impairment.max)?,
        probability: some(&impairment.probability).unwrap_or(share(0.02)),
        weight: some(&impairment.weight).unwrap_or(share(0.002)),
    })
}

fn slot(impairment: &Slot) -> Option<medium::Slot> {
    let min = some(&impairment.min)?;
    let max = some(&impairment.max).unwrap_or(min);
    Some(medium::Slot {
        min,
        max,
        packets: some(&impairment.packets),
        bytes: some(&impairment.bytes),
    })
}

fn outage(impairment: &Outage) -> Option<medium::Outage> {
    match (some(&impairment.mean_up), some(&impairment.mean_down)) {
        (Some(mean_up), Some(mean_down)) => Some(medium::Outage::Random { mean_up, mean_down }),
        _ => Some(medium::Outage::Scheduled {
            at: some(&impairment.at)?,
            lasts: some(&impairment.lasts)?,
            every: some(&impairment.every),
        }),
    }
}
