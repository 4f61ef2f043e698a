//! The director against each of its models held fast, and against somebody who knows the
//! timetable, in virtual time:
//!
//!     cargo run --release -p bench --example adaptive -- experiments/adaptive.yaml [SEEDS] [AXIS=VALUE,...]
//!
//! and the map that the library brings along:
//!
//!     cargo run --release -p bench --example adaptive -- map crates/director/map.json
//!
//! The first prints a table in Markdown. The experiment has an axis `model` of which `director` is one
//! value and the others are `director/MODEL`; all other axes are timetables.

mod map;
mod score;
mod trial;

use director::{Nanos, PerformanceMap};
use experiment::{Cell, Experiment, Only, Plan};
use score::{costs, delivery, interval, oracle, phase};
use std::path::Path;
use std::process::ExitCode;
use trial::{Outcome, Setup, Trial, interaction, models};

/// An answer that is not there after so many times the time between messages counts as this.
const DEADLINE: u64 = 5;

/// One model over all seeds of one timetable.
struct Column {
    name: String,
    fixed: bool,
    outcomes: Vec<Outcome>,
    /// The cost of each message, by seed.
    costs: Vec<Vec<f64>>,
}

impl Column {
    fn mean(&self) -> f64 {
        let all = self.costs.iter().flatten();
        all.clone().sum::<f64>() / all.count().max(1) as f64
    }

    /// The mean cost of the messages of one phase.
    fn phase(&self, borders: &[Nanos], place: usize) -> String {
        let pairs = self.outcomes.iter().zip(&self.costs);
        let (mut sum, mut count) = (0.0, 0.0_f64);
        for (outcome, costs) in pairs {
            for (told, cost) in outcome.messages.iter().zip(costs) {
                let here = f64::from(u8::from(phase(borders, told.sent) == place));
                (sum, count) = (sum + here * cost, count + here);
            }
        }
        format!("{:.0}", sum / count.max(1.0))
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        eprintln!("adaptive EXPERIMENT [SEEDS] [AXIS=VALUE,...]");
        return ExitCode::from(2);
    };
    if file == "map" {
        let path = arguments.next().unwrap_or_else(|| "map.json".to_owned());
        return match map::write(Path::new(&path)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{path}: {why}");
                ExitCode::FAILURE
            }
        };
    }
    let seeds = arguments.next().and_then(|seeds| seeds.parse().ok()).unwrap_or(20);
    match table(Path::new(&file), seeds, arguments.next().as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

fn table(file: &Path, seeds: u32, only: Option<&str>) -> Result<(), String> {
    let said = |errors: experiment::Errors| errors.to_string();
    let experiment = Experiment::read(file).map_err(said)?;
    let only = only.map_or(Ok(Only::all()), Only::parse).map_err(said)?;
    let cells = experiment.cells(&only).map_err(said)?;
    let mut timetables: Vec<Cell> = Vec::new();
    for cell in &cells {
        let rest = cell.without("model");
        if !timetables.contains(&rest) {
            timetables.push(rest);
        }
    }
    println!(
        "| timetable | director, ms | best fixed model, ms | director to it | oracle, ms | director to it | changes | answers |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for timetable in timetables {
        let of = cells.iter().filter(|cell| cell.without("model") == timetable);
        let mut columns = Vec::new();
        for cell in of {
            columns.extend(column(&experiment, cell, seeds)?);
        }
        row(&experiment, &timetable, &cells, &columns)?;
    }
    Ok(())
}

/// A model of one timetable, two seeds at a time; none if it is not the director's.
fn column(experiment: &Experiment, cell: &Cell, seeds: u32) -> Result<Option<Column>, String> {
    let plan = |seed| experiment.plan(cell, seed, experiment.seed).map_err(|e| e.to_string());
    let plans: Vec<Plan> = (0..seeds).map(plan).collect::<Result<_, _>>()?;
    let Some(first) = plans.first().and_then(interaction) else { return Ok(None) };
    let Some(held) = models(first) else { return Ok(None) };
    let deadline = first.every.as_ns() * DEADLINE;
    let map = PerformanceMap::shipped();
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let run = |part: usize| {
            let (plans, held, map) = (&plans, held.clone(), map.clone());
            scope.spawn(move || {
                let own = plans.iter().enumerate().filter(|(place, _)| place % 2 == part);
                let run = |(place, plan)| {
                    let setup = Setup::of(plan, held.clone());
                    (place, Trial::new(setup, map.clone()).run(deadline))
                };
                own.map(run).collect::<Vec<_>>()
            })
        };
        let threads = [run(0), run(1)];
        let mut all: Vec<(usize, Outcome)> =
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect();
        all.sort_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, outcome)| outcome).collect()
    });
    let costs = outcomes.iter().map(|outcome| costs(outcome, deadline)).collect();
    let name = cell.get("model").unwrap_or_default().to_owned();
    Ok(Some(Column { name, fixed: !held.is_empty(), outcomes, costs }))
}

