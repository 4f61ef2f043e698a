//! The programs of a run: where each starts, and with which files.

use super::roots::Roots;
use super::tls;
use experiment::{Plan, Ready};
use lab::{Exit, OutOfMemory, Usage};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Role of a program in its workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Sends the messages; the run ends when all sources are done.
    Source,
    /// Answers the messages.
    Sink,
    /// Publishes to a broker, subscribes there, or both; the run waits for it.
    Mqtt,
    /// A user's program; the run waits for it.
    Command,
    /// A user's program that ends with the run.
    Background,
    /// A node's own program.
    Node,
    /// A network service; starts before all other programs and stops after them.
    Service,
    /// Requests a node's address and ends when it has it.
    Client,
}

/// State of a program.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum State {
    /// Started, not ready yet.
    Starting,
    /// Waits for the start, or runs.
    Ready,
    /// A source whose schedule is over and fully answered.
    Done,
    /// Ended.
    Ended {
        exit: Exit,
        usage: Usage,
        /// Set if the kernel killed it, or one of its children, for lack of memory.
        starved: Option<OutOfMemory>,
    },
}

/// One program of a run.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// The node that it runs on.
    pub node: usize,
    /// The node's name.
    pub name: String,
    /// Index of its workload; `None` for a node's own program.
    pub workload: Option<usize>,
    /// Its role.
    pub role: Role,
    /// Its command line.
    pub argv: Vec<String>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its additional environment variables.
    pub env: Vec<(String, String)>,
    /// A node whose programs it depends on: the broker's.
    pub relies_on: Option<usize>,
    /// Its state.
    pub state: State,
    /// Messages sent and answers received, as last reported.
    pub progress: (u64, u64),
    /// When a node's own program counts as ready.
    pub ready: Option<Ready>,
    /// Whether a fault or a user stopped it.
    pub asked_to_end: bool,
    /// Whether it was paused.
    pub is_paused: bool,
    /// Whether it may end at any time with status 0: a command, or a program that only an image
    /// names. That may be a shell, which finds no terminal.
    pub may_end: bool,
    /// Paths of its events, standard output and standard error.
    pub files: Files,
}

/// A program's files.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub spec: PathBuf,
    pub events: PathBuf,
    pub out: PathBuf,
    pub err: PathBuf,
}

impl Files {
    /// The files in `dir` of a program of `node`: of a workload by its number, or of the node's own
    /// program.
    pub(crate) fn of(dir: &Path, node: &str, workload: Option<usize>) -> Self {
        let whose = workload.map_or("run".to_owned(), |number| number.to_string());
        Self::named(dir, &format!("{node}.{whose}"))
    }

    /// The files in `dir` with this base name.
    pub(crate) fn named(dir: &Path, name: &str) -> Self {
        let file = |kind: &str| dir.join(format!("{name}.{kind}"));
        Self { spec: file("json"), events: file("csv"), out: file("out"), err: file("err") }
    }

    /// The last lines of its standard error.
    pub(crate) fn last_output(&self) -> String {
        let text = tail(&self.err).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.trim().lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}

/// The end of a file of any size.
fn tail(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(8192)))?;
    let mut end = Vec::new();
    file.take(8192).read_to_end(&mut end)?;
    Ok(end)
}

/// Environment of a user's program on `node`: `own`, and the variables it may need.
pub(crate) fn variables<'a>(
    plan: &Plan,
    node: &str,
    own: impl IntoIterator<Item = (&'a String, &'a String)>,
    dir: &Path,
) -> Vec<(String, String)> {
    let mut all: Vec<_> = own.into_iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    all.push(("THINGBED_NODE".to_owned(), node.to_owned()));
    if tls::has(plan, node) {
        all.push((tls::VARIABLE.to_owned(), tls::folder(dir).display().to_string()));
    }
    all
}

/// The nodes' own programs, from the experiment or the image, not yet started.
pub(crate) fn own_programs(plan: &Plan, roots: &Roots, home: &Path, dir: &Path) -> Vec<Job> {
    let nodes = plan.nodes.iter().enumerate();
    let of = |(node, planned): (usize, &experiment::PlannedNode)| {
        let program = planned.program.as_ref();
        let configured = program.map(|program| &program.run[..]).filter(|run| !run.is_empty());
        let argv = configured.or_else(|| roots.program(planned))?.to_vec();
        let files = Files::of(dir, &planned.name, None);
        let mut job = Job::of(node, &planned.name, None, Role::Node, argv, home, files);
        let own = program.into_iter().flat_map(|program| &program.env);
        job.env = variables(plan, &planned.name, own, dir);
        job.ready = program.and_then(|program| program.ready.clone());
        job.may_end = program.is_none();
        Some(job)
    };
    nodes.filter_map(of).collect()
}

impl Job {
    /// A program chosen by the tool, not yet started, which may end with status 0.
    pub(crate) fn new(
        node: usize,
        planned: &experiment::PlannedNode,
        role: Role,
        argv: Vec<String>,
        dir: &Path,
        files: Files,
    ) -> Self {
        let job = Self::of(node, &planned.name, None, role, argv, dir, files);
        Self { may_end: true, ..job }
    }

    /// A program that is not yet started.
    pub(crate) fn of(
        node: usize,
        name: &str,
        workload: Option<usize>,
        role: Role,
        argv: Vec<String>,
        cwd: &Path,
        files: Files,
    ) -> Self {
        Self {
            node,
            name: name.to_owned(),
            workload,
            role,
            argv,
            cwd: cwd.to_path_buf(),
            env: Vec::new(),
            relies_on: None,
            state: State::Starting,
            progress: (0, 0),
            ready: None,
            asked_to_end: false,
            is_paused: false,
            may_end: false,
            files,
        }
    }

    /// Whether it is a program of a workload that speaks the control protocol.
    pub(crate) fn has_control(&self) -> bool {
        matches!(self.role, Role::Source | Role::Sink | Role::Mqtt)
    }

    /// Whether it starts before the workloads and stops after them.
    pub(crate) fn is_of_the_lab(&self) -> bool {
        matches!(self.role, Role::Node | Role::Service | Role::Client)
    }

    /// A copy of the program, not yet started.
    pub(crate) fn again(&self) -> Self {
        Self {
            state: State::Starting,
            progress: (0, 0),
            asked_to_end: false,
            is_paused: false,
            ..self.clone()
        }
    }

    /// Whether it is still running.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, State::Ended { .. })
    }
}
