//! What can be asked of the command `capacity`.

use clap::Args;
use std::path::PathBuf;
use units::Ratio;

#[derive(Debug, Args)]
pub struct Capacity {
    /// The experiment file
    pub file: PathBuf,
    /// The axis of its matrix to make as large as can be; its values are whole numbers
    #[arg(long, value_name = "AXIS")]
    pub max: String,
    /// What has to hold, e.g. 'p99 < 200 ms' or 'loss < 1 %'; may be given again
    #[arg(long, required = true, value_name = "TARGET")]
    pub slo: Vec<String>,
    /// Where the search begins, instead of at the axis's smallest value
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub from: Option<u64>,
    /// The largest value to try
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub to: Option<u64>,
    /// How close is close enough, as a share of the value
    #[arg(long, default_value = "5 %", value_name = "SHARE")]
    pub resolution: Ratio,
    /// Runs to be trusted that each value takes; as many again may be had for them
    #[arg(long, default_value = "3", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Trust runs that are suspect, too
    #[arg(long)]
    pub suspect: bool,
    /// Only these cells of the other axes, e.g. model=udp-rr
    #[arg(long, value_name = "AXIS=VALUE,...")]
    pub only: Vec<String>,
    /// The seed of all draws, instead of what the file says
    #[arg(long)]
    pub seed: Option<u64>,
    /// Where results go
    #[arg(long, default_value = "runs", value_name = "FOLDER")]
    pub out: PathBuf,
    /// Keep the medium awake for 60 us before a frame is due
    #[arg(long)]
    pub spin: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}
