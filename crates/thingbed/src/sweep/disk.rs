//! Checks before a sweep whether its disk has space for it.

use crate::arguments::Run;
use experiment::{Cell, DiskForecast, Experiment};
use std::path::Path;

/// Compares the forecast of a sweep with the free space of its folder. Returns a warning, if the
/// auxiliary files may not fit.
///
/// # Errors
/// When there is less than half of the space that the tables and rows need: the forecast's goal is a
/// factor of two.
pub(super) fn preflight(
    arguments: &Run,
    experiment: &Experiment,
    cells: &[Cell],
    repeats: usize,
    seed: u64,
) -> Result<Option<String>, String> {
    let out = arguments.resume.as_deref().unwrap_or(&arguments.out);
    // The folder may not exist yet.
    let existing = out.ancestors().find_map(|folder| {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        journal::free_space(folder).ok()
    });
    // File systems that do not say are not checked.
    let Some(free) = existing.filter(|free| *free > 0) else { return Ok(None) };
    let plans = cells.iter().filter_map(|cell| experiment.plan(cell, 0, seed).ok());
    let runs = plans.map(|plan| DiskForecast::of(&plan, arguments.capture));
    let runs: Vec<DiskForecast> = runs.collect();
    if let Some(limit) = journal::file_size_limit() {
        let largest = runs.iter().map(|run| run.events.max(run.figures)).max().unwrap_or(0);
        check_file_size(largest, limit)?;
    }
    // `after`, because the parts that a run needs only until its end are free again for the next
    // one.
    let sum = runs.into_iter().fold(DiskForecast::default(), DiskForecast::after);
    let sum = sum.repeated(repeats as u64);
    let folder = out.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let warning = check(sum, free)?;
    let tried = ((sum.figures + sum.rows) / 2).min(MOST_TRIED);
    journal::can_allocate(folder, tried).map_err(|error| {
        format!(
            "{} cannot take {}, half of what the results need, although the disk has {} free: {error}\n  it has a \
             quota: free space there, use another folder with --out, or shorten `duration`",
            folder.display(),
            mb(tried),
            mb(free)
        )
    })?;
    Ok(warning)
}

/// Most bytes that are allocated to find out whether a quota allows them: some file systems fill them.
const MOST_TRIED: u64 = 256 << 20;

fn mb(bytes: u64) -> String {
    format!("{:.0} MB", (bytes as f64 / 1e6).ceil())
}

/// What programs may print in addition.
fn output(needed: DiskForecast) -> String {
    match needed.output {
        0 => String::new(),
        most => format!(", and without output of programs (at most {}, `limits.output`)", mb(most)),
    }
}

/// Compares the largest file of a run that has figures with the limit of file sizes.
fn check_file_size(largest: u64, limit: u64) -> Result<(), String> {
    if limit >= largest / 2 {
        return Ok(());
    }
    Err(format!(
        "files may have {} here (`ulimit -f`), and the largest of a run needs about {}\n  raise that limit, or shorten \
         `duration`",
        mb(limit),
        mb(largest)
    ))
}

fn check(needed: DiskForecast, free: u64) -> Result<Option<String>, String> {
    let figures = needed.figures + needed.rows;
    let fix = "free space there, use another folder with --out, or shorten `duration`";
    // Half: the forecast may be too high by a factor of two, and must not refuse runs that fit.
    if free < figures / 2 {
        return Err(format!(
            "the disk has {} free, and the results need about {}, without captures{}\n  {fix}",
            mb(free),
            mb(figures),
            output(needed)
        ));
    }
    let all = figures + needed.auxiliary;
    Ok((free < all).then(|| {
        format!(
            "the disk has {} free, and the runs write about {}{}; when it \
             gets full, captures, output and decisions are cut, and the figures are kept\n  {fix}",
            mb(free),
            mb(all),
            output(needed)
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_file_sizes_below_half_of_the_largest_file_is_refused() {
        assert_eq!(check_file_size(10 << 20, 5 << 20), Ok(()));
        let error = check_file_size(10 << 20, 4 << 20).unwrap_err();
        assert!(error.contains("5 MB here (`ulimit -f`)") && error.contains("11 MB"), "{error}");
    }

    #[test]
    fn a_sweep_without_space_for_its_figures_is_refused_and_one_without_for_the_rest_warned() {
        let needed = DiskForecast {
            figures: 8 << 20,
            rows: 2 << 20,
            events: 0,
            auxiliary: 90 << 20,
            output: 0,
        };
        let error = check(needed, 4 << 20).unwrap_err();
        assert!(error.contains("5 MB free") && error.contains("11 MB") && error.contains("--out"));
        let warning = check(needed, 50 << 20).unwrap().unwrap();
        assert!(warning.contains("53 MB free") && warning.contains("105 MB"), "{warning}");
        assert_eq!(check(needed, 100 << 20), Ok(None));
        assert!(!warning.contains("output of programs"), "{warning}");
        let printing = DiskForecast { output: 128 << 20, ..needed };
        let warning = check(printing, 50 << 20).unwrap().unwrap();
        assert!(
            warning.contains("output of programs (at most 135 MB, `limits.output`)"),
            "{warning}"
        );
        assert_eq!(check(printing, 100 << 20), Ok(None), "a limit is no forecast");
    }
}
