//! Compares two builds: the same runs, figure by figure.

use crate::format::{number, plain};
use crate::{Cell, Run, Status, Sweep};
use record::Clock;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Quantiles of Student's t distribution for 95 % (two-sided), by degrees of freedom from 1; then
/// that of the normal distribution. Any table of the distribution has them.
const T95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
const NORMAL95: f64 = 1.960;

/// Figures that are compared unless all are asked for: the start and the end of their paths, and
/// their short name. `*` is the name of a workload, program or metric.
// Few, because of 100 figures that do not change, five differ by chance at 95 %.
const MAIN: [(&str, &str, &str); 15] = [
    ("all.", "cpu_us_per_message", "CPU a message"),
    ("all.", "cpu_ms", "CPU"),
    ("all.", "tx_bytes", "bytes"),
    ("all.", "retransmitted_bytes", "retransmitted bytes"),
    ("messages.", "received", "received"),
    ("messages.", "unanswered_pct", "unanswered"),
    ("messages.", "rtd_ms.p50", "p50"),
    ("messages.", "rtd_ms.p99", "p99"),
    ("loads.", "unanswered_pct", "* unanswered"),
    ("loads.", "response_ms.p50", "* p50"),
    ("loads.", "response_ms.p99", "* p99"),
    ("exchanges.", "time_ms.p50", "* p50"),
    ("exchanges.", "time_ms.p99", "* p99"),
    ("programs.", "mean", "* mean"),
    ("programs.", "p99", "* p99"),
];

/// A figure of a cell in two builds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Path in `summary.json`.
    pub figure: String,
    /// Short name.
    pub name: String,
    /// Whether it is one of the main figures.
    pub main: bool,
    /// Mean over the repeats of the first build.
    pub old: f64,
    /// Mean over the repeats of the second build.
    pub new: f64,
    /// Mean difference of runs with the same seed.
    pub difference: f64,
    /// Ends of its 95 % confidence interval; `None` with one repeat.
    pub interval: Option<[f64; 2]>,
    /// The difference in percent of `old`; `None` if that is 0.
    pub percent: Option<f64>,
    /// The interval in percent of `old`.
    pub percent_interval: Option<[f64; 2]>,
    /// Whether the interval excludes 0, so that the builds differ beyond chance (95 %); `None` with
    /// one repeat.
    pub significant: Option<bool>,
    /// Number of pairs of runs.
    pub repeats: usize,
}

/// The figures of a cell in two builds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellDifferences {
    /// The cell, such as `loss 5 %`.
    pub cell: String,
    /// Its figures.
    pub figures: Vec<Difference>,
}

/// Two builds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Builds {
    /// Whether all runs are in virtual time, so that each run is exact.
    pub exact: bool,
    /// The common cells.
    pub cells: Vec<CellDifferences>,
    /// Runs that are failed with the second build only: cell and repeat.
    pub newly_failed: Vec<String>,
    /// What was left out, and what limits the comparison.
    pub notes: Vec<String>,
}

