//! Where the director loses time against the best fixed model over random networks.

use crate::column;
use crate::draw::{Draw, Phase};
use crate::random::{self, WAIT};
use crate::score::{oracle, phase};
use crate::table::Column;
use director::Span;
use experiment::{Experiment, Only};
use std::io::Write;
use std::path::Path;

/// Messages sent in this time after the first one count as the start, in s.
const START: f64 = 15.0;
/// Messages sent this long before or after a change of the model count as part of it, in s.
const CHANGE: f64 = 10.0;

/// The regret of a draw by cause: the director's mean cost of a message less that of the best fixed
/// model, over the latter. Each message counts for the first cause that applies.
#[derive(Debug, Clone, Copy, Default)]
struct Causes {
    /// Soon after the first message.
    start: f64,
    /// Close to a change of the model.
    change: f64,
    /// Over another model than the best fixed one.
    other_model: f64,
    /// Over the best fixed model.
    same_model: f64,
}

/// Ratios of a draw, and its causes.
struct Row {
    ratio: f64,
    /// With the best fixed model selected by one half of the seeds and compared over the other.
    unbiased: f64,
    oracle: f64,
    causes: Causes,
}

/// Prints a row for each draw: ratios to the best fixed model and to an oracle, and the causes. With
/// `models`, runs only these and prints nothing; costs of messages are left in `folder`.
///
/// # Errors
/// A file that cannot be written, or that is not valid.
pub fn run(
    folder: &Path,
    [first, count, seeds]: [u64; 3],
    models: Option<&str>,
) -> Result<(), String> {
    println!(
        "| draw | members | best fixed model | director / fixed | with other seeds | oracle / fixed | start | changes | other model | same model | models of the first seed |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut rows = Vec::new();
    for number in first..first + count {
        let draw = Draw::new(number);
        let columns = columns(folder, &draw, seeds as u32, models)?;
        costs(folder, &draw, &columns)?;
        rows.extend(row(&draw, &columns));
    }
    summary(&rows);
    Ok(())
}

/// Runs the director and each fixed model over a draw.
fn columns(
    folder: &Path,
    draw: &Draw,
    seeds: u32,
    models: Option<&str>,
) -> Result<Vec<Column>, String> {
    let file = random::write(folder, draw, &random::names())?;
    let experiment = Experiment::read(&file).map_err(|errors| errors.to_string())?;
    let cells = experiment.cells(&Only::all()).map_err(|errors| errors.to_string())?;
    let mut columns = Vec::new();
    let wait = Span::from_ns_f64(WAIT * 1e9);
    for cell in &cells {
        let name = cell.get("model").unwrap_or_default();
        if models.is_none_or(|models| models.split(',').any(|model| model == name)) {
            columns.extend(column(&experiment, cell, seeds, Some(wait))?);
        }
    }
    Ok(columns)
}

/// Writes the cost of each message, with the model in use.
fn costs(folder: &Path, draw: &Draw, columns: &[Column]) -> Result<(), String> {
    for column in columns {
        let path = folder.join(format!("costs-{}-{}.csv", draw.number, column.name));
        let failed = |why: std::io::Error| format!("{}: {why}", path.display());
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path).map_err(failed)?);
        writeln!(file, "seed,sent_s,model,cost_ms").map_err(failed)?;
        for (seed, (outcome, costs)) in column.outcomes.iter().zip(&column.costs).enumerate() {
            for (message, cost) in outcome.messages.iter().zip(costs) {
                let model = outcome.model_at(message.sent).map_or("", |model| model.name());
                let sent = message.sent.as_ns_f64() / 1e9;
                writeln!(file, "{seed},{sent:.3},{model},{cost:.3}").map_err(failed)?;
            }
        }
    }
    Ok(())
}

fn row(draw: &Draw, columns: &[Column]) -> Option<Row> {
    let fixed: Vec<&Column> = columns.iter().filter(|column| column.fixed).collect();
    let best = fixed.iter().min_by(|a, b| a.mean().total_cmp(&b.mean()))?;
    let own = columns.iter().find(|column| !column.fixed)?;
    let causes = causes(own, best);
    let oracle = oracle_of(draw, &fixed);
    let row = Row {
        ratio: own.mean() / best.mean(),
        unbiased: unbiased(own, &fixed),
        oracle: oracle / best.mean(),
        causes,
    };
    let used = own.outcomes.first().map_or(String::new(), |outcome| {
        let mut used = outcome.first_model.map_or(String::new(), |model| model.to_string());
        for (at, to, _) in &outcome.changes {
            used += &format!(", {to} at {:.0} s", at.as_ns_f64() / 1e9);
        }
        used
    });
    println!(
        "| {} | {} | {} | {:.3} | {:.3} | {:.3} | {:+.3} | {:+.3} | {:+.3} | {:+.3} | {used} |",
        draw.number,
        draw.members,
        best.name,
        row.ratio,
        row.unbiased,
        row.oracle,
        causes.start,
        causes.change,
        causes.other_model,
        causes.same_model,
    );
    Some(row)
}

