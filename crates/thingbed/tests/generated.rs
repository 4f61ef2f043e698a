//! Random commands on labs, compared with a model.
//!
//! The commands are drawn from a seed. A failure reports the seed, the step, all commands so
//! far, and the expected result. The long form:
//!
//! ```text
//! THINGBED_GENERATED_MINUTES=60 cargo test -p thingbed --test generated -- --ignored --nocapture
//! ```

#[path = "../../image/tests/common/mod.rs"]
mod archive;
mod common;
#[path = "generated/mod.rs"]
mod generated;

use common::{has, is_root};
use generated::{Counts, sequence};
use std::time::{Duration, Instant};

/// Labs in separate namespaces and with limits need root.
fn can_run() -> bool {
    let can = is_root() && has("ping") && has("busybox");
    if !can {
        eprintln!("NOT RUN: needs root, ping and busybox");
    }
    can
}

/// Steps of a lab in `make test`: half a minute on a busy machine.
const STEPS: usize = 18;

fn short(seed: u64) {
    if can_run()
        && let Err(report) = sequence(seed, STEPS, &mut Counts::new())
    {
        panic!("{report}");
    }
}

#[test]
fn a_lab_does_what_its_model_says() {
    short(1);
}

#[test]
fn another_lab_does_what_its_model_says() {
    short(2);
}

/// A number from an environment variable.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no whole number")))
}

/// Runs labs with different seeds until the time is over. Continues after failures: it prints a
/// report of each failure, and their number at the end. `THINGBED_GENERATED_SEED` is the first
/// seed, `THINGBED_GENERATED_STEPS` the number of steps per lab; without
/// `THINGBED_GENERATED_MINUTES`, a given seed is one lab.
#[test]
#[ignore = "an hour and more: make evidence-lab"]
fn labs_do_what_their_models_say_all_night() {
    if !can_run() {
        return;
    }
    let (seed, steps) = (number("THINGBED_GENERATED_SEED"), number("THINGBED_GENERATED_STEPS"));
    let steps = steps.unwrap_or(40) as usize;
    let minutes = number("THINGBED_GENERATED_MINUTES");
    let minutes = minutes.unwrap_or(if seed.is_some() { 0 } else { 60 });
    let begin = Instant::now();
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let first = seed.unwrap_or(clock.map_or(0, |time| time.as_secs()));
    let (mut counts, mut failed, mut labs) = (Counts::new(), Vec::new(), 0);
    for seed in first.. {
        labs += 1;
        let lab = Instant::now();
        match sequence(seed, steps, &mut counts) {
            Ok(()) => println!("seed {seed}: {steps} steps in {:.0?}", lab.elapsed()),
            Err(report) => {
                failed.push(seed);
                println!("=== FAILED ===\n{report}");
            }
        }
        if begin.elapsed() >= Duration::from_secs(minutes * 60) {
            break;
        }
    }
    let total: usize = counts.values().sum();
    println!("{labs} labs, {total} operations in {:.1} min:", begin.elapsed().as_secs_f64() / 60.0);
    counts.iter().for_each(|(kind, count)| println!("  {count:6} {kind}"));
    assert!(failed.is_empty(), "{} of {labs} labs failed, of the seeds {failed:?}", failed.len());
}