/// Compares the runs of two sweeps that have the same cell and repeat. `all`: all figures that
/// differ, not only the main ones.
///
/// # Errors
/// If the sweeps have no run in common that can be used.
pub fn compare_builds(old: &Sweep, new: &Sweep, all: bool) -> Result<Builds, String> {
    let (mut notes, mut newly_failed) = (Vec::new(), Vec::new());
    let (mut unpaired, mut unusable) = (0, 0);
    let mut cells: Vec<(Cell, Vec<[&Run; 2]>)> = Vec::new();
    for before in &old.runs {
        let same = |run: &&Run| {
            run.summary.cell == before.summary.cell && run.summary.repeat == before.summary.repeat
        };
        let Some(after) = new.runs.iter().find(same) else {
            unpaired += 1;
            continue;
        };
        let [was, is] = [before, after].map(|run| run.summary.verdict.status);
        // Reported separately: a pair that is left out would hide a build that crashes (decision
        // 88).
        if is == Status::Failed && was != Status::Failed {
            let run = format!("{} {}", before.summary.cell.label(), after.summary.repeat);
            newly_failed.push(plain(&run));
        }
        // Invalid runs are about the machine, failed ones have sent something else.
        if was.max(is) > Status::Suspect {
            unusable += 1;
            continue;
        }
        // Pairs lose the same frames only with the same seed, so the intervals become wider without
        // it.
        if before.summary.seed != after.summary.seed {
            let note = "the seeds differ, so differences include those of the random values";
            if !notes.iter().any(|known| known == note) {
                notes.push(note.to_owned());
            }
        }
        match cells.iter_mut().find(|(cell, _)| *cell == before.summary.cell) {
            Some((_, pairs)) => pairs.push([before, after]),
            None => cells.push((before.summary.cell.clone(), vec![[before, after]])),
        }
    }
    if unpaired > 0 {
        notes.push(format!("{unpaired} runs of the first have no counterpart in the second"));
    }
    if unusable > 0 {
        notes.push(format!(
            "{unusable} pairs of runs are left out, because one is failed or invalid"
        ));
    }
    if cells.is_empty() && newly_failed.is_empty() {
        let notes = notes.iter().map(|note| format!("\n  {note}")).collect::<String>();
        return Err(format!("no run of one has a usable counterpart in the other{notes}"));
    }
    let in_virtual_time =
        |run: &Run| run.facts.as_ref().is_some_and(|facts| facts.clock == Clock::Virtual);
    let exact = !cells.is_empty()
        && cells.iter().flat_map(|(_, pairs)| pairs.iter().flatten()).all(|r| in_virtual_time(r));
    let few = cells.iter().any(|(_, pairs)| pairs.len() < 2);
    // In virtual time one repeat is exact for its seed.
    if !exact && few {
        notes.push(
            "with one repeat in real time, a difference can be chance: use `--repeat 5`, or \
             `--clock virtual`"
                .to_owned(),
        );
    }
    let cells = cells.into_iter().map(|(cell, pairs)| CellDifferences {
        cell: plain(&cell.label()),
        figures: differences(&pairs, all),
    });
    Ok(Builds { exact, cells: cells.collect(), newly_failed, notes })
}

fn differences(pairs: &[[&Run; 2]], all: bool) -> Vec<Difference> {
    // The file and not the typed summary, so that figures of other versions are compared too.
    let figures = |run: &Run| {
        let path = run.folder.join("summary.json");
        let text = input::read_to_string(&path, input::MAX_DATA).unwrap_or_default();
        let mut found = BTreeMap::new();
        flatten(&serde_json::from_str(&text).unwrap_or_default(), String::new(), &mut found);
        found
    };
    let pairs: Vec<_> = pairs.iter().map(|pair| pair.map(figures)).collect();
    let Some([first, _]) = pairs.first() else { return Vec::new() };
    let mut found: Vec<(usize, Difference)> = Vec::new();
    for path in first.keys() {
        let values = pairs.iter().map(|[a, b]| Some([*a.get(path)?, *b.get(path)?]));
        // A figure that some runs lack has no pairs; its mean would be over other runs.
        let Some(values) = values.collect::<Option<Vec<_>>>() else { continue };
        let (place, name) = match main(path) {
            Some(main) => main,
            None if all => (MAIN.len(), path.clone()),
            None => continue,
        };
        let difference = difference(path, name, &values);
        // Main figures are shown without a change too: "no change" is an answer.
        let always = place < MAIN.len() && (difference.old != 0.0 || difference.new != 0.0);
        if always
            || difference.old != difference.new
            || difference.interval.is_some_and(|[low, high]| low != high)
        {
            found.push((place, difference));
        }
    }
    // Stable: figures of the same place keep the order of their paths.
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, difference)| difference).collect()
}

/// The place of a main figure, and its name.
fn main(path: &str) -> Option<(usize, String)> {
    MAIN.iter().enumerate().find_map(|(place, (start, end, name))| {
        let rest = path.strip_prefix(start)?.strip_suffix(end)?;
        if !name.contains('*') {
            return rest.is_empty().then(|| (place, (*name).to_owned()));
        }
        let between = rest.strip_suffix('.')?;
        Some((place, name.replace('*', between)))
    })
}

