//! Options of `thingbed capacity`.

use crate::arguments::forwarding::Forwarding;
use crate::arguments::settings::Settings;
use clap::Args;
use std::path::PathBuf;
use units::Ratio;

#[derive(Debug, Args)]
pub struct Capacity {
    /// Experiment file (YAML)
    pub file: PathBuf,
    #[command(flatten)]
    pub settings: Settings,
    /// Matrix axis to maximise; its values are whole numbers
    #[arg(long, value_name = "AXIS")]
    pub max: String,
    /// Target (threshold) to meet, e.g. 'p99 < 200 ms' or 'loss < 1 %'; repeatable
    #[arg(long, required = true, value_name = "TARGET")]
    pub slo: Vec<String>,
    /// First value to try [default: the smallest value of the axis]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub from: Option<u64>,
    /// Largest value to try [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub to: Option<u64>,
    /// Relative precision of the result, at which the search stops
    #[arg(long, default_value = "5 %", value_name = "SHARE")]
    pub resolution: Ratio,
    /// Trusted runs per value; Thingbed repeats untrusted runs up to N times
    #[arg(long, default_value = "3", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Also trust runs with the verdict suspect
    #[arg(long)]
    pub suspect: bool,
    /// Run only these cells of the other axes, e.g. model=udp-rr; repeatable
    #[arg(long, value_name = "AXIS=VALUE,...")]
    pub only: Vec<String>,
    /// Seed of all random draws [default: the experiment's `seed`]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Folder for results
    #[arg(long, default_value = "runs", value_name = "FOLDER")]
    pub out: PathBuf,
    #[command(flatten)]
    pub forwarding: Forwarding,
    /// Clock: real, or virtual (a guest kernel, in which computation takes no time)
    ///
    /// In virtual time each run is valid on any machine, even under load, and needs no root.
    /// [default: the experiment's `clock`, else real]
    #[arg(long, value_name = "CLOCK")]
    pub clock: Option<experiment::Clock>,
    /// CPU in virtual time: infinite, or 10^9 instructions per second for all nodes together
    ///
    /// With `infinite` (the default), computation takes no time. With a number, QEMU charges time
    /// for each instruction: latencies then include that CPU and are the same on every machine.
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<experiment::Cpu>,
    /// Do not show progress
    #[arg(long, short)]
    pub quiet: bool,
}
