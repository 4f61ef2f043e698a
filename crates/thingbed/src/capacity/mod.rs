//! `thingbed capacity`: finds the largest value of an axis that meets the targets in trusted runs.

mod render;
mod result;
mod search;
mod steady;

use crate::arguments::{Capacity, Format, Run};
use crate::environment::frame_path;
use crate::progress::Screen;
use crate::signals::watch_signals;
use crate::sweep::{self, Sweep};
use crate::{Status, complain, remark, say, show};
use engine::FramePath;
use experiment::{Cell, Experiment, Target};
use result::{Capacities, TestedValue};
use runner::{Error, Finished};
use search::{Outcome, Search};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use steady::{Steadiness, steadiness};

/// The numeric scale of an axis: values are whole numbers with a common unit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Scale {
    unit: String,
    from: u64,
}

impl Scale {
    /// The scale of an axis with these values; the search starts at the smallest.
    fn of(axis: &str, values: &[String]) -> Result<Self, String> {
        let split = |value: &String| {
            let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
            Some((value[..end].parse::<u64>().ok()?, value[end..].to_owned()))
        };
        let wrong = || {
            format!(
                "the axis `{axis}` has values other than whole numbers of one unit: {}\n  \
                 write, for example, `{axis}: [10, 100]` or `{axis}: [100/s]`",
                values.join(", ")
            )
        };
        let split: Option<Vec<_>> = values.iter().map(split).collect();
        let split = split.filter(|split| !split.is_empty()).ok_or_else(wrong)?;
        let unit = split[0].1.clone();
        if split.iter().any(|(_, other)| *other != unit) {
            return Err(wrong());
        }
        // A search that doubles never leaves 0.
        let from = split.iter().map(|(number, _)| *number).min().unwrap_or(1).max(1);
        Ok(Self { unit, from })
    }

    fn text(&self, value: u64) -> String {
        format!("{value}{}", self.unit)
    }
}

/// Finds the capacity in each cell of an experiment.
pub fn capacity(arguments: &Capacity) -> Status {
    match CapacitySearch::prepare(arguments) {
        Ok(search) => search.run_all(),
        Err((status, error)) => {
            complain(error);
            status
        }
    }
}

struct CapacitySearch<'a> {
    arguments: &'a Capacity,
    run: Run,
    experiment: Experiment,
    scale: Scale,
    targets: Vec<Target>,
    /// All combinations of the other axes.
    cells: Vec<Cell>,
    repeats: u32,
    seed: u64,
    folder: PathBuf,
    interrupted: Arc<AtomicBool>,
    frame_path: Option<FramePath>,
}

/// Refuses a range without values.
fn check_range(arguments: &Capacity) -> Result<(), String> {
    match (arguments.from, arguments.to) {
        (Some(from), Some(to)) if from > to => Err(format!(
            "--from {from} is above --to {to}\n  the search tests values from the first to the \
             second"
        )),
        _ => Ok(()),
    }
}

impl<'a> CapacitySearch<'a> {
    fn prepare(arguments: &'a Capacity) -> Result<Self, (Status, String)> {
        let wrong = |error: String| (Status::Wrong, error);
        let experiment =
            arguments.settings.read(&arguments.file).map_err(|e| wrong(e.to_string()))?;
        let axis = &arguments.max;
        let values = experiment.axes().find(|(name, _)| name == axis).map(|(_, values)| values);
        let values = values.ok_or_else(|| {
            let known: Vec<&str> = experiment.axes().map(|(name, _)| name).collect();
            wrong(format!(
                "the matrix has no axis `{axis}`\n  --max takes the name of an axis with numeric \
                 values; there {} {}",
                if known.len() == 1 { "is" } else { "are" },
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ))
        })?;
        let scale = Scale::of(axis, values).map_err(wrong)?;
        check_range(arguments).map_err(wrong)?;
        let cells = show::cells(&experiment, &arguments.only).map_err(|e| wrong(e.to_string()))?;
        // Several values of the searched axis differ only in where the search starts.
        let mut rest: Vec<Cell> = Vec::new();
        for cell in cells.iter().map(|cell| cell.without(axis)) {
            if !rest.contains(&cell) {
                rest.push(cell);
            }
        }
        let mut targets = Vec::new();
        for text in &arguments.slo {
            targets.push(text.parse::<Target>().map_err(|e| wrong(e.to_string()))?);
        }
        let seed = arguments.seed.unwrap_or(experiment.seed);
        // The metrics of a target exist or not by the kind of workload, which all cells share: one
        // plan is enough to refuse a wrong name before the first run.
        if let Some(cell) = cells.first() {
            let plan = experiment.plan(cell, 0, seed).map_err(|e| wrong(e.to_string()))?;
            targets
                .iter()
                .try_for_each(|target| target.check(&plan))
                .map_err(|e| wrong(e.to_string()))?;
        }
        let failed = |error: String| (Status::Failed, error);
        let interrupted = watch_signals()
            .map_err(|e| failed(format!("could not install the handler for Ctrl-C: {e}")))?;
        let frame_path = frame_path().map_err(|e| wrong(e.to_string()))?;
        let run = Run {
            file: arguments.file.clone(),
            only: Vec::new(),
            settings: arguments.settings.clone(),
            repeat: None,
            seed: Some(seed),
            out: arguments.out.clone(),
            resume: None,
            replay: None,
            on: None,
            stop_at: None,
            forwarding: arguments.forwarding,
            capture: false,
            retry: 0,
            format: Format::default(),
            clock: arguments.clock,
            cpu: arguments.cpu.into_iter().collect(),
            jobs: Some(1),
            junit: None,
            watch: None,
            quiet: arguments.quiet,
        };
        // Before the folder exists: a search that cannot start leaves no empty folder.
        sweep::check_plans(&run, &experiment, &cells, seed).map_err(|e| failed(e.to_string()))?;
        let folder =
            sweep::begin(&run, &experiment, seed).map_err(|error| failed(error.to_string()))?;
        let repeats = arguments.repeat.unwrap_or(3);
        Ok(Self {
            arguments,
            run,
            scale,
            targets,
            cells: rest,
            repeats,
            seed,
            folder,
            interrupted,
            frame_path,
            experiment,
        })
    }

