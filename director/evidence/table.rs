//! The rows of the table, and the costs of each model and phase on standard error.

use crate::DEADLINE;
use crate::score::{delivery, interval, oracle, phase};
use crate::setup::interaction;
use crate::trial::Outcome;
use director::Span;
use experiment::{Cell, Experiment};

/// One model over all seeds of one timetable.
pub struct Column {
    /// The value of the axis `model`.
    pub name: String,
    /// Whether it is fixed to one model.
    pub fixed: bool,
    /// The outcomes, by seed.
    pub outcomes: Vec<Outcome>,
    /// The cost of each message in ms, by seed.
    pub costs: Vec<Vec<f64>>,
}

impl Column {
    fn seeds(&self) -> f64 {
        self.outcomes.len().max(1) as f64
    }

    /// The mean cost of a message in ms.
    pub fn mean(&self) -> f64 {
        let all = self.costs.iter().flatten();
        all.clone().sum::<f64>() / all.count().max(1) as f64
    }

    /// For each phase, the total cost of its messages in ms, and their number.
    fn phases(&self, boundaries: &[Span]) -> Vec<(f64, f64)> {
        let mut phases = vec![(0.0, 0.0); boundaries.len() + 1];
        for (outcome, costs) in self.outcomes.iter().zip(&self.costs) {
            for (message, cost) in outcome.messages.iter().zip(costs) {
                let (sum, count) = &mut phases[phase(boundaries, message.sent)];
                (*sum, *count) = (*sum + cost, *count + 1.0);
            }
        }
        phases
    }

    /// The share of answers that arrived by the deadline.
    pub fn delivery(&self, deadline: Span) -> f64 {
        self.outcomes.iter().map(|outcome| delivery(outcome, deadline)).sum::<f64>() / self.seeds()
    }
}

/// A timetable, and the messages sent during it.
pub struct Timetable {
    name: String,
    /// Times at which the network changes.
    boundaries: Vec<Span>,
    deadline: Span,
    messages: f64,
    /// Cost of a change of model for the oracle: a round trip plus a message's time on air.
    switch_ms: f64,
}

/// Prints the table's header.
pub fn head() {
    println!(
        "| timetable | director, ms | best fixed model, ms | director / fixed | oracle, ms | director / oracle | changes | answers |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
}

impl Timetable {
    /// The common properties of the cells of this timetable; none if nothing is sent.
    ///
    /// # Errors
    /// The experiment has no plan for the timetable.
    pub fn of(
        experiment: &Experiment,
        timetable: &Cell,
        cells: &[Cell],
    ) -> Result<Option<Self>, String> {
        let cell = cells.iter().find(|cell| cell.without("model") == *timetable);
        let Some(cell) = cell else { return Ok(None) };
        let plan = experiment.plan(cell, 0, experiment.seed).map_err(|e| e.to_string())?;
        let Some(workload) = interaction(&plan) else { return Ok(None) };
        let changes = plan.network(&workload.network).map_or(&[][..], |network| &network.timetable);
        let mut boundaries: Vec<Span> = changes.iter().map(|change| change.at).collect();
        boundaries
            // The first fan-out applies from the start, so it changes nothing.
            .extend(workload.fan_out.iter().map(|change| change.at).filter(|at| *at > Span::ZERO));
        boundaries.sort_unstable();
        boundaries.dedup();
        // In ms.
        let airtime = workload.payload_bytes as f64 * 8e3 / workload.multicast_rate.bit_s() as f64;
        // The same 20 ms as in `Setup::of`.
        let trip = workload.assume_round_trip.map_or(20.0, Span::as_ms);
        let name: Vec<&str> = timetable.axes().map(|(_, value)| value).collect();
        Ok(Some(Self {
            name: name.join(" · "),
            boundaries,
            deadline: workload.every * DEADLINE,
            messages: workload.messages as f64,
            switch_ms: trip + airtime,
        }))
    }

    /// Prints each model's mean cost, in total and by phase.
    pub fn print_means(&self, columns: &[Column]) {
        for column in columns {
            let phases = column.phases(&self.boundaries).into_iter();
            let means: Vec<String> =
                phases.map(|(sum, count)| format!("{:.0}", sum / count.max(1.0))).collect();
            eprintln!(
                "{}: {} {:.0} ms ({}), {:.1} %",
                self.name,
                column.name,
                column.mean(),
                means.join(", "),
                100.0 * column.delivery(self.deadline),
            );
        }
    }

    /// The oracle's mean cost of a message in ms.
    fn oracle(&self, fixed: &[&Column]) -> f64 {
        let columns: Vec<_> = fixed.iter().map(|column| column.phases(&self.boundaries)).collect();
        let of = |place: usize| columns.iter().map(|phases| phases[place].0).collect();
        let phases: Vec<Vec<f64>> = (0..=self.boundaries.len()).map(of).collect();
        let seeds = fixed.first().map_or(1.0, |column| column.seeds());
        // The sums are over all seeds, and each seed pays for a change.
        let (path, best) = oracle(&phases, seeds * self.switch_ms);
        let path: Vec<&str> = path.iter().map(|place| fixed[*place].name.as_str()).collect();
        eprintln!("{}: the oracle uses {}", self.name, path.join(", "));
        best / seeds / self.messages
    }

    /// Prints a row for each model that is not fixed, compared with the best fixed one and the
    /// oracle.
    pub fn rows(&self, columns: &[Column]) {
        let fixed: Vec<&Column> = columns.iter().filter(|column| column.fixed).collect();
        let best = self.oracle(&fixed);
        let best_fixed = fixed.iter().min_by(|a, b| a.mean().total_cmp(&b.mean()));
        let Some(best_fixed) = best_fixed else { return };
        for own in columns.iter().filter(|column| !column.fixed) {
            let sum = |costs: &Vec<f64>| costs.iter().sum::<f64>();
            let pairs = own.costs.iter().zip(&best_fixed.costs);
            let ratios: Vec<f64> =
                pairs.map(|(own, best_fixed)| sum(own) / sum(best_fixed)).collect();
            // Paired by seed: the same random losses meet both, so they cancel out.
            let (ratio, low, high) = interval(&ratios);
            let mut to_oracle: Vec<f64> =
                own.costs.iter().map(|costs| sum(costs) / self.messages / best).collect();
            to_oracle.sort_by(f64::total_cmp);
            let median = to_oracle.get(to_oracle.len() / 2).copied().unwrap_or_default();
            let changes: usize = own.outcomes.iter().map(|outcome| outcome.changes.len()).sum();
            println!(
                "| {} | {:.0} | {:.0} ({}) | {ratio:.3} ({low:.3} to {high:.3}) | {best:.0} | {median:.3} | {:.1} | {:.2} % |",
                self.name,
                own.mean(),
                best_fixed.mean(),
                best_fixed.name,
                changes as f64 / own.seeds(),
                100.0 * own.delivery(self.deadline),
            );
            let duplicates: u64 = own.outcomes.iter().map(|outcome| outcome.duplicates).sum();
            if duplicates > 0 {
                println!("\n{duplicates} answers arrived twice.\n");
            }
            self.explain(own);
        }
    }

    /// Prints the reasons for the changes in the first seed's run.
    fn explain(&self, own: &Column) {
        for (at, to, why) in own.outcomes.first().map_or(&[][..], |outcome| &outcome.changes) {
            let (at, why) = (at.as_ns_f64() / 1e9, why.replace('\n', "; "));
            eprintln!("{}: {} changes to {to} at {at:.1} s: {why}", self.name, own.name);
        }
    }
}
