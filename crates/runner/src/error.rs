//! What can go wrong with a run, with its likely cause and its mend.

use std::io;
use std::path::{Path, PathBuf};

/// Why a run could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The nodes could not be made.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// A node's root file system could not be had.
    #[error("could not prepare the root of node {node}: {fault}")]
    Root {
        /// The first node that has it.
        node: String,
        /// What is wrong with it.
        fault: image::Error,
    },
    /// A gateway's way out could not be had.
    #[error(
        "could not connect {node} to the outside (`nat`): {why}\n  `nat` needs slirp4netns and \
         /dev/net/tun: apt install slirp4netns, modprobe tun; or remove `nat` from the experiment"
    )]
    Uplink {
        /// The gateway.
        node: String,
        /// What was tried and why it failed.
        why: String,
    },
    /// A node's image names no program, and the experiment speaks of one.
    #[error(
        "the root of node {node} has no default program, but `ready` or `env` need one\n  add it: \
         `run: [PROGRAM, ...]`"
    )]
    NoProgram {
        /// The first such node.
        node: String,
    },
    /// A limit by clock or benchmark means nothing on this host.
    #[error("could not limit node {node} to {cpu}: {why}")]
    HostCpu {
        /// The first such node.
        node: String,
        /// What was asked for.
        cpu: experiment::PlannedCpu,
        /// What stands in the way, and what helps.
        why: String,
    },
    /// A file could not be written.
    #[error("could not write {path}: {source}{hint}", hint = disk_hint(.source))]
    Write {
        /// Which.
        path: PathBuf,
        /// The kernel's word on it.
        source: io::Error,
    },
    /// A table of the run folder could not be written.
    #[error(transparent)]
    Table(#[from] measure::TableError),
    /// The decisions of an earlier run could not be had.
    #[error("{0}\n  --replay takes the folder of one run of the same experiment and cell")]
    Replay(#[from] measure::ReplayError),
    /// The frames to be captured are not understood.
    #[error(transparent)]
    Filter(#[from] measure::FilterError),
    /// The capture could not be written.
    #[error(transparent)]
    Capture(#[from] measure::CaptureError),
    /// What programs wrote down could not be read.
    #[error(transparent)]
    Collect(#[from] crate::collect::CollectError),
    /// A program could not be started.
    #[error("could not start the program of {node}: {failure}{hint}", hint = start_hint(.failure))]
    NotStarted {
        /// The node.
        node: String,
        /// What was tried and why it failed.
        failure: lab::Failure,
    },
    /// A program ended, or said that it cannot go on, before the run began.
    #[error("the program of {node} {how} before the run started{words}", words = indented(.words))]
    Died {
        /// The node.
        node: String,
        /// How it ended.
        how: String,
        /// What it last said.
        words: String,
    },
    /// Programs were not ready in time.
    #[error(
        "{missing} of {all} programs were not ready after {limit}: {names}{words}\n  likely \
         causes: a program hangs, it cannot reach another node, or the machine is slow; read \
         their output in {logs}, or raise `setup_limit`",
        words = indented(.words)
    )]
    NotReady {
        /// How many were not.
        missing: usize,
        /// How many there are.
        all: usize,
        /// How long was waited.
        limit: units::Span,
        /// The first of them.
        names: String,
        /// What the first of them last said.
        words: String,
        /// Where all of it lies.
        logs: PathBuf,
    },
    /// The way of carrying frames that was asked for cannot be had.
    #[error(
        "the frame path `{path}` of THINGBED_FRAME_PATH does not work: {source}\n  it needs root, \
         or the capabilities cap_bpf and cap_net_admin, and Linux 5.12 or later: see `thingbed \
         doctor`; or unset THINGBED_FRAME_PATH to use the best that works"
    )]
    FramePath {
        /// Its name.
        path: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The kernel cannot impair a network, and is asked to.
    #[error(
        "the network `{network}` has `backend: netem`, which does not work on this machine: \
             {source}"
    )]
    Netem {
        /// The network.
        network: String,
        /// What was tried.
        source: lab::Error,
    },
    /// A run with netem cannot be had again.
    #[error(
        "--replay does not work with netem: the network `{network}` has `backend: netem`, and the \
         kernel makes the impairment decisions\n  remove --replay, or remove `backend: netem` in \
         both runs"
    )]
    ReplayOfNetem {
        /// The network.
        network: String,
    },
    /// Certificates for TLS could not be made.
    #[error("could not create the certificates for TLS: {0}")]
    Certificate(String),
    /// The experiment has no plan for this cell.
    #[error(transparent)]
    Plan(#[from] experiment::Errors),
    /// The experiment cannot run with the clock that it is to have.
    #[error("{0}")]
    Clock(String),
    /// A run in a guest failed.
    #[error("{text}")]
    Guest {
        /// What went wrong there, with its likely cause and its fix.
        text: String,
        /// Whether other runs of the sweep would fail likewise.
        ends_sweep: bool,
    },
    /// The user stopped it before there was anything to report.
    #[error("stopped before the run started; nothing was measured")]
    Interrupted,
    /// Anything else the kernel refused.
    #[error("could not {tried}: {source}")]
    Io {
        /// What was tried.
        tried: &'static str,
        /// The kernel's word on it.
        source: io::Error,
    },
}

impl Error {
    /// Whether other runs of the sweep would fail likewise: without nodes or a disk none works.
    pub fn ends_sweep(&self) -> bool {
        match self {
            Self::Lab(_) | Self::Write { .. } | Self::Table(_) => true,
            Self::Guest { ends_sweep, .. } => *ends_sweep,
            _ => false,
        }
    }

    pub(crate) fn io(tried: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { tried, source }
    }

    /// Makes an error of a failure to write `path`.
    pub fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}

fn disk_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => "\n  free space there, or use another folder with --out",
        io::ErrorKind::PermissionDenied => "\n  use another folder with --out, or change its owner",
        _ => "",
    }
}

fn start_hint(failure: &lab::Failure) -> &'static str {
    match failure.errno {
        libc::ENOENT if failure.tried.ends_with("in the node's root") => {
            "\n  this node has its own `root` and sees no files of the host: add the program there"
        }
        libc::ENOENT if failure.tried.starts_with("find dnsmasq") => {
            "\n  `dhcp` and `dns` need dnsmasq: apt install dnsmasq-base, or remove them from the \
             experiment"
        }
        libc::ENOENT if failure.tried.starts_with("find busybox") => {
            "\n  `address: dhcp` needs busybox with udhcpc: apt install busybox-static"
        }
        libc::ENOENT => {
            "\n  nodes see the host's files: check the path, or that the program is in PATH"
        }
        libc::EACCES => "\n  the file is not executable: chmod +x",
        libc::ENOEXEC => {
            "\n  it is not a program for this machine; a script needs a first line \
                          `#!`"
        }
        _ => "",
    }
}

/// What a program said, below the error, each line set in.
fn indented(words: &str) -> String {
    words.lines().map(|line| format!("\n  | {line}")).collect()
}
