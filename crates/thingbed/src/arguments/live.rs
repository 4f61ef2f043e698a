//! Options of the commands for live labs.

use crate::arguments::forwarding::Forwarding;
use crate::arguments::settings::Settings;
use crate::completion;
use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use page::Place;
use std::path::PathBuf;

/// Options of `up`.
#[derive(Debug, Args)]
pub struct Up {
    /// Experiment file; starts its nodes, networks and programs, not its workloads
    pub file: PathBuf,
    /// Matrix cell to start, e.g. network=radio [default: the first cell]
    #[arg(long, value_name = "AXIS=VALUE,...")]
    pub only: Vec<String>,
    #[command(flatten)]
    pub settings: Settings,
    /// Return when the lab is up; the lab keeps running in the background
    #[arg(long, short)]
    pub detach: bool,
    /// Serve a page for a browser to watch and control the lab, on a loopback port or a socket file
    /// [default: any free port]
    #[arg(long, value_name = "PORT|SOCKET", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub page: Option<Place>,
    /// Folder for the logs of the programs
    #[arg(long, default_value = "runs", value_name = "FOLDER")]
    pub out: PathBuf,
    #[command(flatten)]
    pub forwarding: Forwarding,
    /// File descriptor to which `up` writes that the lab is up, or the error
    #[arg(long, hide = true)]
    pub tell: Option<i32>,
}

/// Options of `page`.
#[derive(Debug, Args)]
pub struct Page {
    #[command(flatten)]
    pub lab: Lab,
    /// Loopback port, or path of a socket file; 0 for any free port
    #[arg(long, default_value = "0", value_name = "PORT|SOCKET")]
    pub at: Place,
    /// Process whose labs to show, also before the first and between two
    #[arg(long, hide = true, conflicts_with = "lab")]
    pub process: Option<u32>,
}

/// Selects a lab.
#[derive(Debug, Args)]
pub struct Lab {
    /// Lab, by experiment name or process id; required if several labs are up
    #[arg(long, value_name = "LAB", add = ArgValueCandidates::new(completion::labs))]
    pub lab: Option<String>,
}

/// Nodes of a lab, at least one.
#[derive(Debug, Args)]
pub struct Nodes {
    /// Nodes, groups, or patterns such as 'meter-1*'
    #[arg(required = true, value_name = "NODE", add = ArgValueCandidates::new(completion::nodes))]
    pub nodes: Vec<String>,
    #[command(flatten)]
    pub lab: Lab,
}

/// Nodes of a lab; default all.
#[derive(Debug, Args)]
pub struct OptionalNodes {
    /// Nodes, groups, or patterns such as 'meter-1*' [default: all nodes]
    #[arg(value_name = "NODE", add = ArgValueCandidates::new(completion::nodes))]
    pub nodes: Vec<String>,
    #[command(flatten)]
    pub lab: Lab,
}

