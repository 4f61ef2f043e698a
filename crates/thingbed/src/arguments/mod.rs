//! What can be asked for on the command line.

mod analyze;
mod capacity;
mod live;
mod load;
mod trace;

pub use analyze::Analyze;
pub use capacity::Capacity;
pub use live::{Capture, Clone, Cp, Exec, Lab, Link, Logs, Nodes, Ps, Set, Shell, Top, Up, Whose};
pub use load::{Device, Load};
pub use trace::{Generate, Inspect, Shape, Trace};

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A test bed for the Internet of Things: runs real programs on emulated nodes
/// over emulated networks, measures them, and says whether to trust the figures.
#[derive(Debug, Parser)]
#[command(name = "thingbed", version, about, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 fine; 1 something stood in the way; 2 wrong arguments or \
experiment file; 3 a run is invalid; 4 an expectation did not hold; 130 interrupted.")]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an experiment: every cell of its matrix, every repeat
    Run(Run),
    /// Find the largest value of an axis that meets targets in runs to be trusted
    Capacity(Capacity),
    /// Check experiment files and do nothing else
    Check {
        /// The experiment files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Print what an experiment resolves to
    Plan(Plan),
    /// Show the results of a run or a sweep again
    Report {
        /// The folder of a run or a sweep
        folder: PathBuf,
        /// Write the page here, and not to report.html in the folder
        #[arg(long)]
        html: Option<PathBuf>,
        /// Print Markdown, and write no page
        #[arg(long, conflicts_with = "html")]
        markdown: bool,
    },
    /// Hold exchanges against each other: what is best at which payload, and by how much
    Compare {
        /// The folders of runs or sweeps
        #[arg(required = true)]
        folders: Vec<PathBuf>,
        /// The axis whose values are held against each other
        #[arg(long, default_value = "protocol", value_name = "AXIS")]
        by: String,
        /// What is compared
        #[arg(long, default_value = "time")]
        figure: Compared,
    },
    /// Make the director's performance map from runs of its models
    Map(Map),
    /// List the profiles of links, or show what is known of one
    Profiles {
        #[command(subcommand)]
        what: Option<Profiles>,
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
    },
    /// Say what is in a capture of packets, pcap or pcapng
    Analyze(Analyze),
    /// Send requests to any target at the moments that a schedule asks for
    Load(Box<Load>),
    /// Be a device that answers after given service times
    Device(Box<Device>),
    /// Make traces of requests, look at them, join them
    #[command(subcommand)]
    Trace(Trace),
    /// Say what this machine has and lacks, and what that costs
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Bring the nodes and networks of an experiment up, to work in
    Up(Up),
    /// Take a lab down
    Down {
        #[command(flatten)]
        lab: Lab,
    },
    /// List the labs that are up
    Labs,
    /// List the nodes of a lab
    Ps(Ps),
    /// Watch what nodes use
    Top(Top),
    /// Run a program in a node
    Exec(Exec),
    /// Open a shell in a node
    Shell(Shell),
    /// Show what nodes' programs have said
    Logs(Logs),
    /// Start nodes' own programs
    Start(Nodes),
    /// Ask nodes' own programs to end
    Stop(Nodes),
    /// Ask nodes' own programs to end, and start them again
    Restart(Nodes),
    /// Kill all programs of nodes
    Kill(Nodes),
    /// Let all programs of nodes stand still
    Pause(Nodes),
    /// Let all programs of nodes go on
    Resume(Nodes),
    /// Bring more nodes up that are like one
    Clone(Clone),
    /// End nodes, with all that runs in them
    Destroy(Nodes),
    /// Write nodes' frames as they pass, for Wireshark and the like
    Capture(Capture),
    /// Change nodes' limits, host name or MTU
    Set(Set),
    /// Copy a file into or out of a node
    Cp(Cp),
    /// Look at links of a lab, and change them
    #[command(subcommand)]
    Link(Link),
    /// Measure on this machine how well links keep what is asked of them
    Calibrate {
        /// Where results go
        #[arg(long, default_value = "runs", value_name = "FOLDER")]
        out: PathBuf,
        /// Seconds that each probe lasts
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
        seconds: u32,
    },
    /// Remove what a killed thingbed has left, and nothing else
    Gc {
        /// Also remove the unpacked images that no lab uses.
        #[arg(long)]
        images: bool,
    },
    /// Print the JSON Schema of experiment files
    Schema,
}

#[derive(Debug, Args)]
pub struct Run {
    /// The experiment file
    pub file: PathBuf,
    /// Only these cells, e.g. model=udp-rr,network=ideal
    #[arg(long, value_name = "AXIS=VALUE,...")]
    pub only: Vec<String>,
    /// How often each cell is run, instead of what the file says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// The seed of all draws, instead of what the file says
    #[arg(long)]
    pub seed: Option<u64>,
    /// Where results go
    #[arg(long, default_value = "runs", value_name = "FOLDER")]
    pub out: PathBuf,
    /// Go on with the sweep in this folder: have only the runs that it lacks
    #[arg(long, value_name = "FOLDER", conflicts_with = "out")]
    pub resume: Option<PathBuf>,
    /// Decide about frames as in the run in this folder: loss, jitter and all that
    /// chance decided. Takes its seed, repeat and cell, too
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["resume", "only", "repeat", "seed"])]
    pub replay: Option<PathBuf>,
    /// Keep the medium awake for 60 us before a frame is due: it leaves sharper in
    /// time, and a processor is busy as long as frames are under way
    #[arg(long)]
    pub spin: bool,
    /// Keep all frames in capture.pcapng
    #[arg(long)]
    pub capture: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// What the command `map` is asked for.
#[derive(Debug, Args)]
pub struct Map {
    #[command(flatten)]
    pub run: Run,
    /// Where the map goes
    #[arg(long, default_value = "map.json", value_name = "FILE")]
    pub map: PathBuf,
    /// Take runs that are suspect, too
    #[arg(long)]
    pub suspect: bool,
}

/// A figure of exchanges.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Compared {
    /// How long an exchange takes
    Time,
    /// How long the payload takes to come
    Received,
    /// Bytes on the wire
    Bytes,
}

#[derive(Debug, Subcommand)]
pub enum Profiles {
    /// Show each value of a profile, how good it is and where it is from
    Show {
        /// Its name, or the path of a file
        name: String,
    },
}

#[derive(Debug, Args)]
pub struct Plan {
    /// The experiment file
    pub file: PathBuf,
    /// Only these cells, e.g. model=udp-rr,network=ideal
    #[arg(long, value_name = "AXIS=VALUE,...")]
    pub only: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
