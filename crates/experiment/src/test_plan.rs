//! Plans for tests.

use crate::{Experiment, Only, Plan};

/// The plan of the first cell of an experiment, or what is wrong with it.
pub(crate) fn plan(text: &str) -> Result<Plan, String> {
    let experiment = Experiment::parse(text, "e.yaml", "").map_err(|e| e.to_string())?;
    let cell = experiment.cells(&Only::all()).unwrap().remove(0);
    experiment.plan(&cell, 0, 1).map_err(|e| e.to_string())
}
