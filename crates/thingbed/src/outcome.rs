//! What came of the runs of a sweep.

use crate::{Status, complain};
use runner::{Error, Finished};
use serde_json::Value;

/// What came of one run.
pub(crate) struct Outcome {
    /// Its number in the sweep.
    pub n: usize,
    /// Whether the user ended it.
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
                let interrupted = matches!(error, Error::Interrupted);
                Self { n, interrupted, summary: Err(error) }
            }
        }
    }
}

/// The exit status of a sweep with these runs. A cell without results matters more than one
/// with invalid ones.
pub(crate) fn status_of(outcomes: &[Outcome]) -> Status {
    if outcomes.iter().any(|outcome| outcome.interrupted) {
        return Status::Interrupted;
    }
    if outcomes.iter().any(|outcome| outcome.summary.is_err()) {
        return Status::Failed;
    }
    let summaries = outcomes.iter().filter_map(|outcome| outcome.summary.as_ref().ok());
    let verdicts =
        summaries.map(|summary| summary["verdict"]["status"].as_str().unwrap_or_default());
    verdicts.fold(Status::Fine, worse)
}

/// The exit status after one more run. What the machine spoiled comes before what
/// programs did: with a busy machine, nobody knows whose failure that was.
fn worse(status: Status, verdict: &str) -> Status {
    match (verdict, status) {
        ("invalid", Status::Fine | Status::Unexpected) => Status::Invalid,
        ("failed", Status::Fine) => Status::Unexpected,
        _ => status,
    }
}
