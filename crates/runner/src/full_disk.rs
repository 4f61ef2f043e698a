//! What a full disk cost a run, and space for its figures.

use crate::bed::jobs::{Job, Role};
use crate::error::Error;
use experiment::{DiskForecast, Plan, Workload};
use journal::Reserve;
use measure::{Auxiliary, FullDisk, Lost, Written};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Free space below which a failed write means a full disk, in bytes.
const HARDLY: u64 = 1 << 20;

/// The parts of the run folder that were given up during the run.
/// `output` is the number of bytes that logs lost.
pub(crate) fn lost_to_full_disk(
    disk: &FullDisk,
    captured: &Written,
    output: u64,
    decisions_missed: u64,
    start_ns: u64,
) -> Vec<Lost> {
    let mut lost = Vec::new();
    for part in Auxiliary::ALL {
        let Some(at) = disk.since_ns(part) else { continue };
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
        let from_ms = (at as i64 - start_ns as i64) / 1_000_000;
        lost.push(Lost { what, from_ms: Some(from_ms) });
    }
    lost
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
        let count = own.len().max(2) as u64;
        match workload {
            Workload::Interaction(_) => {
                requested.extend(own.into_iter().map(|job| match job.role {
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

/// Removes what no figure depends on, if `error` is that of a full disk or quota: first the capture, then
/// the output of programs, then the decisions. Returns what it removed; `None` if there is nothing left,
/// or there is space.
pub(crate) fn make_space(folder: &Path, error: &Error) -> Option<Lost> {
    // Only the errors tell of a quota; of a full disk, libraries pass on others.
    if !error.needs_space() && journal::free_space(folder).ok()? >= HARDLY {
        return None;
    }
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
