//! Commands and options of the command line.

mod analyze;
mod capacity;
mod compare;
mod completions;
pub mod forwarding;
mod import;
mod live;
mod load;
mod settings;
mod trace;

pub use analyze::Analyze;
pub use capacity::Capacity;
pub use compare::{Compare, CompareMetric, Format};
pub use completions::CompletedShell;
pub use forwarding::Forwarding;
pub use import::{Demo, Import};
pub use live::{
    Capture, Clone, Console, Cp, Exec, Lab, Labs, Link, LinkSelector, LinkShow, Logs, Nodes, Page,
    Pingall, Ps, Set, Shell, Top, Up,
};
pub use load::{Coap, Device, Load};
pub use settings::Settings;
pub use trace::{Generate, Inspect, Shape, Trace};

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A test bed for the Internet of Things: network emulation, load generation, measurement
///
/// Thingbed runs real, unmodified programs on emulated nodes over emulated networks with
/// delay, jitter, loss and rate limits, measures each message and frame, and gives each run
/// a verdict: valid, suspect, failed or invalid.
#[derive(Debug, Parser)]
#[command(name = "thingbed", version, about, arg_required_else_help = true)]
#[command(after_help = "\
Start with: thingbed demo, then thingbed run FILE. Help on a command: thingbed help COMMAND.
Exit status: 0 success; 1 runtime error; 2 wrong arguments or experiment file; 3 a run is invalid;
4 a program failed or an expectation does not hold; 130 interrupted.")]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an experiment: all cells of its matrix, all repeats
    Run(Run),
    /// Run a small built-in experiment and show what to do next
    Demo(Demo),
    /// Find the capacity: the largest value of an axis that meets the targets
    Capacity(Capacity),
    /// Run a sweep or capsule in virtual time again and report the first metric that differs
    Verify(Verify),
    /// Pack an experiment's runs into one file, a capsule, that runs the same everywhere
    Pack(Pack),
    /// Check experiment files for errors without running them
    Check {
        /// Experiment files (YAML)
        #[arg(required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Write an experiment file from a compose file or a containerlab topology
    Import(Import),
    /// Print the plan of an experiment: nodes, addresses, links, schedules
    Plan(Plan),
    /// Print the results of a run or sweep and write its report page again
    Report {
        /// Folder of a run or of a sweep
        folder: PathBuf,
        /// Write the HTML page to this file [default: FOLDER/report.html]
        #[arg(long, value_name = "PAGE")]
        html: Option<PathBuf>,
        /// Print the results as Markdown and do not write the HTML page
        #[arg(long, conflicts_with = "html")]
        markdown: bool,
        /// Also write the results as JUnit XML to this file
        #[arg(long, value_name = "FILE", conflicts_with = "markdown")]
        junit: Option<PathBuf>,
        /// Format of the results on standard output
        #[arg(long, default_value = "text", conflicts_with = "markdown")]
        format: Format,
    },
    /// Compare two builds, or exchanges: the best protocol per payload size
    Compare(Compare),
    /// Write the director's performance map from runs of its models
    Map(Map),
    /// List the link profiles (EDGE to LEO), or show the values of one
    Profiles {
        #[command(subcommand)]
        what: Option<Profiles>,
        /// Print the profiles as JSON
        #[arg(long, global = true)]
        json: bool,
    },
    /// Analyze a packet capture (pcap or pcapng) of any program
    Analyze(Analyze),
    /// Generate load: send requests on a schedule or from a trace
    Load(Box<Load>),
    /// Serve CoAP, HTTP, UDP or TCP with configured service times
    Device(Box<Device>),
    /// Generate, inspect and merge request traces
    #[command(subcommand)]
    Trace(Trace),
    /// List missing features, their effect and the command that fixes each
    Doctor {
        /// Print the findings as JSON
        #[arg(long)]
        json: bool,
    },
    /// Start a live lab: the nodes and networks of an experiment
    Up(Up),
    /// Stop a live lab and remove its nodes and networks
    Down {
        #[command(flatten)]
        lab: Lab,
    },
    /// List the labs on this machine
    Labs(Labs),
    /// List the nodes of a lab: addresses, process, state
    Ps(Ps),
    /// Ping each node from each other one and print the round trips
    Pingall(Pingall),
    /// Show CPU, memory and traffic of nodes every second
    Top(Top),
    /// Serve a page for a browser to watch and control a running lab
    Page(Page),
    /// Run a program in a node
    Exec(Exec),
    /// Open a shell in a node
    Shell(Shell),
    /// Use the console of a node that is a machine (`firmware`, `qemu`)
    Console(Console),
    /// Print the output (logs) of nodes' programs
    Logs(Logs),
    /// Start the programs of nodes
    Start(Nodes),
    /// Stop the programs of nodes with SIGTERM
    Stop(Nodes),
    /// Restart the programs of nodes: SIGTERM, then start
    Restart(Nodes),
    /// Kill all programs of nodes with SIGKILL
    Kill(Nodes),
    /// Pause all programs of nodes with SIGSTOP
    Pause(Nodes),
    /// Resume the paused programs of nodes with SIGCONT
    Resume(Nodes),
    /// Scale up: add nodes that are copies of one node
    Clone(Clone),
    /// Remove nodes and kill all their programs
    Destroy(Nodes),
    /// Capture the frames of nodes live, for Wireshark or tcpdump
    Capture(Capture),
    /// Change the CPU and memory limits, host name or MTU of nodes
    Set(Set),
    /// Copy a file into a node or out of it
    Cp(Cp),
    /// Show and change link impairments at runtime
    #[command(subcommand)]
    Link(Link),
    /// Remove the leftovers of a Thingbed process that was killed
    Gc {
        /// Also remove the unpacked container images that no lab uses
        #[arg(long)]
        images: bool,
    },
    /// Print the JSON Schema of experiment files, for editors
    Schema,
    /// Print the setup of completion for a shell: commands, options, names of running nodes
    #[command(
        after_help = "For bash, add this line to ~/.bashrc: source <(thingbed completions bash)"
    )]
    Completions { shell: CompletedShell },
    /// Write the manual pages of all commands
    Manual {
        /// Folder for the pages
        #[arg(default_value = "man")]
        folder: PathBuf,
    },
    /// Execute one run of a sweep as a cluster task
    #[command(hide = true)]
    Task { folder: PathBuf, run: String },
    /// Execute one run in a guest kernel
    #[command(hide = true)]
    GuestCell { request: String },
}