    fn run_all(&self) -> Status {
        let mut all = Vec::new();
        let mut summaries = Vec::new();
        for cell in &self.cells {
            let found = match self.one(cell, &mut summaries) {
                Ok(found) => found,
                Err(error) => {
                    complain(error);
                    return Status::Failed;
                }
            };
            say(render::render(&found, &self.targets));
            let ended = found.interrupted;
            all.push(found);
            // Write after each search, so that its results survive a kill.
            let kept = sweep::write(&self.folder.join("capacity.json"), &all)
                .and_then(|()| sweep::write(&self.folder.join("summary.json"), &summaries));
            if let Err(error) = kept {
                complain(error);
                return Status::Failed;
            }
            if ended {
                break;
            }
        }
        if !summaries.is_empty() {
            let page = self.folder.join("report.html");
            let drawn =
                report::Sweep::read(&self.folder).and_then(|runs| report::write_html(&runs, &page));
            match drawn {
                Ok(()) => say(format_args!("report: {}", page.display())),
                Err(error) => complain(error),
            }
        }
        match all.iter().any(|found| found.interrupted) {
            true => Status::Interrupted,
            false if all.iter().all(|found| found.best.is_some()) => Status::Fine,
            false => Status::Unexpected,
        }
    }

    /// Searches one combination of the other axes.
    fn one(&self, cell: &Cell, summaries: &mut Vec<Value>) -> Result<Capacities, Error> {
        // Without `--from` the search may go below all values of the file, down to 1.
        let least = self.arguments.from.map_or(1, |from| from.min(self.scale.from));
        let from = self.arguments.from.unwrap_or(self.scale.from);
        let most = self.arguments.to.unwrap_or(u64::MAX);
        let mut search = Search::new(from, least, most, self.arguments.resolution.fraction());
        let mut tried = Vec::new();
        while let Some(value) = search.next() {
            let one = self.test_value(cell, value, summaries)?;
            // An interrupted value has fewer runs than the others, so its result does not count.
            if self.interrupted.load(Relaxed) {
                break;
            }
            search.record(value, one.found);
            tried.push(one);
        }
        Ok(Capacities {
            cell: cell.clone(),
            axis: self.arguments.max.clone(),
            best: search.best().map(|value| self.scale.text(value)),
            limit: search.limit().map(|(value, found)| (self.scale.text(value), found)),
            interrupted: self.interrupted.load(Relaxed),
            tried,
        })
    }

