//! Any text as an experiment file, and its plan.
#![no_main]

use experiment::{Experiment, Only};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Experiment::parse(text, "any.yaml", "/nonexistent") {
        Ok(experiment) => {
            for cell in experiment.cells(&Only::all()).unwrap_or_default().iter().take(2) {
                let _ = experiment.plan(cell, 0, 1);
            }
        }
        Err(errors) => assert!(!errors.to_string().is_empty()),
    }
});