#[derive(Debug, Clone, Default, Args)]
pub struct Run {
    /// Experiment file (YAML), or a capsule of `thingbed pack`
    pub file: PathBuf,
    /// Run only these cells, e.g. model=udp-rr,network='ideal|radio'; repeatable: values of one axis
    /// add up. Values with `|`, `,` or `=` need double quotes, e.g. 'mix="GET=9,POST=1"'
    #[arg(long, value_name = "AXIS=VALUE,...")]
    pub only: Vec<String>,
    #[command(flatten)]
    pub settings: Settings,
    /// Repeats per cell [default: the experiment's `repeats`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Seed of all random draws [default: the experiment's `seed`]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Folder for results; each sweep gets a folder in it
    #[arg(long, default_value = "runs", value_name = "FOLDER")]
    pub out: PathBuf,
    /// Resume the sweep in this folder: run only what is missing
    #[arg(long, value_name = "FOLDER", conflicts_with = "out")]
    pub resume: Option<PathBuf>,
    /// Replay the impairment decisions (loss, jitter, ...) of the run in this folder
    ///
    /// The seed, repeat and cell are those of that run.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["resume", "only", "repeat", "seed"])]
    pub replay: Option<PathBuf>,
    #[command(flatten)]
    pub forwarding: Forwarding,
    /// Capture all frames to capture.pcapng in the run folder
    #[arg(long)]
    pub capture: bool,
    /// Repeat an invalid run up to N times; rejected runs go to `rejected`
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub retry: u32,
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
    /// With several values, e.g. infinite,8,1, each cell runs once per CPU, and the results show
    /// which metrics depend on the CPU.
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    pub cpu: Vec<experiment::Cpu>,
    /// Parallel runs, in virtual time [default: the CPUs of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: Option<u32>,
    /// Execute the runs on a cluster, in virtual time: slurm
    ///
    /// Thingbed submits an array job with one task per run; --jobs limits the parallel tasks. The
    /// sweep folder, the experiment file and the thingbed program must have the same paths on all
    /// nodes.
    #[arg(long, value_name = "CLUSTER", conflicts_with_all = ["stop_at", "retry"])]
    pub on: Option<On>,
    /// Breakpoint: stop a single run in virtual time at this time, e.g. 12.3s, and open shells
    ///
    /// The time counts from the start of the schedule and is reproducible. Virtual time is paused
    /// until you continue, even while programs in a shell work.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["resume", "jobs"])]
    pub stop_at: Option<units::Span>,
    /// Write the results as JUnit XML to this file: a test per run and per expectation
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Serve a page for a browser to watch and control the runs, on a loopback port or a socket file
    /// [default: any free port]
    #[arg(long, value_name = "PORT|SOCKET", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub watch: Option<page::Place>,
    /// Format of the results on standard output
    #[arg(long, default_value = "text")]
    pub format: Format,
    /// Do not show progress
    #[arg(long, short)]
    pub quiet: bool,
}

