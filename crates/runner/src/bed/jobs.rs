//! The programs of a run: where each starts, and with which files.

use super::machine;
use super::own_metrics;
use super::roots::Roots;
use super::tls;
use crate::error::Error;
use experiment::{Plan, PlannedNode, ProgramCheck, Ready};
use lab::{Exit, OutOfMemory, Usage};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use units::{Bytes, Instant, Span};

/// Time in which a machine ends that cannot run: QEMU reads its files and options first.
const SETTLING: Span = Span::from_s(2);

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
    /// Receives the metrics of a node's programs; starts before them and stops after them.
    Collector,
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
    /// Messages received, as last reported by a sink behind a broker.
    pub received: Option<u64>,
    /// When a node's own program counts as ready.
    pub ready: Option<Ready>,
    /// The nodes whose own programs must be ready before it starts.
    pub after: Vec<usize>,
    /// Whether it was started.
    pub is_started: bool,
    /// Why it could not be started, if so.
    pub not_started: Option<String>,
    /// Whether a fault or a user stopped it.
    pub asked_to_end: bool,
    /// Whether it is the console of a machine.
    pub is_machine: bool,
    /// Whether its console has steps.
    pub has_steps: bool,
    /// Whether it was still running at the end, and was told to stop.
    pub is_stopped: bool,
    /// Whether it ignored that, and was killed.
    pub is_killed: bool,
    /// Whether it was paused.
    pub is_paused: bool,
    /// Whether it may end at any time with status 0: a command, or a program that only an image
    /// names. That may be a shell, which finds no terminal.
    pub may_end: bool,
    /// Maximum size of each of its logs, if the node has a limit.
    pub output_limit: Option<Bytes>,
    /// What it must do.
    pub check: ProgramCheck,
    /// When it started, if it has.
    pub started: Option<Instant>,
    /// When it ended, if it has.
    pub ended: Option<Instant>,
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

    /// The last lines of its standard error; of its standard output, where many programs print
    /// errors, if there are none.
    pub(crate) fn last_output(&self) -> String {
        match last_lines(&self.err, 5) {
            empty if empty.is_empty() => last_lines(&self.out, 5),
            lines => lines,
        }
    }
}

/// The last lines of a file, `number` of them at most.
pub(crate) fn last_lines(path: &Path, number: usize) -> String {
    let text = tail(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(number)..].join("\n")
}

/// The end of a file of any size.
fn tail(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    // A log may have the size of its limit, 64 MiB or more; five lines hardly exceed 8 KiB.
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
    for (name, value) in own_metrics::variables(plan, node) {
        // A program may have its own collector.
        if name == own_metrics::VARIABLE || all.iter().all(|(own, _)| own != name) {
            all.push((name.to_owned(), value));
        }
    }
    if tls::has(plan, node) {
        all.push((tls::VARIABLE.to_owned(), tls::folder(dir).display().to_string()));
    }
    all
}

/// The own programs of `nodes` in `plan`, from the experiment or the image, not yet started.
///
/// # Errors
/// When a file that a program needs cannot be written.
pub(crate) fn own_programs(
    plan: &Plan,
    nodes: &[PlannedNode],
    roots: &Roots,
    home: &Path,
    workload: &Path,
    dir: &Path,
) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    for (node, planned) in nodes.iter().enumerate() {
        let program = planned.program.as_ref();
        let configured = program.map(|program| &program.run[..]).filter(|run| !run.is_empty());
        // The experiment's command goes before the image's, as with containers.
        let configured = configured.or_else(|| roots.program(planned)).map(<[String]>::to_vec);
        let files = Files::of(dir, &planned.name, None);
        let console = machine::console(plan, planned, workload, &files.spec)?;
        let is_machine = console.is_some();
        // A machine's command line is inside its console's spec.
        let Some(argv) = console.or(configured) else { continue };
        let mut job = Job::of(node, &planned.name, None, Role::Node, argv, home, files);
        let own = program.into_iter().flat_map(|program| &program.env);
        job.env = variables(plan, &planned.name, own, dir);
        job.output_limit = planned.limits.output;
        job.ready = plan.ready_of(planned);
        // A clone's are not among these: they are ready already.
        let place = |name: &String| nodes.iter().position(|node| node.name == *name);
        job.after = program.iter().flat_map(|program| &program.after).filter_map(place).collect();
        job.check = program.map(|program| program.check.clone()).unwrap_or_default();
        let check = &job.check;
        job.is_machine = is_machine;
        job.has_steps = planned.machine.as_ref().is_some_and(|machine| !machine.steps.is_empty());
        job.may_end = program.is_none() || !check.exit.is_empty() || check.within.is_some();
        jobs.push(job);
    }
    Ok(jobs)
}

