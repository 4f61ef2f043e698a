//! Errors of a run, each with its likely cause and fix.

use std::io;
use std::path::{Path, PathBuf};

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The nodes could not be created.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// A node's root file system could not be prepared.
    #[error("could not prepare the root of node {node}: {fault}")]
    Root {
        /// The first affected node.
        node: String,
        /// The fault of the image.
        fault: image::Error,
    },
    /// A node's programs cannot be run on this machine.
    #[error("could not prepare the root of node {node}: {fault}")]
    Emulator {
        /// The first affected node.
        node: String,
        /// The cause and the fix.
        fault: lab::Error,
    },
    /// A gateway's uplink could not be created.
    #[error(
        "could not connect {node} to the outside (`nat`): {why}\n  `nat` needs slirp4netns and \
         /dev/net/tun: apt install slirp4netns, modprobe tun; or remove `nat` from the experiment"
    )]
    Uplink {
        /// The gateway.
        node: String,
        /// The failed step and its cause.
        why: String,
    },
    /// A node's image has no default program, but the experiment needs one.
    #[error(
        "the root of node {node} has no default program, but `ready` or `env` need one\n  add it: \
         `run: [PROGRAM, ...]`"
    )]
    NoProgram {
        /// The first such node.
        node: String,
    },
    /// A CPU limit by clock or benchmark cannot be applied on this host.
    #[error("could not limit node {node} to {cpu}: {why}")]
    HostCpu {
        /// The first such node.
        node: String,
        /// The configured limit.
        cpu: experiment::PlannedCpu,
        /// The cause and the fix.
        why: String,
    },
    /// A file could not be written.
    #[error("could not write {path}: {source}{hint}", hint = disk_hint(.source))]
    Write {
        /// Its path.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// A table of the run folder could not be written.
    #[error(transparent)]
    Table(#[from] measure::TableError),
    /// The decisions of an earlier run could not be replayed.
    #[error("{0}\n  --replay takes the folder of one run of the same experiment and cell")]
    Replay(#[from] measure::ReplayError),
    /// The capture filter is invalid.
    #[error(transparent)]
    Filter(#[from] measure::FilterError),
    /// The capture could not be written.
    #[error(transparent)]
    Capture(#[from] measure::CaptureError),
    /// A program's results could not be read.
    #[error(transparent)]
    Collect(#[from] crate::collect::CollectError),
    /// A program could not be started.
    #[error("could not start the program of {node}: {failure}{hint}", hint = start_hint(.failure))]
    NotStarted {
        /// The node.
        node: String,
        /// The failed step and its cause.
        failure: lab::Failure,
    },
    /// A program ended, or reported a failure, before the run began.
    #[error(
        "the program of {node} {how} before the run started{words}{cause}",
        words = indented(.words), cause = likely(*.cause)
    )]
    Died {
        /// The node.
        node: String,
        /// How it ended.
        how: String,
        /// Its last output.
        words: String,
        /// The likely cause, if the output says it.
        cause: Option<&'static str>,
    },
    /// Programs were not ready in time.
    #[error(
        "{missing} of {all} programs were not ready after {limit}: {names}{words}\n  likely \
         causes: a program hangs, it cannot reach another node, or the machine is slow; read \
         their output in {logs}, or raise `setup_limit`",
        words = indented(.words)
    )]
    NotReady {
        /// Number of programs that were not ready.
        missing: usize,
        /// Number of all programs.
        all: usize,
        /// The time limit.
        limit: units::Span,
        /// Names of the first of them.
        names: String,
        /// Last output of the first of them.
        words: String,
        /// The folder with all logs.
        logs: PathBuf,
    },
    /// The requested frame path is not available.
    #[error(
        "the frame path `{path}` of THINGBED_FRAME_PATH does not work: {source}\n  it needs root, \
         or the capabilities cap_bpf and cap_net_admin, and Linux 5.12 or later: see `thingbed \
         doctor`; or unset THINGBED_FRAME_PATH to use the best that works"
    )]
    FramePath {
        /// Its name.
        path: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The kernel does not support netem, which a network needs.
    #[error(
        "the network `{network}` has `backend: netem`, which does not work on this machine: \
             {source}"
    )]
    Netem {
        /// The network.
        network: String,
        /// The failed step.
        source: lab::Error,
    },
    /// A run with netem cannot be replayed.
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
    /// The experiment cannot run with the requested clock.
    #[error("{0}")]
    Clock(String),
    /// A run in a guest failed.
    #[error("{text}")]
    Guest {
        /// The error in the guest, with its likely cause and fix.
        text: String,
        /// Whether the other runs of the sweep would fail in the same way.
        ends_sweep: bool,
    },
    /// The user stopped it before there were results.
    #[error("stopped before the run started; nothing was measured")]
    Interrupted,
    /// The user stopped it during the measurement, and it could not write what there was.
    #[error("stopped during the measurement, without results: {0}")]
    Abandoned(String),
    /// Any other error of the kernel.
    #[error("could not {tried}: {source}")]
    Io {
        /// The failed step.
        tried: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
}

impl Error {
    /// Whether the user stopped it.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Abandoned(_))
    }

    /// Whether the other runs of the sweep would fail in the same way: none works without nodes or
    /// a disk.
    pub fn ends_sweep(&self) -> bool {
        match self {
            Self::Lab(_) | Self::Write { .. } | Self::Table(_) => true,
            Self::Guest { ends_sweep, .. } => *ends_sweep,
            _ => false,
        }
    }

    /// Whether a file could not be written and removing others would make space for it.
    pub(crate) fn needs_space(&self) -> bool {
        match self {
            Self::Write { source, .. } => {
                journal::is_full(source) && source.kind() != io::ErrorKind::FileTooLarge
            }
            Self::Table(error) => error.needs_space(),
            _ => false,
        }
    }

    pub(crate) fn io(tried: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { tried, source }
    }

    /// Returns a function that turns an I/O error into a failure to write `path`.
    pub fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}

fn disk_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => "\n  free space there, or use another folder with --out",
        io::ErrorKind::QuotaExceeded => {
            "\n  your quota there is used up: free space there, or use another folder with --out"
        }
        io::ErrorKind::FileTooLarge => {
            "\n  files may not be larger here (`ulimit -f`): raise that limit, or shorten `duration`"
        }
        io::ErrorKind::PermissionDenied => "\n  use another folder with --out, or change its owner",
        io::ErrorKind::ReadOnlyFilesystem => "\n  use another folder with --out",
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

/// A program's output below the error, each line indented.
fn likely(cause: Option<&str>) -> String {
    cause.map_or(String::new(), |cause| format!("\n  likely cause: {cause}"))
}

fn indented(words: &str) -> String {
    words.lines().map(|line| format!("\n  | {line}")).collect()
}