fn row(
    experiment: &Experiment,
    timetable: &Cell,
    cells: &[Cell],
    columns: &[Column],
) -> Result<(), String> {
    let cell = cells.iter().find(|cell| cell.without("model") == *timetable);
    let Some(cell) = cell else { return Ok(()) };
    let plan = experiment.plan(cell, 0, experiment.seed).map_err(|e| e.to_string())?;
    let Some(asked) = interaction(&plan) else { return Ok(()) };
    let network = plan.network(&asked.network);
    let mut borders: Vec<Nanos> = network
        .map_or(&[][..], |network| &network.timetable)
        .iter()
        .map(|change| change.at.as_ns())
        .collect();
    borders.dedup();
    let deadline = asked.every.as_ns() * DEADLINE;
    let fixed: Vec<&Column> = columns.iter().filter(|column| column.fixed).collect();
    let name: Vec<&str> = timetable.iter().map(|(_, value)| value).collect();
    let name = name.join(" · ");
    for column in columns {
        let share: f64 = column.outcomes.iter().map(|o| delivery(o, deadline)).sum::<f64>();
        let share = 100.0 * share / column.outcomes.len().max(1) as f64;
        let phases: Vec<String> =
            (0..=borders.len()).map(|place| column.phase(&borders, place)).collect();
        eprintln!(
            "{name}: {} {:.0} ms ({}), {share:.1} %",
            column.name,
            column.mean(),
            phases.join(", ")
        );
    }
    // What each model's messages cost in each phase, over all seeds.
    let mut phases = vec![vec![0.0; fixed.len()]; borders.len() + 1];
    for (place, column) in fixed.iter().enumerate() {
        for (outcome, costs) in column.outcomes.iter().zip(&column.costs) {
            for (told, cost) in outcome.messages.iter().zip(costs) {
                phases[phase(&borders, told.sent)][place] += cost;
            }
        }
    }
    let seeds = fixed.first().map_or(1, |column| column.outcomes.len()).max(1) as f64;
    let messages = asked.messages as f64;
    // A change takes a round trip, and a message's time on air.
    let airtime = asked.payload_bytes as f64 * 8e3 / asked.multicast_rate.bit_s() as f64;
    let trip = asked.assume_round_trip.map_or(20.0, |trip| trip.as_ns() as f64 / 1e6);
    let (way, best) = oracle(&phases, seeds * (trip + airtime));
    let best = best / seeds / messages;
    let way: Vec<&str> = way.iter().map(|place| fixed[*place].name.as_str()).collect();
    eprintln!("{name}: the oracle takes {}", way.join(", "));
    let Some(least) = fixed.iter().min_by(|a, b| a.mean().total_cmp(&b.mean())) else {
        return Ok(());
    };
    for own in columns.iter().filter(|column| !column.fixed) {
        let sum = |costs: &Vec<f64>| costs.iter().sum::<f64>();
        let pairs = own.costs.iter().zip(&least.costs);
        let ratios: Vec<f64> = pairs.map(|(own, least)| sum(own) / sum(least)).collect();
        let (ratio, low, high) = interval(&ratios);
        let to_oracle: Vec<f64> =
            own.costs.iter().map(|costs| sum(costs) / messages / best).collect();
        let mut sorted = to_oracle.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
        let changes: usize = own.outcomes.iter().map(|outcome| outcome.changes.len()).sum();
        let share: f64 = own.outcomes.iter().map(|o| delivery(o, deadline)).sum::<f64>() / seeds;
        let doubled: u64 = own.outcomes.iter().map(|outcome| outcome.doubled).sum();
        println!(
            "| {name} | {:.0} | {:.0} ({}) | {ratio:.3} ({low:.3} to {high:.3}) | {best:.0} | {median:.3} | {:.1} | {:.2} % |",
            own.mean(),
            least.mean(),
            least.name,
            changes as f64 / seeds,
            100.0 * share,
        );
        if doubled > 0 {
            println!("\n{doubled} answers came twice.\n");
        }
        for (at, to, why) in own.outcomes.first().map_or(&[][..], |outcome| &outcome.changes) {
            let at = *at as f64 / 1e9;
            eprintln!(
                "{name}: {} goes over to {to} at {at:.1} s: {}",
                own.name,
                why.replace('\n', "; ")
            );
        }
    }
    Ok(())
}