/// Options of `ps`.
#[derive(Debug, Args)]
pub struct Ps {
    #[command(flatten)]
    pub which: OptionalNodes,
    /// Print the nodes as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `labs`.
#[derive(Debug, Args)]
pub struct Labs {
    /// Print the labs as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `link show`.
#[derive(Debug, Args)]
pub struct LinkShow {
    #[command(flatten)]
    pub which: OptionalNodes,
    /// Print the links as JSON, with the keys of the experiment file
    #[arg(long)]
    pub json: bool,
}

/// Options of `pingall`.
#[derive(Debug, Args)]
pub struct Pingall {
    #[command(flatten)]
    pub which: OptionalNodes,
    /// Pings per pair
    #[arg(long, short, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
    /// Longest wait for an answer, in seconds
    #[arg(long, short = 'W', default_value_t = 2, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub timeout: u32,
    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `top`.
#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    pub which: OptionalNodes,
    /// Print one interval of 1 s and exit
    #[arg(long)]
    pub once: bool,
}

/// Options of `exec`.
#[derive(Debug, Args)]
pub struct Exec {
    #[command(flatten)]
    pub lab: Lab,
    /// Working directory of the program [default: the current directory]
    #[arg(long, short = 'w', value_name = "FOLDER")]
    pub workdir: Option<PathBuf>,
    /// Variable for the program; NAME alone passes on the caller's. Repeatable
    #[arg(long, short = 'e', value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Node to run the program in
    #[arg(add = ArgValueCandidates::new(completion::nodes))]
    pub node: String,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

/// Options of `shell`.
#[derive(Debug, Args)]
pub struct Shell {
    #[command(flatten)]
    pub lab: Lab,
    /// Node to open the shell in
    #[arg(add = ArgValueCandidates::new(completion::nodes))]
    pub node: String,
}

/// Options of `console`.
#[derive(Debug, Args)]
pub struct Console {
    #[command(flatten)]
    pub lab: Lab,
    /// Node whose console to use: one with `firmware` or `qemu`
    #[arg(add = ArgValueCandidates::new(completion::nodes))]
    pub node: String,
    /// Enter this line, and print what the machine answers until the text of --wait
    #[arg(long, value_name = "LINE")]
    pub send: Option<String>,
    /// Print what the machine prints until this text
    #[arg(long, value_name = "TEXT")]
    pub wait: Option<String>,
    /// Longest wait for the text of --wait
    #[arg(long, value_name = "TIME", default_value = "30 s", requires = "wait")]
    pub within: units::Span,
}

/// Options of `logs`.
#[derive(Debug, Args)]
pub struct Logs {
    #[command(flatten)]
    pub lab: Lab,
    /// Print new output as it appears, until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
    /// Print only the last N lines of each log
    #[arg(long, short = 'n', value_name = "LINES")]
    pub tail: Option<usize>,
    /// Nodes, groups, or patterns such as 'meter-1*'
    #[arg(required = true, value_name = "NODE", add = ArgValueCandidates::new(completion::nodes))]
    pub nodes: Vec<String>,
}

/// Options of `clone`.
#[derive(Debug, Args)]
pub struct Clone {
    /// Node to clone
    #[arg(add = ArgValueCandidates::new(completion::nodes))]
    pub node: String,
    /// Number of clones, 1 to 10000
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub count: u32,
    #[command(flatten)]
    pub lab: Lab,
}

/// Options of `capture`.
#[derive(Debug, Args)]
pub struct Capture {
    #[command(flatten)]
    pub which: OptionalNodes,
    /// Capture only links to this network
    #[arg(long, value_name = "NETWORK")]
    pub network: Option<String>,
    /// Capture filter (BPF) as for tcpdump, e.g. 'tcp port 1883'
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Snapshot length: capture only the first BYTES of each frame
    #[arg(long, short, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub snaplen: Option<u64>,
    /// Output file in pcapng format; - writes to standard output
    #[arg(long, short, default_value = "-", value_name = "FILE")]
    pub write: PathBuf,
}

/// Options of `set`.
#[derive(Debug, Args)]
pub struct Set {
    #[command(flatten)]
    pub lab: Lab,
    /// Node, group, or pattern such as 'meter-1*'
    #[arg(add = ArgValueCandidates::new(completion::nodes))]
    pub node: String,
    /// Settings: cpus=0.5, cpu=200MHz, memory=64MiB, hostname=NAME, mtu=1280B
    #[arg(required = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Options of `cp`.
#[derive(Debug, Args)]
pub struct Cp {
    #[command(flatten)]
    pub lab: Lab,
    /// Source: FILE, or NODE:FILE in a node
    pub from: String,
    /// Destination: FILE or FOLDER, or NODE:FILE in a node
    pub to: String,
}

/// Subcommands of `link`.
#[derive(Debug, Subcommand)]
pub enum Link {
    /// Show the configured impairments and the counters of links
    Show(LinkShow),
    /// Change the impairments of links at runtime
    Set {
        #[command(flatten)]
        selector: LinkSelector,
        /// Impairments, e.g. loss=10% delay=30ms rate=1Mbit/s; KEY= removes a key
        #[arg(required = true, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Ramp: change linearly over this time, e.g. 10s; 0 s changes at once
        #[arg(long, value_name = "TIME", default_value = "0 s")]
        over: units::Span,
    },
    /// Take links down: they drop all frames
    Down {
        #[command(flatten)]
        selector: LinkSelector,
    },
    /// Bring links up again
    Up {
        #[command(flatten)]
        selector: LinkSelector,
    },
}

/// Selects links.
#[derive(Debug, Args)]
pub struct LinkSelector {
    /// Node, group, or pattern such as 'meter-1*'
    #[arg(add = ArgValueCandidates::new(completion::nodes))]
    pub node: String,
    /// Only the link to this network
    #[arg(long, value_name = "NETWORK")]
    pub network: Option<String>,
    /// Only this direction: up (from the node) or down (to the node)
    #[arg(long, value_parser = ["up", "down"])]
    pub way: Option<String>,
    #[command(flatten)]
    pub lab: Lab,
}
