//! What can be asked of traces.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use trace::{Arrivals, Distribution, Method, Mix, Mode};
use units::{Bytes, Span};

#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Make a trace of requests from distributions
    Generate(Box<Generate>),
    /// Say what is in a trace
    Inspect(Inspect),
    /// Join traces into one, in order of time
    Merge {
        /// The traces
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Where the trace goes; - is the standard output
        #[arg(long, default_value = "-", value_name = "FILE")]
        out: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct Generate {
    #[command(flatten)]
    pub shape: Shape,
    /// Where the trace goes; - is the standard output
    #[arg(long, default_value = "-", value_name = "FILE")]
    pub out: PathBuf,
    /// Write the resources that --service made here, for `thingbed device --resources`
    #[arg(long, value_name = "FILE", requires = "service")]
    pub resources_out: Option<PathBuf>,
    /// How devices spend the time that --service asks for: sleep or busy
    #[arg(long, default_value = "sleep", value_name = "MODE")]
    pub mode: Mode,
    /// Write times to the nanosecond, and not whole microseconds as the paper's traces have
    #[arg(long)]
    pub fine: bool,
}

/// What requests are to be made: of a trace, and of a load without one.
#[derive(Debug, Clone, Args)]
pub struct Shape {
    /// Where devices are, e.g. coap://10.0.0.{device}/ in which {device} is a device's
    /// number; several are taken in turn
    #[arg(long, value_name = "URI")]
    pub target: Vec<String>,
    /// How many devices are asked
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub devices: u32,
    /// The number of the first one
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub first: u32,
    /// When requests come to each device: a distribution of the time between them, such
    /// as exponential:300us, or on-off, step, ramp, sine, burst
    #[arg(long, value_name = "ARRIVALS")]
    pub arrivals: Option<Arrivals>,
    /// The arrivals are those of all devices together, and chance says for which each is
    #[arg(long)]
    pub together: bool,
    /// What is asked, e.g. GET=9,POST=1
    #[arg(long, value_name = "METHOD=WEIGHT,...")]
    pub method: Option<Mix<Method>>,
    /// Of which resources, e.g. temperature=3,humidity
    #[arg(long, value_name = "PATH=WEIGHT,...", conflicts_with = "service")]
    pub path: Option<Mix<String>>,
    /// How service times are to be distributed, by choosing among resources
    #[arg(long, value_name = "DISTRIBUTION")]
    pub service: Option<Distribution>,
    /// How many resources are made for that, for each device
    #[arg(long, default_value_t = 100, value_name = "N", requires = "service",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub ladder: u32,
    /// Choose among the resources in this file, and make none
    #[arg(long, value_name = "FILE", requires = "service")]
    pub resources: Option<PathBuf>,
    /// How much requests carry, e.g. 20B=9,200B=1
    #[arg(long, value_name = "SIZE=WEIGHT,...")]
    pub size: Option<Mix<Bytes>>,
    /// How many requests there are at most
    #[arg(long, value_name = "N")]
    pub requests: Option<u64>,
    /// How long requests come
    #[arg(long = "for", value_name = "TIME")]
    pub span: Option<Span>,
    /// The seed of all draws
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(Debug, Args)]
pub struct Inspect {
    /// The trace; - is the standard input
    pub file: PathBuf,
    /// The devices' resources, to know service times
    #[arg(long, value_name = "FILE")]
    pub resources: Option<PathBuf>,
    /// A distribution of service times to compare with
    #[arg(long, value_name = "DISTRIBUTION", requires = "resources")]
    pub service: Option<Distribution>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
