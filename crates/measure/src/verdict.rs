//! Verdict: whether the results describe the system under test or the limits of the test machine.
//!
//! Each piece of evidence has two limits that were set before any run: above the first the machine
//! may have changed a result, above the second the result is the machine's. The worst piece
//! decides. Failures of programs are judged separately: a program that failed stays a failure even
//! if the machine kept up.

use crate::evidence::evidence;
use crate::facts::{Facts, Failure};
use record::Verdict;

/// Computes the verdict.
pub fn judge(facts: &Facts) -> Verdict {
    Verdict::of(evidence(facts), facts.failures.iter().map(Failure::reason).collect())
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
