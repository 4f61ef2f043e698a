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
    #[error("could not have the root of node {node}: {fault}")]
    Root {
        /// The first node that has it.
        node: String,
        /// What is wrong with it.
        fault: image::Error,
    },
    /// A gateway's way out could not be had.
    #[error(
        "{node} could not be given a way out: {why}\n  `nat` needs slirp4netns and /dev/net/tun: \
         apt install slirp4netns, modprobe tun; or take `nat` out of the experiment"
    )]
    Uplink {
        /// The gateway.
        node: String,
        /// What was tried and why it failed.
        why: String,
    },
    /// A node's image names no program, and the experiment speaks of one.
    #[error(
        "the root of node {node} names no program of its own, and `ready` or `env` speak of one\n  \
         say which: `run: [PROGRAM, ...]`"
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
    #[error("the program of {node} {how} before the run began{words}", words = indented(.words))]
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
        "{missing} of {all} programs were not ready after {limit}: {names}{words}\n  \
         a program that hangs, a network without a way between them, or a slow machine: \
         look at what they said in {logs}, or raise `setup_limit`",
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
        "frames cannot be carried by the path `{path}`, which was asked for: {source}\n  \
         it needs root, or the capabilities cap_bpf and cap_net_admin, and Linux 5.12 or later: \
         see `thingbed doctor`; or leave THINGBED_FRAME_PATH unset for the best that works"
    )]
    FramePath {
        /// Its name.
        path: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The kernel cannot impair a network, and is asked to.
    #[error("the network `{network}` has `backend: netem`, and this machine cannot: {source}")]
    Netem {
        /// The network.
        network: String,
        /// What was tried.
        source: lab::Error,
    },
    /// A run with netem cannot be had again.
    #[error(
        "--replay cannot decide for the kernel: the network `{network}` has `backend: netem`\n  \
         leave --replay out, or run with the medium in both runs"
    )]
    ReplayOfNetem {
        /// The network.
        network: String,
    },
    /// Certificates for TLS could not be made.
    #[error("could not make the certificates for TLS: {0}")]
    Certificate(String),
    /// The experiment has no plan for this cell.
    #[error(transparent)]
    Plan(#[from] experiment::Errors),
    /// The user stopped it before there was anything to report.
    #[error("stopped before the run began; nothing was measured")]
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
        io::ErrorKind::StorageFull => "\n  make room there, or choose another folder with --out",
        io::ErrorKind::PermissionDenied => {
            "\n  choose a folder of your own with --out, or change whose it is"
        }
        _ => "",
    }
}

fn start_hint(failure: &lab::Failure) -> &'static str {
    match failure.errno {
        libc::ENOENT if failure.tried.ends_with("in the node's own root") => {
            "\n  this node sees its own `root` and nothing of the host's: put what is missing there"
        }
        libc::ENOENT if failure.tried.starts_with("find dnsmasq") => {
            "\n  `dhcp` and `dns` need dnsmasq: apt install dnsmasq-base, or take them out"
        }
        libc::ENOENT if failure.tried.starts_with("find busybox") => {
            "\n  `address: dhcp` needs busybox with udhcpc: apt install busybox-static"
        }
        libc::ENOENT => {
            "\n  nodes see the host's files: check the path, or that the name is in PATH"
        }
        libc::EACCES => "\n  the file is there and may not be executed: chmod +x",
        libc::ENOEXEC => "\n  it is no program for this machine; a script needs a first line `#!`",
        _ => "",
    }
}

/// What a program said, below the error, each line set in.
fn indented(words: &str) -> String {
    words.lines().map(|line| format!("\n  | {line}")).collect()
}
