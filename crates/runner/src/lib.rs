//! The runner: sets up a plan in a lab, controls the run and writes the run folder.
//!
//! This is the only crate that knows both experiments and labs. It neither measures nor judges, and
//! only `report` reads the files that it writes.

mod bed;
mod collect;
mod controller;
mod cost;
mod energy;
mod error;
mod evaluation;
mod exchange;
mod exchange_figures;
mod exchange_rows;
mod folder;
mod interaction;
mod link_rows;
mod load;
mod load_figures;
mod machine;
mod measurement;
mod mqtt;
mod probe_figures;
mod program_metrics;
mod program_output;
mod programs;
mod progress;
mod rows;
mod run;
mod steady;
mod summary;
mod up;
mod waits;

pub use bed::{
    LabShown, Links, NodeShown, Reply, Request, Shown, ask, can_have_ring, check_backends, forget,
    labs, open, segments,
};
pub use error::Error;
pub use folder::{Folder, sweep_folder};
pub use machine::Machine;
pub use progress::{Phase, Progress, ProgressSink};
pub use run::{Finished, Options, run};
pub use up::{Up, up};
