//! What a full disk cost a run, and space for its figures.

use crate::bed::jobs::{Job, Role};
use crate::error::Error;
use experiment::{DiskForecast, Plan, Workload};
use journal::Reserve;
use measure::{Auxiliary, FullDisk, Lost, Written};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use units::Instant;

/// Free space below which a failed write means a full disk, in bytes.
const HARDLY: u64 = 1 << 20;

/// The parts of the run folder that were given up during the run.
/// `output` is the number of bytes that logs lost.
pub(crate) fn lost_to_full_disk(
    disk: &FullDisk,
    captured: &Written,
    output: u64,
    decisions_missed: u64,
    start: Instant,
) -> Vec<Lost> {
    let mut lost = Vec::new();
    for part in Auxiliary::ALL {
        let Some(at) = disk.since(part) else { continue };
        let what = match part {
            Auxiliary::Capture if captured.given_up > 0 => {
                format!("the capture misses {} frames", captured.given_up)
            }
            Auxiliary::Output if output > 0 => {
                format!("{:.1} MB of the output of programs are missing", output as f64 / 1e6)
            }
            Auxiliary::Decisions if decisions_missed > 0 => {
                format!("{decisions_missed} impairment decisions are missing")
            }
            _ => continue,
        };
        let from_ms = at.ns_from(start) / 1_000_000;
        lost.push(Lost { what, from_ms: Some(from_ms) });
    }
    lost
}

/// Whether a file system has hardly any space, or a quota of it is used up.
pub(crate) fn has_no_space(folder: &Path) -> bool {
    journal::free_space(folder).is_ok_and(|free| free < HARDLY)
        || journal::can_allocate(folder, HARDLY).is_err()
}

/// Allocates space for the events of workload programs, so that they can write them when the disk is
/// full: at most half of what is free. It is an estimate, so that it may fail or not be enough; then
/// the program reports the error.
pub(crate) fn preallocate_events(plan: &Plan, jobs: &[Job]) {
    let mut requested: Vec<(&Job, u64)> = Vec::new();
    for (number, workload) in plan.workloads.iter().enumerate() {
        let own: Vec<&Job> = jobs.iter().filter(|job| job.workload == Some(number)).collect();
        let one = Plan { workloads: vec![workload.clone()], ..plan.clone() };
        let all = DiskForecast::of(&one, false).events;
        // An interaction is divided by the number of its sinks, which must not be 0.
        let count = own.len().max(2) as u64;
        match workload {
            Workload::Interaction(_) => {
                requested.extend(own.into_iter().map(|job| match job.role {
                    // The source writes about as many events as all sinks together.
                    Role::Source => (job, all / 2),
                    _ => (job, all / 2 / (count - 1)),
                }))
            }
            // Subscribers have more events than publishers.
            Workload::Mqtt(_) | Workload::Exchange(_) => {
                requested.extend(own.into_iter().map(|job| (job, 2 * all / count)));
            }
            // Loads write their results at their end.
            _ => {}
        }
    }
    let sum: u64 = requested.iter().map(|(_, bytes)| bytes).sum();
    let Some((first, _)) = requested.first() else { return };
    let folder = first.files.events.parent().unwrap_or(Path::new("."));
    let share = journal::free_space(folder).map_or(0, |free| free / 2) as f64 / sum.max(1) as f64;
    for (job, bytes) in requested {
        let file = File::create_new(&job.files.events);
        let bytes = (bytes as f64 * share.min(1.0)) as u64;
        let _ = file.and_then(|file| journal::preallocate(&file, bytes));
    }
}

/// Keeps space for the tables and the summary of a run.
///
/// # Errors
/// When there is not enough.
pub(crate) fn reserve(folder: &Path, plan: &Plan) -> io::Result<Reserve> {
    Reserve::take(folder, DiskForecast::of(plan, false).figures)
}

/// Removes what no figure depends on, if `error` is that of a full disk or quota: first the
/// capture, then the output of programs, then the decisions. Returns what it removed; `None` if
/// there is nothing left, or there is space.
pub(crate) fn make_space(folder: &Path, error: &Error) -> Option<Lost> {
    lacks_space(folder, error).then(|| remove_next(folder)).flatten()
}

/// Whether `error` is that of a full disk or quota, which more space would prevent.
pub(crate) fn lacks_space(folder: &Path, error: &Error) -> bool {
    // Only the errors tell of a quota; of a full disk, libraries pass on others.
    error.needs_space() || journal::free_space(folder).is_ok_and(|free| free < HARDLY)
}

