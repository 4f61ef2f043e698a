//! Two builds compared by their run folders: what is paired, what is left out, and what is chance.

#[allow(dead_code, missing_docs)]
mod fixture;

use fixture::Invention;
use report::{Builds, Difference, Status, Sweep, compare_builds};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Sweeps of one cell with these repeats.
struct Pair {
    _folders: [tempfile::TempDir; 2],
    old: Vec<PathBuf>,
    new: Vec<PathBuf>,
}

fn pair(repeats: [u64; 2]) -> Pair {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let write = |place: usize| {
        let invention = Invention {
            models: vec!["udp-rr".to_owned()],
            networks: vec!["ideal".to_owned()],
            repeats: repeats[place],
            consumers: 1,
            messages: 10,
            seconds: 5,
            ..Invention::default()
        };
        invention.write(folders[place].path())
    };
    Pair { old: write(0), new: write(1), _folders: folders }
}

impl Pair {
    fn sweeps(&self) -> [Sweep; 2] {
        [&self.old, &self.new].map(|runs| Sweep::read(runs[0].parent().unwrap()).unwrap())
    }

    fn compared(&self) -> Builds {
        let [old, new] = self.sweeps();
        compare_builds(&old, &new, false).unwrap()
    }
}

/// Changes a run's summary.
fn edit(run: &Path, change: impl FnOnce(&mut Value)) {
    let path = run.join("summary.json");
    let mut summary = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut summary);
    fixture::write(&path, &summary);
}

/// Sets the 99th percentile of the round trip, by repeat.
fn set_p99(runs: &[PathBuf], values: &[f64]) {
    for (run, value) in runs.iter().zip(values) {
        edit(run, |summary| summary["messages"]["rtd_ms"]["p99"] = (*value).into());
    }
}

fn p99(builds: &Builds) -> &Difference {
    builds.cells[0].figures.iter().find(|figure| figure.name == "p99").unwrap()
}

#[test]
fn a_build_compared_with_itself_differs_in_nothing() {
    let pair = pair([3, 3]);
    let [old, _] = pair.sweeps();
    for all in [false, true] {
        let builds = compare_builds(&old, &old, all).unwrap();
        assert!(!builds.cells[0].figures.is_empty());
        for figure in &builds.cells[0].figures {
            assert_eq!((figure.difference, figure.interval), (0.0, Some([0.0, 0.0])));
            assert!(!figure.exceeds(0.0) && figure.significant == Some(false), "{figure:?}");
        }
        let text = builds.to_string();
        assert!(text.contains("Significance: none of"), "{text}");
    }
    assert!(pair.compared().notes.is_empty(), "the same seeds");
}

#[test]
fn a_change_has_the_interval_of_its_pairs() {
    let pair = pair([3, 3]);
    // Differences 9, 10 and 11 of 100, 200 and 300: mean 10, standard error 1/sqrt(3), t = 4.303.
    set_p99(&pair.old, &[100.0, 200.0, 300.0]);
    set_p99(&pair.new, &[109.0, 210.0, 311.0]);
    let builds = pair.compared();
    let found = p99(&builds);
    assert_eq!((found.old, found.new, found.difference, found.repeats), (200.0, 210.0, 10.0, 3));
    let half = 4.303 / 3_f64.sqrt();
    let [low, high] = found.interval.unwrap();
    assert!((low - (10.0 - half)).abs() < 1e-9 && (high - (10.0 + half)).abs() < 1e-9);
    // In percent of 200: 5, from 3.76 to 6.24.
    assert!(found.exceeds(3.7) && !found.exceeds(3.8));
    assert_eq!(found.significant, Some(true));
    // Without pairs, values of 100 to 300 would hide the change.
    assert!(builds.to_string().contains("p99"), "{builds}");
    // The same in the other direction.
    let [old, new] = pair.sweeps();
    let back = compare_builds(&new, &old, false).unwrap();
    assert_eq!(p99(&back).difference, -10.0);
    assert!(p99(&back).exceeds(3.5) && p99(&back).significant == Some(true));
}