/// The mean cost of an oracle in ms that uses in each phase the fixed model that is best there on
/// average, and pays nothing for a change.
fn oracle_of(draw: &Draw, fixed: &[&Column]) -> f64 {
    let starts = |phase: &Phase| Span::from_ns_f64(phase.at * 1e9);
    let boundaries: Vec<Span> = draw.phases.iter().skip(1).map(starts).collect();
    let mut sums = vec![vec![0.0; fixed.len()]; boundaries.len() + 1];
    let mut count: f64 = 0.0;
    for (place, column) in fixed.iter().enumerate() {
        for (outcome, costs) in column.outcomes.iter().zip(&column.costs) {
            for (message, cost) in outcome.messages.iter().zip(costs) {
                sums[phase(&boundaries, message.sent)][place] += cost;
                count += 1.0;
            }
        }
    }
    let (_, cost) = oracle(&sums, 0.0);
    cost * fixed.len() as f64 / count.max(1.0)
}

fn causes(own: &Column, best: &Column) -> Causes {
    let mut causes = Causes::default();
    let best_model = |name: &str| best.name == name;
    let total: f64 = best.costs.iter().flatten().sum();
    let seeds = own.outcomes.iter().zip(own.costs.iter().zip(&best.costs));
    for (outcome, (costs, others)) in seeds {
        for (message, (cost, other)) in outcome.messages.iter().zip(costs.iter().zip(others)) {
            let sent = message.sent.as_ns_f64() / 1e9;
            let close = |at: &Span| (at.as_ns_f64() / 1e9 - sent).abs() < CHANGE;
            let model = outcome.model_at(message.sent).map_or("", |model| model.name());
            let cause = if sent < WAIT + START {
                &mut causes.start
            } else if outcome.changes.iter().any(|(at, ..)| close(at)) {
                &mut causes.change
            } else if best_model(model) {
                &mut causes.same_model
            } else {
                &mut causes.other_model
            };
            *cause += (cost - other) / total;
        }
    }
    causes
}

/// The ratio to the fixed model that is best with the even seeds, over the odd ones, and the other
/// way round: their geometric mean. It has no advantage of a choice made afterwards.
fn unbiased(own: &Column, fixed: &[&Column]) -> f64 {
    let mean = |column: &Column, half: usize| {
        let seeds = column.costs.iter().enumerate().filter(|(seed, _)| seed % 2 == half);
        seeds.flat_map(|(_, costs)| costs).sum::<f64>()
    };
    let of = |half: usize| {
        let best = fixed.iter().min_by(|a, b| mean(a, 1 - half).total_cmp(&mean(b, 1 - half)));
        best.map_or(1.0, |best| mean(own, half) / mean(best, half))
    };
    (of(0) * of(1)).sqrt()
}

fn summary(rows: &[Row]) {
    let count = rows.len().max(1) as f64;
    let share = |test: &dyn Fn(&Row) -> bool| {
        100.0 * rows.iter().filter(|row| test(row)).count() as f64 / count
    };
    let mean = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).sum::<f64>() / count;
    let geometric = |of: &dyn Fn(&Row) -> f64| mean(&|row| of(row).ln()).exp();
    println!(
        "\n| | director / fixed | with other seeds | oracle / fixed |\n| --- | --- | --- | --- |"
    );
    let of: [&dyn Fn(&Row) -> f64; 3] = [&|row| row.ratio, &|row| row.unbiased, &|row| row.oracle];
    let line = |name: &str, of: [f64; 3]| {
        println!("| {name} | {:.3} | {:.3} | {:.3} |", of[0], of[1], of[2]);
    };
    line("geometric mean", of.map(geometric));
    line("share up to 1.05, %", of.map(|of| share(&|row| of(row) <= 1.05)));
    line("share up to 0.9, %", of.map(|of| share(&|row| of(row) <= 0.9)));
    line("share above 1.3, %", of.map(|of| share(&|row| of(row) > 1.3)));
    println!(
        "\nMean regret: start {:+.3}, changes {:+.3}, other model {:+.3}, same model {:+.3}.",
        mean(&|row| row.causes.start),
        mean(&|row| row.causes.change),
        mean(&|row| row.causes.other_model),
        mean(&|row| row.causes.same_model),
    );
}
