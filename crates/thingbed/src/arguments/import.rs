//! Options of `demo` and `import`.

use clap::Args;
use std::path::PathBuf;

/// Options of `demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Folder for the experiment and its results, which must not exist [default: thingbed-demo,
    /// thingbed-demo-2, ...]
    pub folder: Option<PathBuf>,
    /// Clock: real or virtual [default: virtual, if there is a guest kernel]
    #[arg(long, value_name = "CLOCK")]
    pub clock: Option<experiment::Clock>,
    /// Do not show progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of `import`.
#[derive(Debug, Args)]
pub struct Import {
    /// A compose file (compose.yaml) or a containerlab topology (NAME.clab.yml)
    pub file: PathBuf,
    /// The experiment file to write, which must not exist; - prints it [default: NAME.yaml]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Run programs from this machine's file system instead of the services' images
    #[arg(long)]
    pub host_programs: bool,
}
