//! Plans for tests.

use experiment::{Experiment, Only, Plan};

/// The plan of the only cell of an experiment.
pub(crate) fn plan(yaml: &str) -> Plan {
    let experiment =
        Experiment::parse(yaml, "e.yaml", "").unwrap_or_else(|error| panic!("{error}"));
    let cell = experiment.cells(&Only::all()).unwrap().remove(0);
    experiment.plan(&cell, 0, 7).unwrap()
}
