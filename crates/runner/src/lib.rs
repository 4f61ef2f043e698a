//! The runner: sets up a plan in a lab, controls the run and writes the run folder.
//!
//! This is the only crate that knows both experiments and labs. It neither measures nor judges, and
//! only `report` reads the files that it writes.

mod bed;
mod collect;
mod collectors;
mod controller;
mod cost;
mod energy;
mod error;
mod evaluation;
mod exchange;
mod exchange_figures;
mod exchange_rows;
mod folder;
mod full_disk;
mod interaction;
mod link_rows;
mod load;
mod load_figures;
mod machine;
mod measurement;
mod mqtt;
mod options;
mod overflows;
mod power;
mod probe_figures;
mod program_checks;
mod program_metrics;
mod program_output;
mod program_specs;
mod programs;
mod progress;
mod results;
mod rows;
mod run;
mod run_facts;
mod steady;
mod summary;
#[cfg(test)]
mod test_plan;
mod up;
mod waits;
mod write;

pub use bed::{
    LabShown, LinkTraffic, Links, NodeShown, Occurrence, Reply, Request, Shown, ask, ask_all,
    can_have_ring, check_backends, forget, is_foreign, labs, labs_elsewhere, open, segments,
};
pub use error::Error;
pub use folder::{Folder, sweep_folder};
pub use options::Options;
pub use progress::{Phase, Progress, ProgressSink};
pub use run::{Finished, run};
pub use up::{Up, up};
