//! Which runs a sweep is made of.

use crate::arguments::Run;
use crate::show;
use experiment::{Cell, Experiment};
use serde_json::Value;
use std::fs;

/// What is run: the cells, how often, and with which seed. A replay is one run,
/// and takes all of these from the run that it replays.
pub(crate) struct Wanted {
    pub cells: Vec<Cell>,
    pub repeats: std::ops::Range<u32>,
    pub seed: u64,
}

impl Wanted {
    /// What the command line, the file or the run to replay say.
    pub fn of(arguments: &Run, experiment: &Experiment) -> Result<Self, String> {
        let Some(folder) = &arguments.replay else {
            return Ok(Self {
                cells: show::cells(experiment, &arguments.only).map_err(|e| e.to_string())?,
                repeats: 0..arguments.repeat.unwrap_or(experiment.repeats),
                seed: arguments.seed.unwrap_or(experiment.seed),
            });
        };
        let path = folder.join("plan.json");
        let read = fs::read_to_string(&path).map_err(|error| error.to_string());
        let plan: Value = read
            .and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()))
            .map_err(|error| {
                format!(
                    "could not read {}: {error}\n  --replay takes the folder of one run",
                    path.display()
                )
            })?;
        if plan["experiment"] != experiment.name.as_str() {
            return Err(format!(
                "the run in {} belongs to the experiment {}, not to `{}`",
                folder.display(),
                plan["experiment"],
                experiment.name
            ));
        }
        let cell: Cell = serde_json::from_value(plan["cell"].clone()).unwrap_or_default();
        let repeat = plan["repeat"].as_u64().unwrap_or(0) as u32;
        let seed = plan["seed"].as_u64().unwrap_or(experiment.seed);
        Ok(Self { cells: vec![cell], repeats: repeat..repeat + 1, seed })
    }
}
