//! Failures: expected and actual values.

use std::time::{Duration, Instant};

/// A difference between the model and the lab.
#[derive(Debug)]
pub struct Failure {
    pub what: String,
    pub expected: String,
    pub seen: String,
}

pub type Outcome = Result<(), Failure>;

/// Timeout of effects of a command. Long, because the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(120);

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
pub fn eventually(mut check: impl FnMut() -> Outcome) -> Outcome {
    let end = Instant::now() + DEADLINE;
    loop {
        match check() {
            Ok(()) => return Ok(()),
            Err(failure) if Instant::now() > end => return Err(failure),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