/// All numbers in a summary, by path.
fn flatten(value: &Value, path: String, found: &mut BTreeMap<String, f64>) {
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(entries) => {
            // These describe the run and are no figures.
            // Only at the top: a group may have such a name.
            let own = ["cell", "verdict", "seed", "repeat", "experiment"];
            for (key, value) in entries {
                if !(path.is_empty() && own.contains(&key.as_str())) {
                    flatten(value, join(key), found);
                }
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                flatten(item, join(&n.to_string()), found);
            }
        }
        Value::Number(number) => {
            found.extend(number.as_f64().map(|number| (path, number)));
        }
        _ => {}
    }
}

/// The mean of paired differences with its confidence interval: runs with the same seed lose the
/// same frames, so that differences of pairs vary less than the runs.
fn difference(figure: &str, name: String, values: &[[f64; 2]]) -> Difference {
    let count = values.len() as f64;
    let mean = |of: &dyn Fn(&[f64; 2]) -> f64| values.iter().map(of).sum::<f64>() / count;
    let (old, new) = (mean(&|[a, _]| *a), mean(&|[_, b]| *b));
    let difference = mean(&|[a, b]| b - a);
    let interval = (values.len() > 1).then(|| {
        let squares: f64 = values.iter().map(|[a, b]| (b - a - difference).powi(2)).sum();
        // Standard error of the mean of paired differences, with n - 1 degrees of freedom.
        let half = quantile(values.len() - 1) * (squares / (count - 1.0) / count).sqrt();
        [difference - half, difference + half]
    });
    // The sign is that of the difference, for a negative figure too.
    let percent = |value: f64| 100.0 * value / old.abs();
    Difference {
        figure: figure.to_owned(),
        // A main figure has a short name; the name of any other is its path.
        main: name != figure,
        name: plain(&name),
        old,
        new,
        difference,
        interval,
        percent: (old != 0.0).then(|| percent(difference)),
        percent_interval: interval.filter(|_| old != 0.0).map(|ends| ends.map(percent)),
        significant: interval.map(|[low, high]| low > 0.0 || high < 0.0),
        repeats: values.len(),
    }
}

// From 31 degrees of freedom on, the normal quantile is at most 4.1 % too small.
fn quantile(degrees: usize) -> f64 {
    T95.get(degrees - 1).copied().unwrap_or(NORMAL95)
}

impl Difference {
    /// Whether the change is more than `percent` either way, beyond chance: its whole interval is.
    /// From 0, each change beyond chance is.
    pub fn exceeds(&self, percent: f64) -> bool {
        // A single repeat has no interval: its change counts as it is, which is exact in virtual
        // time.
        let ends = self.percent_interval.or(self.percent.map(|change| [change; 2]));
        match ends {
            Some([low, high]) => low > percent || high < -percent,
            // From 0 to something is more than any share, unless it is chance.
            None => self.significant.unwrap_or(self.difference != 0.0),
        }
    }

    /// The change, such as `+1.3 %` or `0`.
    fn change(&self) -> String {
        match (self.difference == 0.0, self.percent) {
            (true, _) => "0".to_owned(),
            (false, Some(percent)) => format!("{} %", signed(percent)),
            (false, None) => signed(self.difference),
        }
    }

    fn ends(&self) -> String {
        match self.percent_interval {
            Some([low, high]) if low != high => format!("{} to {} %", signed(low), signed(high)),
            _ => String::new(),
        }
    }
}

fn signed(value: f64) -> String {
    if value > 0.0 { format!("+{}", number(value)) } else { number(value) }
}

