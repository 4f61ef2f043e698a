//! Sensitivity to the CPU: finds the metrics that differ between runs of the same cell with
//! different CPUs in virtual time. The others depend on protocol and network only.

use crate::figures::columns;
use crate::{Cell, Sweep};
use record::Cpu;

/// Metrics that differ by a smaller share count as equal.
const SAME: f64 = 0.01;

/// One metric over all CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Equal for all CPUs.
    Same(String),
    /// The value for each CPU.
    Differs(Vec<String>),
    /// Not measured with all CPUs.
    Missing,
}

/// The metrics of cells over all CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribution {
    /// The CPUs, in the order of the runs.
    pub cpus: Vec<String>,
    /// The axes of the cells, without the CPU axis.
    pub axes: Vec<String>,
    /// Heads and units of the metrics.
    pub heads: Vec<(String, String)>,
    /// Per cell: the values of the axes, and the metrics.
    pub rows: Vec<(Vec<String>, Vec<Mark>)>,
}

impl Attribution {
    /// The attribution of a sweep over several CPUs; `None` for other sweeps.
    pub fn of(sweep: &Sweep) -> Option<Self> {
        let cells = sweep.cells();
        let mut cpus: Vec<Cpu> = Vec::new();
        for cpu in cells.iter().filter_map(|cell| cell.cell.cpu()) {
            if !cpus.contains(&cpu) {
                // In the order of the runs, which is the order of `--cpu`.
                cpus.push(cpu);
            }
        }
        if cpus.len() < 2 {
            return None;
        }
        // CPU time always depends on the CPU.
        // It would be marked as different in each row and say nothing.
        let columns: Vec<_> = columns(sweep).into_iter().filter(|c| c.head != "CPU").collect();
        let first = cells.iter().filter(|cell| cell.cell.cpu() == Some(cpus[0]));
        let first: Vec<&Cell> = first.map(|cell| cell.cell).collect();
        let axes: Vec<String> = match first.first() {
            Some(cell) => cell.without_cpu().axes().map(|(axis, _)| axis.to_owned()).collect(),
            None => return None,
        };
        let rows = first.into_iter().map(|cell| {
            let value = |axis: &String| cell.get(axis).unwrap_or_default().to_owned();
            let by_cpu: Vec<Cell> = cpus.iter().map(|cpu| cell.with_cpu(*cpu)).collect();
            // Over repeats, as in the table of results, so that both show the same figures.
            let each: Vec<_> = by_cpu.iter().map(|cell| sweep.matching(cell)).collect();
            let marks = columns.iter().map(|column| {
                let figures: Option<Vec<f64>> = each
                    .iter()
                    .map(|runs| Some(runs.spread(|run| column.figure(run))?.median))
                    .collect();
                mark(figures.as_deref(), |figure| column.show(Some(figure)))
            });
            (axes.iter().map(value).collect(), marks.collect())
        });
        Some(Self {
            rows: rows.collect(),
            heads: columns
                .iter()
                .map(|column| (column.head.clone(), column.unit.clone().into_owned()))
                .collect(),
            cpus: cpus.iter().map(Cpu::to_string).collect(),
            axes,
        })
    }

    /// Explanation of the table.
    pub fn explanation(&self) -> String {
        format!(
            "Figures by CPU ({}; 10^9 instructions per second for all nodes together). Values with \
             = are equal within 1 %: they depend only on protocol and network. The others depend \
             on the CPU.",
            self.cpus.join(" / ")
        )
    }
}

impl Mark {
    /// As text; the values of different CPUs are joined by `between`.
    pub fn text(&self, between: &str) -> String {
        match self {
            Self::Same(figure) => format!("= {figure}"),
            Self::Differs(figures) => figures.join(between),
            Self::Missing => crate::format::NONE.to_owned(),
        }
    }
}

fn mark(figures: Option<&[f64]>, show: impl Fn(f64) -> String) -> Mark {
    let Some(figures) = figures else { return Mark::Missing };
    let most = figures.iter().fold(0.0, |most: f64, figure| most.max(figure.abs()));
    let (low, high) = figures
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), figure| (low.min(*figure), high.max(*figure)));
    // A share of the largest value, so that figures of 0 for all CPUs are equal.
    match high - low <= SAME * most {
        true => Mark::Same(show(figures[0])),
        false => Mark::Differs(figures.iter().map(|figure| show(*figure)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_by_more_than_a_hundredth_is_the_cpus() {
        let show = |figure: f64| figure.to_string();
        assert_eq!(mark(Some(&[100.0, 100.9]), show), Mark::Same("100".into()));
        assert_eq!(mark(Some(&[0.0, 0.0]), show), Mark::Same("0".into()));
        let differs = mark(Some(&[100.0, 102.0]), show);
        assert_eq!(differs.text(" / "), "100 / 102");
        assert_eq!(mark(None, show).text("; "), "–");
    }
}
