//! The runner: sets up a plan in a lab, controls the run and writes the run folder.
//!
//! This is the only crate that knows both experiments and labs. It neither measures nor judges, and
//! only `report` reads the files that it writes.

mod capture;
mod collect;
mod control;
mod controller;
mod cost;
mod energy;
mod error;
mod evaluation;
mod events;
mod exchange;
mod exchange_figures;
mod exchange_rows;
mod faults;
mod folder;
mod frame_path;
mod hardware;
mod host_cpu;
mod idle;
mod interaction;
mod jobs;
mod kernel_counts;
mod link_rows;
mod live;
mod load;
mod load_figures;
mod machine;
mod measurement;
mod mqtt;
mod netem;
mod pinning;
mod prepare;
mod probe_figures;
mod programs;
mod ready;
mod roots;
mod rows;
mod run;
mod services;
mod steady;
mod summary;
mod tls;
mod topology;
mod uplink;
mod waits;

pub use controller::{Phase, Progress, ProgressSink};
pub use error::Error;
pub use folder::{Folder, sweep_folder};
pub use frame_path::can_have_ring;
pub use live::{
    LabShown, Links, NodeShown, Reply, Request, Shown, Up, ask, forget, labs, open, up,
};
pub use machine::Machine;
pub use netem::check_backends;
pub use run::{Finished, Options, run};
pub use topology::segments;