impl Builds {
    /// Which figures differ beyond chance.
    fn significance(&self) -> String {
        let all = || self.cells.iter().flat_map(|cell| cell.figures.iter().map(move |d| (cell, d)));
        let tested = all().filter(|(_, d)| d.significant.is_some()).count();
        let found = all().filter(|(_, d)| d.significant == Some(true)).map(|(cell, d)| match self
            .cells
            .len()
        {
            0 | 1 => d.name.clone(),
            _ => format!("{} of {}", d.name, cell.cell),
        });
        let found: Vec<String> = found.collect();
        if tested == 0 {
            return "Significance: not tested; that needs two repeats or more.".to_owned();
        }
        // At 95 %, one of 20 figures that do not change differs. There is no correction for their
        // number (decision 88).
        let by_chance = match tested >= 20 && !found.is_empty() {
            true => format!(" By chance alone, about {} would.", tested / 20),
            false => String::new(),
        };
        match found.as_slice() {
            [] => format!("Significance: none of {tested} figures differs beyond chance (95 %)."),
            _ => format!(
                "Significance: {} of {tested} figures differ beyond chance (95 %): {}.{by_chance}",
                found.len(),
                found.join(", ")
            ),
        }
    }
}

impl std::fmt::Display for Builds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for cell in &self.cells {
            let changes: Vec<_> =
                cell.figures.iter().map(|d| format!("{} {}", d.name, d.change())).collect();
            let start = if cell.cell.is_empty() { String::new() } else { cell.cell.clone() + ": " };
            writeln!(f, "{start}{}", changes.join(", "))?;
        }
        let width = |text: &dyn Fn(&Difference) -> String, least: usize| {
            let all = self.cells.iter().flat_map(|cell| &cell.figures);
            all.map(|d| text(d).chars().count()).max().unwrap_or(0).max(least)
        };
        let names = width(&|d| d.name.clone(), 6);
        let values = width(&|d| number(d.old), 8).max(width(&|d| number(d.new), 8));
        let changes = width(&Difference::change, 6);
        for cell in &self.cells {
            let old = "old";
            writeln!(
                f,
                "\n{:<names$}  {old:>values$}  {:>values$}  {:>changes$}  95 % interval",
                if cell.cell.is_empty() { "figure" } else { &cell.cell },
                "new",
                "change"
            )?;
            for d in &cell.figures {
                let line = format!(
                    "{:<names$}  {:>values$}  {:>values$}  {:>changes$}  {}",
                    d.name,
                    number(d.old),
                    number(d.new),
                    d.change(),
                    d.ends()
                );
                writeln!(f, "{}", line.trim_end())?;
            }
        }
        writeln!(f)?;
        writeln!(f, "{}", self.significance())?;
        if self.exact {
            writeln!(f, "Virtual time: each run is exact. Intervals are over the repeats' seeds.")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_runs_differ_by_nothing_and_a_constant_change_is_certain() {
        let same = difference("all.tx_bytes", "bytes".to_owned(), &[[7.0, 7.0], [9.0, 9.0]]);
        assert_eq!((same.change().as_str(), same.ends().as_str()), ("0", ""));
        assert!(!same.exceeds(0.0));
        let more = difference("x", "x".to_owned(), &[[100.0, 101.0], [300.0, 303.0]]);
        assert_eq!(more.change(), "+1.00 %");
        // Differences 1 and 3: mean 2, standard error 1, t of one degree of freedom.
        assert_eq!(more.interval.unwrap(), [2.0 - 12.706, 2.0 + 12.706]);
        assert!(!more.exceeds(0.5), "the interval contains 0");
        let sure = difference("x", "x".to_owned(), &[[100.0, 90.0], [300.0, 290.0]]);
        assert!(sure.exceeds(4.9) && !sure.exceeds(5.1));
        assert_eq!(sure.change(), "−5.00 %");
        let appeared = difference("x", "x".to_owned(), &[[0.0, 2.0]]);
        assert_eq!(appeared.change(), "+2.00");
        assert!(appeared.exceeds(1e9));
        let tested = [same, more, sure, appeared].map(|d| d.significant);
        assert_eq!(tested, [Some(false), Some(false), Some(true), None]);
    }

    #[test]
    fn from_zero_a_change_counts_only_beyond_chance() {
        let from = |new: &[f64]| {
            let values: Vec<[f64; 2]> = new.iter().map(|new| [0.0, *new]).collect();
            difference("x", "x".to_owned(), &values)
        };
        // One run of three has a single lost message: mean 1/3, interval -1.1 to 1.8.
        assert!(!from(&[0.0, 0.0, 1.0]).exceeds(5.0));
        assert!(from(&[1.0, 1.1, 0.9]).exceeds(5.0) && from(&[1.0]).exceeds(5.0));
        assert!(!from(&[0.0, 0.0]).exceeds(0.0) && !from(&[0.0]).exceeds(0.0));
        assert_eq!(from(&[1.0, 1.0]).percent_interval, None);
    }

    #[test]
    fn intervals_are_those_of_students_t_distribution() {
        // Differences -3, -1, 1, 3: mean 0, standard error sqrt(20/3/4); t of 3 degrees is 3.182.
        let four = [[9.0, 6.0], [9.0, 8.0], [9.0, 10.0], [9.0, 12.0]];
        let [low, high] = difference("x", "x".to_owned(), &four).interval.unwrap();
        let half = 3.182 * (5.0_f64 / 3.0).sqrt();
        assert!((low + half).abs() < 1e-9 && (high - half).abs() < 1e-9, "{low} {high}");
        // Quantiles fall towards that of the normal distribution.
        let all: Vec<f64> = (1..100).map(quantile).collect();
        assert!(all.windows(2).all(|pair| pair[0] >= pair[1]) && all[98] == NORMAL95);
        assert_eq!((quantile(1), quantile(10), quantile(30)), (12.706, 2.228, 2.042));
    }

    #[test]
    fn a_figure_without_a_number_is_no_change() {
        let negative = difference("x", "x".to_owned(), &[[-10.0, -5.0], [-10.0, -5.0]]);
        assert_eq!(negative.change(), "+50.0 %");
        assert!(negative.exceeds(49.0) && !negative.exceeds(51.0));
        let hostile = difference("a", "a\u{1b}[2Jb".to_owned(), &[[1.0, 1.0]]);
        assert_eq!(hostile.name, "a [2Jb");
        let huge = difference("x", "x".to_owned(), &[[f64::MAX, f64::MIN]]);
        assert!(huge.change().chars().count() < 20, "{}", huge.change());
    }

    #[test]
    fn the_statement_names_what_differs_beyond_chance() {
        let cell = |name: &str, values: &[[f64; 2]]| CellDifferences {
            cell: name.to_owned(),
            figures: vec![difference("all.tx_bytes", "bytes".to_owned(), values)],
        };
        let builds = |cells| Builds { exact: false, cells, newly_failed: vec![], notes: vec![] };
        let sure = [[100.0, 90.0], [300.0, 290.0]];
        let one = builds(vec![cell("all", &[[1.0, 2.0]])]).significance();
        assert!(one.contains("not tested"), "{one}");
        let none = builds(vec![cell("all", &[[1.0, 1.0], [2.0, 2.0]])]).significance();
        assert!(none.contains("none of 1 figures"), "{none}");
        let two = builds(vec![cell("x 1", &sure), cell("x 2", &[[1.0, 1.0], [2.0, 2.0]])]);
        let two = two.significance();
        assert!(
            two.ends_with("1 of 2 figures differ beyond chance (95 %): bytes of x 1."),
            "{two}"
        );
        let many = builds((0..40).map(|n| cell(&n.to_string(), &sure)).collect());
        assert!(many.significance().contains("By chance alone, about 2 would"));
    }

    #[test]
    fn main_figures_have_the_names_of_their_workloads() {
        assert_eq!(main("all.cpu_us_per_message"), Some((0, "CPU a message".to_owned())));
        assert_eq!(main("groups.a.cpu_us_per_message"), None);
        assert_eq!(main("loads.http.response_ms.p99").unwrap().1, "http p99");
        assert_eq!(main("programs.ping.rtt.p99").unwrap().1, "ping.rtt p99");
        assert_eq!(main("messages.rtd_ms.p99").unwrap().1, "p99");
    }

    #[test]
    fn all_numbers_of_a_summary_are_found() {
        let summary =
            serde_json::json!({"cell": {"n": 1}, "seed": 3, "all": {"a": [1, {"b": 2.5}]}});
        let mut found = BTreeMap::new();
        flatten(&summary, String::new(), &mut found);
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [("all.a.0".to_owned(), 1.0), ("all.a.1.b".to_owned(), 2.5)]
        );
    }
}
