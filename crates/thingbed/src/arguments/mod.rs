//! What can be asked for on the command line.

mod analyze;
mod live;

pub use analyze::Analyze;
pub use live::{Cp, Exec, Lab, Link, Logs, Nodes, Ps, Set, Shell, Top, Up, Whose};

use clap::{Args, Parser, Subcommand};
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
    /// Say what is in a capture of packets, pcap or pcapng
    Analyze(Analyze),
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
    /// End nodes, with all that runs in them
    Destroy(Nodes),
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
