//! Renders the result of a capacity search as text and table.

use super::result::{Capacities, TestedValue};
use super::search::Outcome;
use super::steady;
use comfy_table::{CellAlignment, Table, presets};
use experiment::Target;

/// The tested values in ascending order, then the result.
pub(crate) fn render(found: &Capacities, targets: &[Target]) -> String {
    let mut text = match found.cell.is_empty() {
        true => format!("capacity: the largest {}\n", found.axis),
        false => format!("capacity: the largest {} with {}\n", found.axis, found.cell),
    };
    text += &table(found, targets).trim_fmt();
    text.push('\n');
    text += &answer(found, targets);
    text
}

fn table(found: &Capacities, targets: &[Target]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty();
    let mut heads = vec![found.axis.clone(), "runs".to_owned(), "trusted".to_owned()];
    heads.extend(targets.iter().map(|target| target.metric().to_owned()));
    heads.push("result".to_owned());
    let columns = heads.len();
    table.set_header(heads);
    let mut rows: Vec<&TestedValue> = found.tried.iter().collect();
    rows.sort_by_key(|tried| tried.number);
    for tried in rows {
        let mut row = vec![tried.value.clone(), tried.runs.to_string(), tried.valid.to_string()];
        for index in 0..targets.len() {
            let figure = tried.figures.get(index).copied().flatten();
            row.push(figure.map_or("-".to_owned(), |figure| format!("{figure:.3}")));
        }
        row.push(outcome_text(tried.found).to_owned());
        table.add_row(row);
    }
    for column in table.column_iter_mut().take(columns - 1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn outcome_text(found: Outcome) -> &'static str {
    match found {
        Outcome::Met => "met",
        Outcome::Missed => "missed",
        Outcome::Lost => "no trusted run",
    }
}

/// A metric of a program that had no value in most runs. Of messages, no figure means that they were
/// lost, which is the worst one.
fn without_value<'a>(tried: &TestedValue, targets: &'a [Target]) -> Option<&'a Target> {
    let mut pairs = tried.figures.iter().zip(targets);
    let lacks = |(figure, target): &(&Option<f64>, &Target)| {
        figure.is_none() && target.metric().starts_with("programs.")
    };
    pairs.find(lacks).map(|(_, target)| target)
}

fn answer(found: &Capacities, all: &[Target]) -> String {
    let targets: Vec<String> = all.iter().map(Target::to_string).collect();
    let (targets, axis) = (targets.join(" and "), &found.axis);
    let best = match &found.best {
        Some(best) => format!("{axis} = {best} meets {targets}"),
        None => format!("no tested value of {axis} meets {targets}"),
    };
    if found.interrupted {
        return format!("{best}; the search was interrupted.");
    }
    let mut text = match &found.limit {
        Some((value, Outcome::Missed)) => {
            // An overload explains why figures that meet their targets were not enough.
            let tried = found.tried.iter().find(|tried| tried.value == *value);
            let why = tried.and_then(|tried| tried.overload.as_ref());
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            if let Some(target) = tried.and_then(|tried| without_value(tried, all)) {
                return format!(
                    "{best}. At {value}, trusted runs have no value of {}: this is no limit of the \
                     system. Look for the cause in the runs' `programs/`.",
                    target.metric()
                );
            }
            format!("{best}. {value} does not, in trusted runs{why}: the limit is the system's.")
        }
        Some((value, _)) => {
            let tried = found.tried.iter().find(|tried| tried.value == *value);
            let reason = tried.and_then(|tried| tried.reasons.first());
            let reason = reason.map_or_else(String::new, |reason| format!("\n  {reason}"));
            format!(
                "{best}. At {value} no run is trusted: the limit is the test bed's, and the \
                 system's limit may be higher.{reason}"
            )
        }
        None => {
            format!("{best}, the largest value that --to allows: the system's limit is higher.")
        }
    };
    let best = found.tried.iter().find(|tried| Some(&tried.value) == found.best.as_ref());
    let visible = best.map_or(0.0, |best| best.visible_growth);
    if visible > steady::GROWTH {
        // Random variation grows with the square root of the number of requests (see `steady`), so
        // half the visible share needs four times the duration.
        let longer = (visible / steady::GROWTH).powi(2).ceil();
        text += &format!(
            "\nThese runs are too short to show a queue that grows by less than {:.0} % of the \
             requests. To detect it, make `duration` {longer} times as long.",
            100.0 * visible
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(limit: Option<(&str, Outcome)>, best: Option<&str>) -> Capacities {
        let tried = |value: &str, found, figure| TestedValue {
            value: value.to_owned(),
            number: value.parse().unwrap(),
            runs: 3,
            valid: if found == Outcome::Lost { 0 } else { 3 },
            figures: vec![figure],
            found,
            reasons: vec!["CPU pressure: 40 %".to_owned()],
            overload: None,
            visible_growth: 0.05,
        };
        let mut all = vec![tried("10", Outcome::Met, Some(1.25))];
        all.extend(limit.map(|(value, found)| tried(value, found, Some(300.0))));
        Capacities {
            cell: Cell::default(),
            axis: "meters".to_owned(),
            best: best.map(str::to_owned),
            limit: limit.map(|(value, found)| (value.to_owned(), found)),
            interrupted: false,
            tried: all,
        }
    }

    use experiment::Cell;

    #[test]
    fn whose_limit_it_is() {
        let targets: Vec<Target> = vec!["p99 < 200 ms".parse().unwrap()];
        let system = render(&found(Some(("20", Outcome::Missed)), Some("10")), &targets);
        assert!(system.contains("meters = 10 meets p99 < 200 ms. 20 does not"), "{system}");
        assert!(system.contains("1.250") && system.contains("the limit is the system's"));
        let bed = render(&found(Some(("20", Outcome::Lost)), Some("10")), &targets);
        assert!(bed.contains("the limit is the test bed's") && bed.contains("CPU pressure"));
        let mut short = found(Some(("20", Outcome::Missed)), Some("10"));
        short.tried[0].visible_growth = 0.15;
        short.tried[1].overload = Some("the queue grows".to_owned());
        let short = render(&short, &targets);
        assert!(
            short.contains("trusted runs (the queue grows): the limit is the system's"),
            "{short}"
        );
        assert!(short.contains("less than 15 %") && short.contains("9 times as long"), "{short}");
        let own: Vec<Target> = vec!["programs.meter.delay.mean < 20".parse().unwrap()];
        let mut without = found(Some(("20", Outcome::Missed)), None);
        without.tried[1].figures = vec![None];
        let without = render(&without, &own);
        assert!(
            without.contains("no value of programs.meter.delay.mean: this is no limit"),
            "{without}"
        );
        let none = render(&found(Some(("9", Outcome::Missed)), None), &targets);
        assert!(none.contains("no tested value of meters meets"), "{none}");
        let open = render(&found(None, Some("10")), &targets);
        assert!(open.contains("limit is higher"), "{open}");
    }
}