impl Job {
    /// Resource usage of the ended program; nothing before.
    pub fn usage(&self) -> lab::Usage {
        match self.state {
            State::Ended { usage, .. } => usage,
            _ => lab::Usage::default(),
        }
    }

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
            received: None,
            ready: None,
            after: Vec::new(),
            is_started: false,
            not_started: None,
            asked_to_end: false,
            is_machine: false,
            has_steps: false,
            is_stopped: false,
            is_killed: false,
            is_paused: false,
            may_end: false,
            output_limit: None,
            check: ProgramCheck::default(),
            started: None,
            ended: None,
            files,
        }
    }

    /// The last lines that it printed.
    pub(crate) fn last_output(&self) -> String {
        if !self.is_machine {
            return self.files.last_output();
        }
        // The log of errors has only the state of its steps.
        let printed = last_lines(&self.files.out, 5);
        [printed, last_lines(&self.files.err, 1)].join("\n").trim().to_owned()
    }

    /// The likely cause of its end, as a further sentence of an error, if its last output says it.
    pub(crate) fn likely_cause(&self) -> Option<&'static str> {
        self.is_machine.then(|| machine::likely_cause(&self.last_output())).flatten()
    }

    /// Whether it can count as ready without a look from outside. A machine that cannot run ends soon
    /// after it has started, and is ready at the end of that time.
    pub(crate) fn has_settled(&self, now: Instant) -> bool {
        let has_condition = !self.is_machine || self.ready.is_some() || self.asked_to_end;
        has_condition || self.started.is_some_and(|started| now - started >= SETTLING)
    }

    /// Whether it is a program of a workload that speaks the control protocol.
    pub(crate) fn has_control(&self) -> bool {
        matches!(self.role, Role::Source | Role::Sink | Role::Mqtt | Role::Collector)
    }

    /// Whether the experiment file has its command line.
    pub(crate) fn is_of_the_user(&self) -> bool {
        matches!(self.role, Role::Command | Role::Background | Role::Node)
    }

    /// Whether it starts before the workloads and stops after them.
    pub(crate) fn is_of_the_lab(&self) -> bool {
        matches!(self.role, Role::Node | Role::Client) || self.serves()
    }

    /// Whether all other programs of the node may need it.
    pub(crate) fn serves(&self) -> bool {
        matches!(self.role, Role::Service | Role::Collector)
    }

    /// A copy of the program, not yet started.
    pub(crate) fn again(&self) -> Self {
        Self {
            state: State::Starting,
            progress: (0, 0),
            received: None,
            is_started: false,
            not_started: None,
            asked_to_end: false,
            is_stopped: false,
            is_killed: false,
            is_paused: false,
            started: None,
            ended: None,
            ..self.clone()
        }
    }

    /// Whether it failed by itself, which is reported when it happens.
    pub(crate) fn has_failed(&self) -> bool {
        // A program that Thingbed or a user stopped may end in any way.
        let State::Ended { exit, .. } = &self.state else { return false };
        !self.asked_to_end
            && !self.is_stopped
            && !matches!(exit, Exit::Status(status) if self.check.accepts(*status))
    }

    /// Whether it is still running.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, State::Ended { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn files(out: &[u8], err: &[u8]) -> (tempfile::TempDir, Files) {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::of(dir.path(), "a", None);
        fs::write(&files.out, out).unwrap();
        fs::write(&files.err, err).unwrap();
        (dir, files)
    }

    #[test]
    fn the_last_output_is_that_of_errors_if_there_are_any() {
        let (_dir, both) = files(b"out\n", b"err\n");
        assert_eq!(both.last_output(), "err");
        let (_dir, blank) = files(b"one\ntwo\nthree\nfour\nfive\nsix\n\n", b" \n\n");
        assert_eq!(blank.last_output(), "two\nthree\nfour\nfive\nsix");
        let (dir, none) = files(b"", b"");
        assert_eq!(none.last_output(), "");
        drop(dir);
        assert_eq!(none.last_output(), "", "without files");
    }

    /// A program may print any amount of any bytes, in the middle of which reading begins.
    #[test]
    fn the_end_of_a_large_log_is_read_without_the_rest() {
        let long = ["\u{20ac}".repeat(10_000).as_bytes(), b"\nlast \xff\n"].concat();
        let (_dir, files) = files(&long, b"");
        let text = files.last_output();
        assert!(text.ends_with("\nlast \u{fffd}"), "{}", &text[text.len() - 20..]);
        assert!(text.len() < 9_000, "{}", text.len());
    }

    fn ended(exit: Exit) -> Job {
        let (_dir, files) = files(b"", b"");
        let argv = vec!["p".to_owned()];
        let mut job = Job::of(0, "a", None, Role::Node, argv, Path::new("/"), files);
        job.state = State::Ended { exit, usage: Usage::default(), starved: None };
        job
    }

    #[test]
    fn the_last_output_of_a_machine_is_what_it_printed_and_the_state_of_its_steps() {
        let (_dir, files) = files(b"one\nqemu: invalid kernel header\n", b"step 1\nstep 2\n");
        let job = Job { files, ..ended(Exit::Status(1)) };
        assert_eq!(job.last_output(), "step 1\nstep 2");
        assert_eq!(job.likely_cause(), None);
        let machine = Job { is_machine: true, ..job };
        assert_eq!(machine.last_output(), "one\nqemu: invalid kernel header\nstep 2");
        assert!(machine.likely_cause().unwrap().contains("no kernel for this `arch`"));
    }

    #[test]
    fn a_program_that_ended_otherwise_than_it_should_has_failed_unless_it_was_stopped() {
        let status = |statuses: &[i32], status| {
            let check = ProgramCheck { exit: statuses.to_vec(), ..ProgramCheck::default() };
            Job { check, ..ended(Exit::Status(status)) }
        };
        assert!(!status(&[], 0).has_failed() && status(&[], 1).has_failed());
        assert!(!status(&[1], 1).has_failed() && status(&[1], 0).has_failed());
        assert!(ended(Exit::Signal(9)).has_failed());
        assert!(!Job { asked_to_end: true, ..ended(Exit::Signal(9)) }.has_failed());
        assert!(!Job { is_stopped: true, ..ended(Exit::Signal(15)) }.has_failed());
        assert!(!Job { state: State::Done, ..ended(Exit::Signal(9)) }.has_failed());
    }

    /// What is left of the last start would be taken for that of the next.
    #[test]
    fn a_program_that_starts_again_is_as_new() {
        let mut job = ended(Exit::Signal(9));
        let new = Job { state: State::Starting, ..job.clone() };
        (job.progress, job.received) = ((5, 4), Some(3));
        (job.started, job.ended) = (Some(Instant::from_ns(1)), Some(Instant::from_ns(2)));
        (job.is_started, job.asked_to_end, job.is_stopped) = (true, true, true);
        (job.is_killed, job.is_paused) = (true, true);
        job.not_started = Some("no such program".to_owned());
        assert_eq!(format!("{:?}", job.again()), format!("{new:?}"));
    }
}
