//! Compares the director with each of its models fixed, and with an oracle that knows the
//! timetable, in virtual time:
//!
//!     cargo run --release -p bench --example adaptive -- experiments/adaptive.yaml [SEEDS] [AXIS=VALUE,...]
//!
//! and creates the map that is shipped with the library:
//!
//!     cargo run --release -p bench --example adaptive -- map director/core/map.json [MODEL,...]
//!
//! The first prints a table in Markdown. The experiment has an axis `model` of which `director` is one
//! value and the others are `director/MODEL`; all other axes are timetables.
//!
//! Random networks, with their experiment files in target/random:
//!
//!     cargo run --release -p bench --example adaptive -- random [COUNT] [FIRST] [SEEDS]
//!
//! Where the director loses time over them; with models (`director` is one), only these run:
//!
//!     cargo run --release -p bench --example adaptive -- regret [COUNT] [FIRST] [SEEDS] [MODEL,...]
//!
//! Only their experiment files, for nodes, also with the protocols of peers.py:
//!
//!     cargo run --release -p bench --example adaptive -- files [COUNT] [FIRST]

mod draw;
mod draw_text;
mod map;
mod random;
mod regret;
mod score;
mod setup;
mod table;
mod trial;
mod wire;

use director::{PerformanceMap, Span};
use experiment::{Cell, Experiment, Only, Plan};
use score::costs;
use setup::{Setup, interaction, models};
use std::path::Path;
use std::process::ExitCode;
use table::{Column, Timetable};
use trial::{Outcome, Trial};

/// Deadline of an answer, as a multiple of the time between messages; later ones count as this.
const DEADLINE: u64 = 5;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        eprintln!("adaptive EXPERIMENT [SEEDS] [AXIS=VALUE,...]");
        return ExitCode::from(2);
    };
    if file == "map" {
        let path = arguments.next().unwrap_or_else(|| "map.json".to_owned());
        return match map::write(Path::new(&path), arguments.next().as_deref()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{path}: {why}");
                ExitCode::FAILURE
            }
        };
    }
    if ["random", "regret", "files"].contains(&file.as_str()) {
        let mut number =
            |default| arguments.next().map_or(Ok(default), |text| text.parse().map_err(|_| text));
        let numbers = (|| Ok([number(20)?, number(1)?, number(2)?]))();
        let done = numbers.map_err(|text: String| format!("{text} is not a number"));
        let done = done.and_then(|[count, first, seeds]: [u64; 3]| {
            let folder = Path::new("target/random");
            match file.as_str() {
                "random" => random::run(folder, first, count, seeds as u32),
                "files" => random::files(folder, first, count),
                _ => regret::run(folder, [first, count, seeds], arguments.next().as_deref()),
            }
        });
        return match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::from(2)
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
    let text = |errors: experiment::Errors| errors.to_string();
    let experiment = Experiment::read(file).map_err(text)?;
    let only = only.map_or(Ok(Only::all()), Only::parse).map_err(text)?;
    let cells = experiment.cells(&only).map_err(text)?;
    let mut timetables: Vec<Cell> = Vec::new();
    for cell in &cells {
        // Each timetable once, in the order of the file.
        let rest = cell.without("model");
        if !timetables.contains(&rest) {
            timetables.push(rest);
        }
    }
    table::head();
    for timetable in timetables {
        let of = cells.iter().filter(|cell| cell.without("model") == timetable);
        let mut columns = Vec::new();
        for cell in of {
            columns.extend(column(&experiment, cell, seeds, None)?);
        }
        if let Some(timetable) = Timetable::of(&experiment, &timetable, &cells)? {
            timetable.print_means(&columns);
            timetable.rows(&columns);
        }
    }
    Ok(())
}

/// Runs a model over one timetable, two seeds in parallel; none if it is not the director's. `wait`:
/// told nothing, with the first message after this time.
fn column(
    experiment: &Experiment,
    cell: &Cell,
    seeds: u32,
    wait: Option<Span>,
) -> Result<Option<Column>, String> {
    let plan = |seed| experiment.plan(cell, seed, experiment.seed).map_err(|e| e.to_string());
    let plans: Vec<Plan> = (0..seeds).map(plan).collect::<Result<_, _>>()?;
    let Some(first) = plans.first().and_then(interaction) else { return Ok(None) };
    let Some(fixed) = models(first) else { return Ok(None) };
    let deadline = first.every * DEADLINE;
    let map = PerformanceMap::shipped();
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let run = |part: usize| {
            let (plans, fixed, map) = (&plans, fixed.clone(), map.clone());
            scope.spawn(move || {
                let own = plans.iter().enumerate().filter(|(place, _)| place % 2 == part);
                let run = |(place, plan)| {
                    let mut setup = Setup::of(plan, fixed.clone());
                    if let Some(wait) = wait {
                        setup = setup.told_nothing(wait, deadline);
                    }
                    (place, Trial::new(setup, map.clone()).run(deadline))
                };
                own.map(run).collect::<Vec<_>>()
            })
        };
        let threads = [run(0), run(1)];
        let mut all: Vec<(usize, Outcome)> =
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect();
        // The order of the seeds: costs are compared in pairs of the same seed.
        all.sort_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, outcome)| outcome).collect()
    });
    let costs = outcomes.iter().map(|outcome| costs(outcome, deadline)).collect();
    let name = cell.get("model").unwrap_or_default().to_owned();
    Ok(Some(Column { name, fixed: !fixed.is_empty(), outcomes, costs }))
}