/// Removes the next part; `None` if there is nothing left.
fn remove_next(folder: &Path) -> Option<Lost> {
    let logs = || -> Vec<PathBuf> {
        let found = fs::read_dir(folder.join("programs")).into_iter().flatten().flatten();
        let is_log = |path: &PathBuf| {
            path.extension().is_some_and(|extension| extension == "out" || extension == "err")
        };
        found.map(|entry| entry.path()).filter(is_log).collect()
    };
    let parts = [
        ("the capture was removed", vec![folder.join("capture.pcapng")]),
        ("the output of programs was removed", logs()),
        ("the impairment decisions were removed", vec![folder.join("decisions.parquet")]),
    ];
    for (what, files) in parts {
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len());
        let bytes: u64 = files.iter().map(size).sum();
        if bytes == 0 {
            continue;
        }
        files.iter().for_each(|path| drop(fs::remove_file(path)));
        return Some(Lost { what: what.to_owned(), from_ms: None });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bed::jobs::Files;
    use crate::test_plan::plan;
    use units::Span;

    fn names(folder: &Path) -> Vec<String> {
        let found = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn parts_are_removed_in_order_and_never_the_figures() {
        let dir = tempfile::tempdir().unwrap();
        let programs = dir.path().join("programs");
        fs::create_dir(&programs).unwrap();
        for name in ["capture.pcapng", "decisions.parquet", "messages.parquet", "plan.json"] {
            fs::write(dir.path().join(name), "text").unwrap();
        }
        for name in ["a.run.out", "a.run.err", "a.0.csv", "a.0.json", "out"] {
            fs::write(programs.join(name), "text").unwrap();
        }
        let mut what = Vec::new();
        while let Some(lost) = remove_next(dir.path()) {
            assert_eq!(lost.from_ms, None, "all of it is lost");
            what.push(lost.what);
        }
        let parts = ["capture was", "output of programs was", "impairment decisions were"];
        assert_eq!(what, parts.map(|part| format!("the {part} removed")));
        assert_eq!(names(dir.path()), ["messages.parquet", "plan.json", "programs"]);
        assert_eq!(names(&programs), ["a.0.csv", "a.0.json", "out"], "events become figures");
    }

    #[test]
    fn empty_parts_give_no_space_and_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("capture.pcapng"), "").unwrap();
        fs::write(dir.path().join("decisions.parquet"), "x").unwrap();
        let what = || remove_next(dir.path()).map(|lost| lost.what);
        assert_eq!(what().as_deref(), Some("the impairment decisions were removed"));
        assert_eq!((what(), names(dir.path())), (None, vec!["capture.pcapng".to_owned()]));
        assert!(remove_next(&dir.path().join("none")).is_none());
    }

    #[test]
    fn a_part_that_was_given_up_without_a_loss_is_not_lost() {
        let captured = |given_up| Written { given_up, ..Written::default() };
        let disk = FullDisk::default();
        assert!(
            lost_to_full_disk(&disk, &captured(5), 5, 5, Instant::START).is_empty(),
            "nothing is given up"
        );
        Auxiliary::ALL.into_iter().for_each(|part| disk.give_up(part));
        assert!(
            lost_to_full_disk(&disk, &captured(0), 0, 0, Instant::START).is_empty(),
            "nothing is missing"
        );
        let at = disk.since(Auxiliary::Capture).unwrap();
        let lost = lost_to_full_disk(&disk, &captured(7), 2_500_000, 9, at + Span::from_us(3_500));
        let what: Vec<_> = lost.iter().map(|lost| lost.what.as_str()).collect();
        assert_eq!(
            what,
            [
                "the capture misses 7 frames",
                "2.5 MB of the output of programs are missing",
                "9 impairment decisions are missing"
            ]
        );
        assert_eq!(lost[0].from_ms, Some(-3), "before offset 0");
    }

    /// Jobs of a workload with events files in `dir`.
    fn jobs(dir: &Path, roles: &[Role]) -> Vec<Job> {
        let job = |(node, role): (usize, &Role)| {
            let files = Files::of(dir, &format!("n-{node}"), Some(0));
            Job::of(node, "n", Some(0), *role, Vec::new(), dir, files)
        };
        roles.iter().enumerate().map(job).collect()
    }

    #[test]
    fn space_for_events_is_empty_and_spares_what_exists() {
        let plan = plan(
            "experiment: e
nodes: {a: {count: 1}, b: {count: 2}}
networks: {air: {attach: [a, b], subnet: 10.0.0.0/24}}
workloads:
  - exchange: {sources: b, sinks: a, protocol: udp, payload: 50 B, repetitions: 300, every: 10 ms}
",
        );
        let dir = tempfile::tempdir().unwrap();
        let jobs = jobs(dir.path(), &[Role::Sink, Role::Source, Role::Source]);
        fs::write(&jobs[0].files.events, "kept").unwrap();
        preallocate_events(&plan, &jobs);
        assert_eq!(fs::read_to_string(&jobs[0].files.events).unwrap(), "kept");
        for job in &jobs[1..] {
            let file = fs::metadata(&job.files.events).unwrap();
            assert_eq!(file.len(), 0, "a reader would take zeros for events");
        }
        preallocate_events(&plan, &[]);
    }

    /// A quota is not in the free space of a disk.
    #[test]
    fn a_quota_costs_auxiliary_files_in_order_and_a_limit_of_file_sizes_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        fs::create_dir(folder.join("programs")).unwrap();
        for name in ["capture.pcapng", "programs/a.0.out", "decisions.parquet", "plan.json"] {
            fs::write(folder.join(name), name).unwrap();
        }
        let failed = |errno| Error::write(folder)(io::Error::from_raw_os_error(errno));
        for useless in [libc::EFBIG, libc::EIO] {
            assert_eq!(make_space(folder, &failed(useless)).map(|lost| lost.what), None);
        }
        for part in ["the capture", "the output", "the impairment decisions"] {
            let lost = make_space(folder, &failed(libc::EDQUOT)).unwrap();
            assert!(lost.what.starts_with(part), "{}", lost.what);
        }
        assert_eq!(make_space(folder, &failed(libc::EDQUOT)).map(|lost| lost.what), None);
        assert!(folder.join("plan.json").exists());
    }
}