    /// Runs a value until enough runs are trusted, or twice that number has run.
    fn test_value(
        &self,
        cell: &Cell,
        value: u64,
        summaries: &mut Vec<Value>,
    ) -> Result<TestedValue, Error> {
        let (axis, text) = (&self.arguments.max, self.scale.text(value));
        let mut tried = TestedValue {
            value: text.clone(),
            number: value,
            runs: 0,
            valid: 0,
            figures: Vec::new(),
            found: Outcome::Lost,
            reasons: Vec::new(),
            overload: None,
            visible_growth: 0.0,
        };
        // Large values can be impossible, such as more nodes than the subnet has addresses. That
        // limits the test bed and not the system.
        let experiment = match self.experiment.with_value(axis, &text) {
            Ok(experiment) => experiment,
            Err(errors) => {
                tried.reasons.push(format!("the experiment rejects this value: {errors}"));
                return Ok(tried);
            }
        };
        let cells = experiment.cells(&experiment::Only::all())?;
        let Some(whole) = cells.iter().find(|whole| whole.without(axis) == *cell) else {
            return Ok(tried);
        };
        let sweep = Sweep {
            arguments: &self.run,
            experiment: &experiment,
            folder: self.folder.clone(),
            seed: self.seed,
            interrupted: self.interrupted.clone(),
            frame_path: self.frame_path,
            capsule: None,
        };
        let mut figures = vec![Vec::new(); self.targets.len()];
        let mut overloaded = 0;
        // A machine that disturbs every run must not make the search endless.
        while tried.valid < self.repeats && tried.runs < 2 * self.repeats {
            let title = format!("{whole}, run {}", tried.runs + 1);
            let mut screen = Screen::new(&title, self.arguments.quiet, None);
            let finished = match sweep.one(whole, tried.runs, false, &mut screen) {
                Ok(finished) => finished,
                // A full disk or a guest that cannot start would fail for all further values too.
                Err(
                    error @ (Error::Write { .. }
                    | Error::Table(_)
                    | Error::Guest { ends_sweep: true, .. }),
                ) => return Err(error),
                Err(error) => {
                    screen.end("failed");
                    if !self.interrupted.load(Relaxed) {
                        remark(format_args!("  {error}"));
                        tried.reasons.push(error.to_string());
                    }
                    return Ok(tried);
                }
            };
            screen.end(&sweep::word(&finished));
            tried.runs += 1;
            if self.is_trusted(&finished.verdict) {
                tried.valid += 1;
                match overload(&finished) {
                    // One reason is enough for the text; the runs differ only in their figures.
                    Steadiness::Grows(why) => {
                        overloaded += 1;
                        tried.overload.get_or_insert(why);
                    }
                    Steadiness::Steady(share) => {
                        tried.visible_growth = tried.visible_growth.max(share);
                    }
                }
                for (figures, target) in figures.iter_mut().zip(&self.targets) {
                    figures.push(target.figure_or_worst(&finished.summary));
                }
            } else {
                tried.reasons.extend(finished.verdict.reasons.first().map(ToString::to_string));
            }
            summaries.push(finished.summary);
            if self.interrupted.load(Relaxed) {
                return Ok(tried);
            }
        }
        // A run without the metric counts as infinitely bad, and an infinite median is not a
        // number.
        let known = |figure: &f64| figure.is_finite();
        tried.figures = figures.into_iter().map(|all| median(all).filter(known)).collect();
        // Fewer than half of the requested runs are no evidence, neither of a value that works nor
        // of the system's limit.
        if 2 * tried.valid >= self.repeats {
            // A metric without a value, such as the delay when nothing arrived, misses its target.
            let mut pairs = tried.figures.iter().zip(&self.targets);
            // The majority decides, as the median does for the figures.
            let is_met = pairs.all(|(figure, target)| figure.is_some_and(|f| target.is_met_by(f)));
            let is_met = is_met && 2 * overloaded < tried.valid;
            tried.found = if is_met { Outcome::Met } else { Outcome::Missed };
        }
        // The text belongs to values that failed; a minority of runs with a growing queue would
        // read as a contradiction.
        if tried.found != Outcome::Missed {
            tried.overload = None;
        }
        Ok(tried)
    }

    /// Whether a run shows the system's behaviour: the machine kept up, or nearly did and
    /// `--suspect` allows it. A failed program counts as the system's behaviour.
    fn is_trusted(&self, verdict: &record::Verdict) -> bool {
        let judged = verdict.reasons.iter().map(|reason| reason.status);
        let machine = judged.filter(|status| *status != record::Status::Failed).max();
        match machine {
            Some(record::Status::Suspect) => self.arguments.suspect,
            Some(record::Status::Invalid) => false,
            _ => true,
        }
    }
}

/// Whether the system was overloaded in a trusted run.
fn overload(finished: &Finished) -> Steadiness {
    let failed = finished.verdict.reasons.iter().find(|r| r.status == record::Status::Failed);
    match failed {
        Some(reason) => Steadiness::Grows(reason.headline()),
        None => steadiness(&finished.summary),
    }
}

fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        n if n % 2 == 1 => Some(figures[middle]),
        _ => Some(f64::midpoint(figures[middle - 1], figures[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_that_of_the_files_values() {
        let of = |values: &[&str]| {
            let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
            Scale::of("meters", &values)
        };
        assert_eq!(of(&["100", "10"]).unwrap(), Scale { unit: String::new(), from: 10 });
        let rates = of(&["100/s"]).unwrap();
        assert_eq!((rates.from, rates.text(250)), (100, "250/s".to_owned()));
        for bad in [&["near", "far"][..], &["10/s", "1/min"], &[]] {
            assert!(of(bad).unwrap_err().contains("`meters: [10, 100]`"));
        }
    }

    #[test]
    fn a_median_of_two_lies_between_them() {
        assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
        assert_eq!(median(vec![5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(Vec::new()), None);
    }
}
