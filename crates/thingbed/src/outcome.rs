//! Outcomes of the runs of a sweep.

use crate::{Status, complain};
use record::Summary;
use runner::{Error, Finished};
use serde_json::Value;

/// Outcome of one run.
pub(crate) struct Outcome {
    /// Index of the run in the sweep.
    pub n: usize,
    /// Whether the user interrupted it.
    pub interrupted: bool,
    pub summary: Result<Value, Error>,
}

impl Outcome {
    pub fn of(n: usize, run: Result<Finished, Error>) -> Self {
        match run {
            Ok(Finished { summary, interrupted, .. }) => {
                Self { n, interrupted, summary: Ok(summary) }
            }
            Err(error) => {
                complain(&error);
                let interrupted = error.is_interruption();
                Self { n, interrupted, summary: Err(error) }
            }
        }
    }
}

/// The exit status of a sweep with these runs. A run without results outranks an invalid run.
pub(crate) fn status_of(outcomes: &[Outcome]) -> Status {
    if outcomes.iter().any(|outcome| outcome.interrupted) {
        return Status::Interrupted;
    }
    if outcomes.iter().any(|outcome| outcome.summary.is_err()) {
        return Status::Failed;
    }
    let summaries = outcomes.iter().filter_map(|outcome| outcome.summary.as_ref().ok());
    let verdicts = summaries.map(|summary| Summary::verdict_in(summary).status);
    verdicts.fold(Status::Fine, combine)
}

/// The exit status after one more run. `invalid` outranks `failed`: on a disturbed machine, the
/// cause of a failed program is unknown.
fn combine(status: Status, verdict: record::Status) -> Status {
    match (verdict, status) {
        (record::Status::Invalid, Status::Fine | Status::Unexpected) => Status::Invalid,
        (record::Status::Failed, Status::Fine) => Status::Unexpected,
        _ => status,
    }
}