impl Run {
    /// The CPUs of the runs in virtual time: each cell runs once per CPU. At least one.
    pub fn cpus(&self) -> Vec<experiment::Cpu> {
        match self.cpu.as_slice() {
            [] => vec![experiment::Cpu::default()],
            given => given.to_vec(),
        }
    }

    /// The clock of the runs of `experiment`.
    pub fn clock(&self, experiment: &experiment::Experiment) -> experiment::Clock {
        // `--cpu` implies virtual time: the real clock has no CPU to choose.
        let by_cpu = self.cpu.first().map(|_| experiment::Clock::Virtual);
        self.clock.or(by_cpu).unwrap_or(experiment.clock)
    }
}

/// Where runs can execute other than on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum On {
    /// A Slurm cluster
    Slurm,
}

/// Options of `verify`.
#[derive(Debug, Clone, Args)]
pub struct Verify {
    /// Folder of a run or sweep in virtual time, or a capsule
    pub folder: PathBuf,
    /// Parallel runs [default: the CPUs of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: Option<u32>,
    /// Do not show progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of `pack`.
#[derive(Debug, Args)]
pub struct Pack {
    /// Experiment file (YAML)
    pub file: PathBuf,
    /// Name of the capsule [default: the experiment file's, with extension .capsule]
    #[arg(long, short, value_name = "CAPSULE")]
    pub out: Option<PathBuf>,
    /// CPU in 10^9 instructions per second [default: 1]; several values make a sweep
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    pub cpu: Vec<experiment::Cpu>,
    /// Pack only these cells, e.g. model=udp-rr,network=ideal; repeatable. Values as for `run`
    #[arg(long, value_name = "AXIS=VALUE,...")]
    pub only: Vec<String>,
    /// Repeats per cell [default: the experiment's `repeats`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Seed of all random draws [default: the experiment's `seed`]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Parallel runs [default: the CPUs of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: Option<u32>,
    /// Do not show progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of `map`.
#[derive(Debug, Args)]
pub struct Map {
    #[command(flatten)]
    pub run: Run,
    /// Output file of the performance map (JSON)
    #[arg(long, default_value = "map.json", value_name = "FILE")]
    pub map: PathBuf,
    /// Also use runs with the verdict suspect
    #[arg(long)]
    pub suspect: bool,
}

#[derive(Debug, Subcommand)]
pub enum Profiles {
    /// Show each value of a profile, its quality and its source
    Show {
        /// Profile name, or path of a profile file
        name: String,
    },
}

#[derive(Debug, Args)]
pub struct Plan {
    /// Experiment file (YAML)
    pub file: PathBuf,
    /// Print only these cells, e.g. model=udp-rr,network=ideal; repeatable. Values as for `run`
    #[arg(long, value_name = "AXIS=VALUE,...")]
    pub only: Vec<String>,
    #[command(flatten)]
    pub settings: Settings,
    /// Print the plan as JSON
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
