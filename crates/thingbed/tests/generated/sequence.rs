//! One lab from `up` to `down`: commands, with checks between them.

use super::checks;
use super::dice::Dice;
use super::failure::Outcome;
use super::generate;
use super::isolation::Isolation;
use super::model::Model;
use super::perform::{Background, finish, perform};
use super::scenario::Scenario;
use super::session::Session;
use crate::archive::{Image, Pack, busybox, write_tar};
use crate::common::{Bed, has};
use std::collections::BTreeMap;

/// Number of executed operations of each kind.
pub type Counts = BTreeMap<&'static str, usize>;

/// Executes `steps` operations in a lab, both drawn from `seed`; adds them to `counts`.
///
/// # Errors
/// A report of the first difference between lab and model.
pub fn sequence(seed: u64, steps: usize, counts: &mut Counts) -> Result<(), String> {
    let scenario = Scenario::draw(seed, &mut Dice::new(seed, 0), has);
    // Namespaces are per thread; the test's thread keeps its namespaces.
    let (seen, outcome) = std::thread::spawn(move || {
        let mut seen = Counts::new();
        let outcome = in_isolation(seed, steps, scenario, &mut seen);
        (seen, outcome)
    })
    .join()
    .unwrap_or_else(|_| (Counts::new(), Err(format!("seed {seed}: the test itself panicked"))));
    seen.into_iter().for_each(|(kind, count)| *counts.entry(kind).or_default() += count);
    outcome
}

fn in_isolation(
    seed: u64,
    steps: usize,
    mut scenario: Scenario,
    counts: &mut Counts,
) -> Result<(), String> {
    let bed = Bed::new();
    let image = busybox().filter(|_| scenario.image);
    scenario.image = image.is_some();
    if let Some([lower, upper]) = image {
        let layers = vec![(lower, Pack::Gzip), (upper, Pack::Zstd)];
        let program = serde_json::json!({"Env": ["PATH=/bin"]});
        write_tar(&bed.path().join("image.tar"), &Image::new(layers, program).saved());
    }
    let isolation = Isolation::enter(&bed);
    let mut session = Session::new(&bed, scenario.clone());
    let mut model = Model::new(scenario);
    let mut background = Background::default();
    let mut step = 0;
    let outcome = (|| {
        session.up()?;
        let (mut commands, mut looks) = (Dice::new(seed, 1), Dice::new(seed, 2));
        let mut last = None;
        while step < steps {
            step += 1;
            let capture = background.capture.is_some();
            let on = generate::Background { capture, last: last.as_ref() };
            let operation = generate::next(&model, on, &mut commands);
            *counts.entry(operation.kind()).or_default() += 1;
            perform(&operation, &mut session, &mut model, &mut background, &isolation)?;
            last = Some(operation);
            // Some commands follow immediately, as in a script.
            if looks.chance(75) {
                look(&session, &model, &mut looks, step % 10 == 0)?;
            }
        }
        look(&session, &model, &mut looks, true)?;
        session.expect(&["down"], 0)?;
        finish(&session, &mut background, &isolation, "down")
    })();
    let report = outcome.map_err(|failure| {
        let commands = session.typed.iter().map(|line| format!("{line}\n")).collect::<String>();
        format!(
            "seed {seed}, step {step}: {}\n--- expected ---\n{}\n--- seen ---\n{}\n\
             --- to do it again ---\nTHINGBED_GENERATED_SEED={seed} \
             THINGBED_GENERATED_STEPS={steps} cargo test -p thingbed --test generated -- \
             --ignored --nocapture\n--- or by hand ---\n{}{commands}--- the lab's log ---\n{}\n",
            failure.what,
            failure.expected,
            failure.seen,
            session.preface(),
            session.log(),
        )
    });
    if report.is_err() {
        // Clean up, whatever the state of the lab.
        let _ = session.look(&["down"]);
        if std::path::Path::new(&format!("/proc/{}", session.pid)).exists() && session.pid > 1 {
            // SAFETY: a plain system call on a process that this test started.
            unsafe { libc::kill(session.pid as i32, libc::SIGKILL) };
        }
        let _ = session.look(&["gc"]);
        for (_, mut child) in background.busy.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
    report
}

/// Runs all checks, or one or two of them.
fn look(session: &Session<'_>, model: &Model, dice: &mut Dice, all: bool) -> Outcome {
    checks::tables(session, model)?;
    let chance = |percent: usize, dice: &mut Dice| all || dice.chance(percent);
    if chance(60, dice) {
        checks::links(session, model)?;
    }
    if chance(50, dice) {
        checks::reach(session, model, dice)?;
    }
    if chance(30, dice) {
        checks::identity(session, model, dice)?;
    }
    if chance(30, dice) {
        checks::names(session, model, dice)?;
    }
    if chance(30, dice) {
        checks::usage(session, model)?;
    }
    if chance(10, dice) {
        checks::certificates(session, model)?;
    }
    Ok(())
}
