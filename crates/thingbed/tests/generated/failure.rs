//! What was expected and what was seen instead.

use std::time::{Duration, Instant};

/// A difference between the model and the lab.
#[derive(Debug)]
pub struct Failure {
    pub what: String,
    pub expected: String,
    pub seen: String,
}

pub type Outcome = Result<(), Failure>;

/// How long something may take that a command has begun. Long, because the machine may be
/// busy with anything else.
const DEADLINE: Duration = Duration::from_secs(30);

/// Fails unless `holds`.
pub fn expect(
    holds: bool,
    what: impl Into<String>,
    expected: impl Into<String>,
    seen: impl Into<String>,
) -> Outcome {
    match holds {
        true => Ok(()),
        false => Err(Failure { what: what.into(), expected: expected.into(), seen: seen.into() }),
    }
}

/// Repeats a check until it succeeds, or returns its last failure.
pub fn eventually(check: impl FnMut() -> Outcome) -> Outcome {
    within(DEADLINE, check)
}

/// The same for as long as is said.
pub fn within(limit: Duration, mut check: impl FnMut() -> Outcome) -> Outcome {
    let end = Instant::now() + limit;
    loop {
        match check() {
            Ok(()) => return Ok(()),
            Err(failure) if Instant::now() > end => return Err(failure),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
