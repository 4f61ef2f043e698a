//! The rows of the table, and what is told beside it of each model and phase.

use crate::DEADLINE;
use crate::score::{delivery, interval, oracle, phase};
use crate::setup::interaction;
use crate::trial::Outcome;
use director::Nanos;
use experiment::{Cell, Experiment};

/// One model over all seeds of one timetable.
pub struct Column {
    /// The value of the axis.
    pub name: String,
    /// Whether it is held to one model.
    pub fixed: bool,
    /// By seed.
    pub outcomes: Vec<Outcome>,
    /// The cost of each message, by seed.
    pub costs: Vec<Vec<f64>>,
}

impl Column {
    fn seeds(&self) -> f64 {
        self.outcomes.len().max(1) as f64
    }

    fn mean(&self) -> f64 {
        let all = self.costs.iter().flatten();
        all.clone().sum::<f64>() / all.count().max(1) as f64
    }

    /// Of each phase what its messages cost in sum, and how many there were.
    fn phases(&self, borders: &[Nanos]) -> Vec<(f64, f64)> {
        let mut phases = vec![(0.0, 0.0); borders.len() + 1];
        for (outcome, costs) in self.outcomes.iter().zip(&self.costs) {
            for (told, cost) in outcome.messages.iter().zip(costs) {
                let (sum, count) = &mut phases[phase(borders, told.sent)];
                (*sum, *count) = (*sum + cost, *count + 1.0);
            }
        }
        phases
    }

    /// The share of answers that came in time.
    fn delivery(&self, deadline: Nanos) -> f64 {
        self.outcomes.iter().map(|outcome| delivery(outcome, deadline)).sum::<f64>() / self.seeds()
    }
}

/// A timetable, and what is sent while it goes on.
pub struct Timetable {
    name: String,
    /// When the network changes.
    borders: Vec<Nanos>,
    deadline: Nanos,
    messages: f64,
    /// What a change costs who knows the timetable: a round trip, and a message's time on air.
    switch_ms: f64,
}

/// The table's head.
pub fn head() {
    println!(
        "| timetable | director, ms | best fixed model, ms | director to it | oracle, ms | director to it | changes | answers |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
}

impl Timetable {
    /// What the cells of this timetable have in common; none if nothing is sent.
    pub fn of(
        experiment: &Experiment,
        timetable: &Cell,
        cells: &[Cell],
    ) -> Result<Option<Self>, String> {
        let cell = cells.iter().find(|cell| cell.without("model") == *timetable);
        let Some(cell) = cell else { return Ok(None) };
        let plan = experiment.plan(cell, 0, experiment.seed).map_err(|e| e.to_string())?;
        let Some(asked) = interaction(&plan) else { return Ok(None) };
        let changes = plan.network(&asked.network).map_or(&[][..], |network| &network.timetable);
        let mut borders: Vec<Nanos> = changes.iter().map(|change| change.at.as_ns()).collect();
        borders.extend(asked.fan_out.iter().map(|change| change.at.as_ns()).filter(|at| *at > 0));
        borders.sort_unstable();
        borders.dedup();
        let airtime = asked.payload_bytes as f64 * 8e3 / asked.multicast_rate.bit_s() as f64;
        let trip = asked.assume_round_trip.map_or(20.0, |trip| trip.as_ns() as f64 / 1e6);
        let name: Vec<&str> = timetable.iter().map(|(_, value)| value).collect();
        Ok(Some(Self {
            name: name.join(" · "),
            borders,
            deadline: asked.every.as_ns() * DEADLINE,
            messages: asked.messages as f64,
            switch_ms: trip + airtime,
        }))
    }

    /// Says what each model cost on average, in all and by phase.
    pub fn tell(&self, columns: &[Column]) {
        for column in columns {
            let phases = column.phases(&self.borders).into_iter();
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

    /// What somebody who knows the timetable pays for a message, in ms.
    fn oracle(&self, fixed: &[&Column]) -> f64 {
        let columns: Vec<_> = fixed.iter().map(|column| column.phases(&self.borders)).collect();
        let of = |place: usize| columns.iter().map(|phases| phases[place].0).collect();
        let phases: Vec<Vec<f64>> = (0..=self.borders.len()).map(of).collect();
        let seeds = fixed.first().map_or(1.0, |column| column.seeds());
        let (way, best) = oracle(&phases, seeds * self.switch_ms);
        let way: Vec<&str> = way.iter().map(|place| fixed[*place].name.as_str()).collect();
        eprintln!("{}: the oracle takes {}", self.name, way.join(", "));
        best / seeds / self.messages
    }

    /// Prints a row for each model that is not held: beside the best that is, and the oracle.
    pub fn rows(&self, columns: &[Column]) {
        let fixed: Vec<&Column> = columns.iter().filter(|column| column.fixed).collect();
        let best = self.oracle(&fixed);
        let least = fixed.iter().min_by(|a, b| a.mean().total_cmp(&b.mean()));
        let Some(least) = least else { return };
        for own in columns.iter().filter(|column| !column.fixed) {
            let sum = |costs: &Vec<f64>| costs.iter().sum::<f64>();
            let pairs = own.costs.iter().zip(&least.costs);
            let ratios: Vec<f64> = pairs.map(|(own, least)| sum(own) / sum(least)).collect();
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
                least.mean(),
                least.name,
                changes as f64 / own.seeds(),
                100.0 * own.delivery(self.deadline),
            );
            let doubled: u64 = own.outcomes.iter().map(|outcome| outcome.doubled).sum();
            if doubled > 0 {
                println!("\n{doubled} answers came twice.\n");
            }
            self.explain(own);
        }
    }

    /// Why the first seed's run changed when it did.
    fn explain(&self, own: &Column) {
        for (at, to, why) in own.outcomes.first().map_or(&[][..], |outcome| &outcome.changes) {
            let (at, why) = (*at as f64 / 1e9, why.replace('\n', "; "));
            eprintln!("{}: {} goes over to {to} at {at:.1} s: {why}", self.name, own.name);
        }
    }
}
