//! Options of `thingbed trace`.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use trace::{Arrivals, Distribution, Method, Mix, Mode};
use units::{Bytes, Span};

#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Generate a trace of requests from distributions
    Generate(Box<Generate>),
    /// Print statistics of a trace: rates, interarrival times, service times
    Inspect(Inspect),
    /// Merge traces into one, sorted by time
    Merge {
        /// Traces to merge
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Output file; - writes to standard output
        #[arg(long, default_value = "-", value_name = "FILE")]
        out: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct Generate {
    #[command(flatten)]
    pub shape: Shape,
    /// Output file; - writes to standard output
    #[arg(help_heading = "Output", long, default_value = "-", value_name = "FILE")]
    pub out: PathBuf,
    /// Write the resources of --service here, for `thingbed device --resources`
    #[arg(help_heading = "Output", long, value_name = "FILE", requires = "service")]
    pub resources_out: Option<PathBuf>,
    /// How devices spend the service time of --service: sleep or busy
    #[arg(long, default_value = "sleep", value_name = "MODE")]
    pub mode: Mode,
    /// Write times in nanoseconds [default: microseconds]
    #[arg(help_heading = "Output", long)]
    pub fine: bool,
}

/// Requests to generate, for a trace or for a load without one.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Generated requests")]
pub struct Shape {
    /// Target URI, e.g. coap://10.0.0.{device}/; repeatable, used in turn
    ///
    /// Schemes: coap, http, mqtt, udp, tcp. Thingbed replaces {device} by the number of the
    /// device.
    #[arg(long, value_name = "URI")]
    pub target: Vec<String>,
    /// Number of devices that receive requests
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub devices: u32,
    /// Number of the first device
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub first: u32,
    /// Arrival process per device, e.g. exponential:300us for a Poisson process
    ///
    /// A distribution of the time between requests (constant, uniform, exponential, gamma,
    /// pareto, weibull, measured), or a rate profile: on-off, step, ramp, sine, burst.
    #[arg(long, value_name = "ARRIVALS")]
    pub arrivals: Option<Arrivals>,
    /// One arrival process for all devices; each request goes to a random device
    #[arg(long)]
    pub together: bool,
    /// Methods and their weights, e.g. GET=9,POST=1
    #[arg(long, value_name = "METHOD=WEIGHT,...")]
    pub method: Option<Mix<Method>>,
    /// Resource paths and their weights, e.g. temperature=3,humidity=1
    #[arg(long, value_name = "PATH=WEIGHT,...", conflicts_with = "service")]
    pub path: Option<Mix<String>>,
    /// Distribution of the service times; selects resources to match it
    #[arg(long, value_name = "DISTRIBUTION")]
    pub service: Option<Distribution>,
    /// Number of resources per device to generate for --service
    #[arg(long, default_value_t = 100, value_name = "N", requires = "service",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub ladder: u32,
    /// Use the resources of this file for --service; generate none
    #[arg(long, value_name = "FILE", requires = "service")]
    pub resources: Option<PathBuf>,
    /// Payload sizes and their weights, e.g. 20B=9,200B=1
    #[arg(long, value_name = "SIZE=WEIGHT,...")]
    pub size: Option<Mix<Bytes>>,
    /// Maximum number of requests [default: no limit]
    #[arg(long, value_name = "N")]
    pub requests: Option<u64>,
    /// Duration of the schedule, e.g. 60s
    #[arg(long = "for", value_name = "TIME")]
    pub span: Option<Span>,
    /// Seed of all random draws
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(Debug, Args)]
pub struct Inspect {
    /// Trace to inspect; - reads standard input
    pub file: PathBuf,
    /// File with the resources of the devices, for their service times
    #[arg(long, value_name = "FILE")]
    pub resources: Option<PathBuf>,
    /// Configured distribution of service times, to compare with the trace
    #[arg(long, value_name = "DISTRIBUTION", requires = "resources")]
    pub service: Option<Distribution>,
    /// Print the statistics as JSON
    #[arg(long)]
    pub json: bool,
}
