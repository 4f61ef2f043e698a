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
    // `after`, because the parts that a run needs only until its end are free again for the next
    // one.
    let sum = runs.fold(DiskForecast::default(), DiskForecast::after);
    check(sum.repeated(repeats as u64), free)
}

fn check(needed: DiskForecast, free: u64) -> Result<Option<String>, String> {
    let mb = |bytes: u64| format!("{:.0} MB", (bytes as f64 / 1e6).ceil());
    let figures = needed.figures + needed.rows;
    let fix = "free space there, use another folder with --out, or shorten `duration`";
    // Half: the forecast may be too high by a factor of two, and must not refuse runs that fit.
    if free < figures / 2 {
        return Err(format!(
            "the disk has {} free, and the results need about {}, without captures and output of \
             programs\n  {fix}",
            mb(free),
            mb(figures)
        ));
    }
    let all = figures + needed.auxiliary;
    Ok((free < all).then(|| {
        format!(
            "the disk has {} free, and the runs write about {}, without output of programs; when it \
             gets full, captures, output and decisions are cut, and the figures are kept\n  {fix}",
            mb(free),
            mb(all)
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_without_space_for_its_figures_is_refused_and_one_without_for_the_rest_warned() {
        let needed =
            DiskForecast { figures: 8 << 20, rows: 2 << 20, events: 0, auxiliary: 90 << 20 };
        let error = check(needed, 4 << 20).unwrap_err();
        assert!(error.contains("5 MB free") && error.contains("11 MB") && error.contains("--out"));
        let warning = check(needed, 50 << 20).unwrap().unwrap();
        assert!(warning.contains("53 MB free") && warning.contains("105 MB"), "{warning}");
        assert_eq!(check(needed, 100 << 20), Ok(None));
    }
}
