//! One run, from a plan to its run folder.

use crate::error::Error;
use crate::evaluation::Evaluation;
use crate::folder::Folder;
use crate::full_disk::{lacks_space, make_space, reserve};
use crate::measurement::Measurement;
use crate::options::Options;
use crate::progress::{Progress, ProgressSink};
use crate::write::write;
use experiment::{Clock, Plan};
use measure::{Facts, Lost};
use record::Verdict;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// A finished run with its results.
#[derive(Debug)]
pub struct Finished {
    /// Its folder.
    pub folder: PathBuf,
    /// The content of `summary.json`.
    pub summary: serde_json::Value,
    /// Whether its results can be trusted.
    pub verdict: Verdict,
    /// Whether the user stopped it.
    pub interrupted: bool,
}

/// Runs `plan` and writes its results into `folder`, which must be empty.
///
/// # Errors
/// The failed step; nothing of the bed is left then.
pub fn run(
    plan: &Plan,
    folder: &Folder,
    options: &Options<'_>,
    watch: &mut dyn ProgressSink,
) -> Result<Finished, Error> {
    watch.progress(&Progress::creating());
    let begun = std::time::SystemTime::now();
    // A guest has no disk.
    let space = (options.clock == Clock::Real).then(|| reserve(folder.path(), plan)).transpose();
    let mut space = space.map_err(Error::write(folder.path()))?;
    let mut started = Measurement::prepare(plan, folder, options, watch)?.start()?;
    started.wait()?;
    let mut measured = started.stop()?.collect(options)?;
    let evaluation = Evaluation::of(plan, options, &mut measured, folder)?;
    let facts = evaluation.facts(&measured)?;
    let write = |verdict: &Verdict| write(folder, &evaluation.results(&measured, begun, verdict));
    // Only when it is needed: otherwise another program could fill it before the tables do.
    let make_space = |error: &Error| {
        if lacks_space(folder.path(), error)
            && let Some(space) = space.take()
        {
            space.release();
            return Some(Made::Released);
        }
        make_space(folder.path(), error).map(Made::GivenUp)
    };
    let (verdict, summary) = judge_and_write(facts, write, make_space)?;
    let interrupted = options.interrupted.load(Ordering::Relaxed);
    Ok(Finished { folder: folder.path().to_owned(), summary, verdict, interrupted })
}

/// Space that was made for the results.
enum Made {
    /// That of the reserve.
    Released,
    /// That of a part of the run folder.
    GivenUp(Lost),
}

/// Judges a run and writes its results. If that fails, `make_space` releases the reserve or gives up a
/// part of the run folder, which changes the verdict: so both are done again, until the results are
/// written or nothing is left to give up.
fn judge_and_write<T>(
    mut facts: Facts,
    mut write: impl FnMut(&Verdict) -> Result<T, Error>,
    mut make_space: impl FnMut(&Error) -> Option<Made>,
) -> Result<(Verdict, T), Error> {
    loop {
        let verdict = measure::judge(&facts);
        match write(&verdict) {
            Ok(written) => return Ok((verdict, written)),
            Err(error) => match make_space(&error).ok_or(error)? {
                Made::Released => {}
                Made::GivenUp(part) => facts.lost.push(part),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The error of a write to a full disk.
    fn full() -> Error {
        Error::write(Path::new("run"))(std::io::ErrorKind::StorageFull.into())
    }

    /// Parts that can be given up, in order.
    fn parts(names: &[&str]) -> impl FnMut(&Error) -> Option<Made> {
        let mut parts: Vec<String> = names.iter().rev().map(|name| (*name).to_owned()).collect();
        move |_| parts.pop().map(|what| Made::GivenUp(Lost { what, from_ms: None }))
    }

    #[test]
    fn the_space_of_the_reserve_costs_nothing() {
        let mut attempts = 0;
        let write = |verdict: &Verdict| {
            attempts += 1;
            if attempts == 1 { Err(full()) } else { Ok(verdict.reasons.len()) }
        };
        let (verdict, reasons) =
            judge_and_write(Facts::default(), write, |_: &Error| Some(Made::Released)).unwrap();
        assert_eq!(verdict.reasons.len(), reasons);
        let nothing = measure::judge(&Facts::default());
        assert_eq!((verdict.status, reasons), (nothing.status, nothing.reasons.len()));
    }

    #[test]
    fn results_that_can_be_written_cost_nothing() {
        let given_up = |_: &Error| panic!("the disk is not full");
        let write = |verdict: &Verdict| Ok(verdict.reasons.len());
        let (verdict, written) = judge_and_write(Facts::default(), write, given_up).unwrap();
        assert_eq!(written, verdict.reasons.len());
    }

    #[test]
    fn each_part_that_is_given_up_for_the_results_is_in_the_verdict_that_is_written() {
        let mut attempts = Vec::new();
        let write = |verdict: &Verdict| {
            attempts.push(verdict.reasons.iter().map(ToString::to_string).collect::<String>());
            if attempts.len() < 3 { Err(full()) } else { Ok(()) }
        };
        let space = parts(&["the capture was removed", "the output was removed", "all else"]);
        let (verdict, ()) = judge_and_write(Facts::default(), write, space).unwrap();
        let has = |part: &str| attempts.iter().map(|text| text.contains(part)).collect::<Vec<_>>();
        assert_eq!(has("the capture was removed"), [false, true, true], "{attempts:?}");
        assert_eq!(has("the output was removed"), [false, false, true], "{attempts:?}");
        assert_eq!(has("all else"), [false; 3], "no more than necessary");
        let last = verdict.reasons.iter().map(ToString::to_string).collect::<String>();
        assert_eq!(
            attempts.last(),
            Some(&last),
            "the verdict that is returned is that in the file"
        );
    }

    #[test]
    fn without_anything_to_give_up_the_failed_write_is_the_error() {
        let mut writes = 0;
        let write = |_: &Verdict| -> Result<(), Error> {
            writes += 1;
            Err(full())
        };
        let error = judge_and_write(Facts::default(), write, parts(&["one"])).unwrap_err();
        assert!(error.to_string().contains("run"), "{error}");
        assert_eq!(writes, 2);
    }
}