#[test]
fn one_repeat_in_real_time_is_not_tested_and_says_so() {
    let pair = pair([1, 1]);
    set_p99(&pair.old, &[100.0]);
    set_p99(&pair.new, &[120.0]);
    let builds = pair.compared();
    let found = p99(&builds);
    assert_eq!((found.interval, found.significant), (None, None));
    assert!(found.exceeds(19.0) && !found.exceeds(21.0));
    let text = builds.to_string();
    assert!(text.contains("not tested") && text.contains("--repeat 5"), "{text}");
}

#[test]
fn failed_invalid_and_unpaired_runs_are_counted_and_left_out() {
    let pair = pair([5, 3]);
    set_p99(&pair.old, &[10.0; 5]);
    set_p99(&pair.new, &[10.0, 10.0, 1e9]);
    let status = |run: &Path, status: &str| {
        edit(run, |summary| summary["verdict"]["status"] = status.into());
        // Both files have the verdict.
        fs::remove_file(run.join("run.json")).unwrap();
    };
    status(&pair.new[2], "failed");
    let builds = pair.compared();
    assert_eq!(builds.newly_failed.len(), 1, "{:?}", builds.newly_failed);
    assert!(builds.newly_failed[0].ends_with(" 2"), "{:?}", builds.newly_failed);
    assert_eq!((p99(&builds).repeats, p99(&builds).difference), (2, 0.0));
    let notes = builds.notes.join("\n");
    assert!(notes.contains("2 runs of the first have no counterpart"), "{notes}");
    assert!(notes.contains("1 pairs of runs are left out"), "{notes}");
    // A run that failed before, too, is nothing new; an invalid one is about the machine.
    status(&pair.old[2], "failed");
    status(&pair.new[1], "invalid");
    let builds = pair.compared();
    assert!(builds.newly_failed.is_empty());
    assert_eq!(p99(&builds).repeats, 1);
    status(&pair.old[0], "invalid");
    let [old, new] = pair.sweeps();
    let error = compare_builds(&old, &new, false).unwrap_err();
    assert!(error.contains("no run of one has a usable counterpart"), "{error}");
}

#[test]
fn a_figure_that_some_runs_lack_is_no_difference_and_other_seeds_are_noted() {
    let pair = pair([2, 2]);
    edit(&pair.new[1], |summary| {
        summary["messages"]["rtd_ms"]["p99"] = Value::Null;
        summary["seed"] = 8.into();
    });
    let builds = pair.compared();
    assert!(builds.cells[0].figures.iter().all(|figure| figure.name != "p99"));
    assert!(builds.notes.iter().any(|note| note.contains("the seeds differ")));
    // All other cells of one sweep only.
    edit(&pair.new[0], |summary| summary["cell"] = serde_json::json!({"model": "other"}));
    edit(&pair.new[1], |summary| summary["cell"] = serde_json::json!({"model": "other"}));
    let list = pair.new[0].parent().unwrap().join("summary.json");
    fs::remove_file(list).unwrap();
    let [old, new] = pair.sweeps();
    assert!(compare_builds(&old, &new, true).unwrap_err().contains("2 runs of the first"));
}

#[test]
fn a_cell_counts_usable_runs_only_unless_there_are_none() {
    let pair = pair([3, 1]);
    set_p99(&pair.old, &[1.0, 2.0, 90.0]);
    let spread = || {
        let [sweep, _] = pair.sweeps();
        let cells = sweep.cells();
        let spread = cells[0].spread(|run| run.metric("messages.rtd_ms.p99")).unwrap();
        (spread.median, spread.count, cells[0].status())
    };
    assert_eq!(spread(), (2.0, 3, Status::Valid));
    for (place, run) in pair.old.iter().enumerate().rev() {
        edit(run, |summary| summary["verdict"]["status"] = "failed".into());
        fs::remove_file(run.join("run.json")).unwrap();
        // All failed: their figures help to see why.
        let expected = [(2.0, 3), (1.0, 1), (1.5, 2)][place];
        assert_eq!(spread(), (expected.0, expected.1, Status::Failed), "{place}");
    }
}
