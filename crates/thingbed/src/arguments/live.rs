//! What can be asked of a lab that is up.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Bring a lab up.
#[derive(Debug, Args)]
pub struct Up {
    /// The experiment file; its nodes, networks, programs and faults, not its workloads
    pub file: PathBuf,
    /// The cell of the matrix, e.g. network=radio; the first if not said
    #[arg(long, value_name = "AXIS=VALUE,...")]
    pub only: Vec<String>,
    /// Come back when it is up; it lives on without this terminal
    #[arg(long, short)]
    pub detach: bool,
    /// Where its logs go
    #[arg(long, default_value = "runs", value_name = "FOLDER")]
    pub out: PathBuf,
    /// Tells this open file when it is up, and why not
    #[arg(long, hide = true)]
    pub tell: Option<i32>,
}

/// Which lab, where several run.
#[derive(Debug, Args)]
pub struct Lab {
    /// The experiment's name or the process of the lab; needed where several are up
    #[arg(long, value_name = "LAB")]
    pub lab: Option<String>,
}

/// Nodes of a lab, at least one.
#[derive(Debug, Args)]
pub struct Nodes {
    /// Nodes, groups, or patterns such as 'meter-1*'
    #[arg(required = true, value_name = "NODE")]
    pub nodes: Vec<String>,
    #[command(flatten)]
    pub lab: Lab,
}

/// Nodes of a lab, or all of them.
#[derive(Debug, Args)]
pub struct SomeNodes {
    /// Nodes, groups, or patterns such as 'meter-1*'; all if none is named
    #[arg(value_name = "NODE")]
    pub nodes: Vec<String>,
    #[command(flatten)]
    pub lab: Lab,
}

/// List nodes.
#[derive(Debug, Args)]
pub struct Ps {
    #[command(flatten)]
    pub which: SomeNodes,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Watch nodes.
#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    pub which: SomeNodes,
    /// Show one interval of a second, and end
    #[arg(long)]
    pub once: bool,
}

/// Run a program in a node.
#[derive(Debug, Args)]
pub struct Exec {
    #[command(flatten)]
    pub lab: Lab,
    /// The folder that it starts in; this one unless given
    #[arg(long, short = 'w', value_name = "FOLDER")]
    pub workdir: Option<PathBuf>,
    /// The node
    pub node: String,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

/// A shell in a node.
#[derive(Debug, Args)]
pub struct Shell {
    #[command(flatten)]
    pub lab: Lab,
    /// The node
    pub node: String,
}

/// Programs' logs.
#[derive(Debug, Args)]
pub struct Logs {
    #[command(flatten)]
    pub lab: Lab,
    /// Go on as they grow, until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
    /// The last lines of each only
    #[arg(long, short = 'n', value_name = "LINES")]
    pub tail: Option<usize>,
    /// Nodes, groups, or patterns such as 'meter-1*'
    #[arg(required = true, value_name = "NODE")]
    pub nodes: Vec<String>,
}

/// Nodes like one.
#[derive(Debug, Args)]
pub struct Clone {
    /// The node
    pub node: String,
    /// How many
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub count: u32,
    #[command(flatten)]
    pub lab: Lab,
}

/// Frames as they pass.
#[derive(Debug, Args)]
pub struct Capture {
    #[command(flatten)]
    pub which: SomeNodes,
    /// Only links to this network
    #[arg(long)]
    pub network: Option<String>,
    /// Only such frames, as for tcpdump, e.g. 'tcp port 1883'
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Only the first bytes of each frame
    #[arg(long, short, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub snaplen: Option<u64>,
    /// Where they go; - is standard output
    #[arg(long, short, default_value = "-", value_name = "FILE")]
    pub write: PathBuf,
}

/// Other limits and settings.
#[derive(Debug, Args)]
pub struct Set {
    #[command(flatten)]
    pub lab: Lab,
    /// Node, group, or pattern
    pub node: String,
    /// cpus=0.5, memory=64MiB, hostname=NAME, mtu=1280B
    #[arg(required = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Copy a file.
#[derive(Debug, Args)]
pub struct Cp {
    #[command(flatten)]
    pub lab: Lab,
    /// A file, or NODE:FILE
    pub from: String,
    /// A file or folder, or NODE:FILE
    pub to: String,
}

/// What can be done with links of a running lab.
#[derive(Debug, Subcommand)]
pub enum Link {
    /// Show what is asked of links now
    Show(SomeNodes),
    /// Ask something else of nodes' links, from now on
    Set {
        #[command(flatten)]
        whose: Whose,
        /// Keys of an impairment and their values, e.g. loss=10% delay=30ms; no
        /// value takes the key away
        #[arg(required = true, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Change on a straight line over this time, e.g. 10s
        #[arg(long, value_name = "TIME", default_value = "0 s")]
        over: units::Span,
    },
    /// Let nodes' links carry nothing
    Down {
        #[command(flatten)]
        whose: Whose,
    },
    /// Let them carry again
    Up {
        #[command(flatten)]
        whose: Whose,
    },
}

/// Which links.
#[derive(Debug, Args)]
pub struct Whose {
    /// Node, group, or pattern such as 'meter-1*'
    pub node: String,
    /// Only the link to this network
    #[arg(long)]
    pub network: Option<String>,
    /// Only this way: up from the node, down to it
    #[arg(long, value_parser = ["up", "down"])]
    pub way: Option<String>,
    #[command(flatten)]
    pub lab: Lab,
}
