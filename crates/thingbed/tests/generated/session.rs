//! Runs commands as a user does, and records them.

use super::failure::{Failure, Outcome, expect};
use super::scenario::Scenario;
use crate::common::{Bed, CommandOutput};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// All processes that Thingbed starts inherit this variable.
pub const MARK: &str = "THINGBED_GENERATED_MARK";

/// One lab in one folder.
pub struct Session<'a> {
    pub bed: &'a Bed,
    pub scenario: Scenario,
    pub mark: String,
    /// Process id of the lab.
    pub pid: u32,
    /// Recorded commands, as shell lines.
    pub typed: Vec<String>,
    requests: RefCell<BTreeMap<(String, usize), Requests>>,
}

/// Echo requests of a node.
#[derive(Debug, Clone, Copy, Default)]
pub struct Requests {
    pub answered: u64,
    pub sent: u64,
    /// Requests of the last ping without an answer: they may still wait for an address, and become
    /// frames later.
    pub waiting: u64,
}

impl<'a> Session<'a> {
    pub fn new(bed: &'a Bed, scenario: Scenario) -> Self {
        bed.write("lab.yaml", &scenario.file());
        std::fs::create_dir_all(bed.path().join("tmp")).unwrap();
        let mark = scenario.name.clone();
        Self { bed, scenario, mark, pid: 0, typed: Vec::new(), requests: RefCell::default() }
    }

    /// A Thingbed command: its name (`link set` is one), then its arguments.
    pub fn command<S: AsRef<str>>(&self, words: &[S]) -> Command {
        let line = self.words(words);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let mut command = self.bed.command(&line);
        command.env(MARK, &self.mark);
        command.env("TMPDIR", self.bed.path().join("tmp"));
        command.env("XDG_CACHE_HOME", self.bed.path().join("cache"));
        command.env("THINGBED_FRAME_PATH", self.scenario.frame_path);
        // A shell starts background processes with SIGINT ignored, perhaps also the test; Thingbed
        // leaves such a signal ignored.
        // SAFETY: signal() is safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        command
    }

    fn words<S: AsRef<str>>(&self, words: &[S]) -> Vec<String> {
        let (name, rest) = words.split_first().expect("a command");
        let name = name.as_ref();
        let mut line: Vec<String> = name.split(' ').map(str::to_owned).collect();
        if !["up", "labs", "gc"].contains(&name) {
            line.extend(["--lab".to_owned(), self.scenario.name.clone()]);
        }
        line.extend(rest.iter().map(|word| word.as_ref().to_owned()));
        line
    }

    /// Runs a command of a check, which is not part of the sequence.
    pub fn look<S: AsRef<str>>(&self, words: &[S]) -> CommandOutput {
        let mut command = self.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        ended(command.spawn().unwrap())
    }

    /// The same inside a node.
    pub fn inside(&self, node: &str, command: &[&str]) -> CommandOutput {
        self.look(&[&["exec", node, "--"], command].concat())
    }

    /// Adds a command to the record.
    pub fn note<S: AsRef<str>>(&mut self, words: &[S], behind: &str) {
        let words: Vec<_> = self.words(words).iter().map(|word| quoted(word)).collect();
        self.typed.push(format!("thingbed {}{behind}", words.join(" ")));
    }

    /// Runs a command of the sequence.
    pub fn run<S: AsRef<str>>(&mut self, words: &[S]) -> CommandOutput {
        self.note(words, "");
        self.look(words)
    }

    /// Runs a command of the sequence that must end with this status.
    pub fn expect<S: AsRef<str>>(
        &mut self,
        words: &[S],
        status: i32,
    ) -> Result<CommandOutput, Failure> {
        let answer = self.run(words);
        let seen = format!("exit status {}\n{}{}", answer.status, answer.out, answer.err);
        let what = self.typed.last().cloned().unwrap_or_default();
        expect(answer.status == status, what, format!("exit status {status}"), seen)?;
        Ok(answer)
    }

    /// Starts a command of the sequence in the background.
    pub fn begin<S: AsRef<str>>(&mut self, words: &[S]) -> Child {
        self.note(words, " &");
        let mut command = self.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Counts pings. Those with an answer were certainly frames; for the others there may have been
    /// only an ARP request.
    pub fn count_requests(&self, node: &str, network: usize, (answered, sent): (u64, u64)) {
        let mut all = self.requests.borrow_mut();
        let own = all.entry((node.to_owned(), network)).or_default();
        own.answered += answered;
        own.sent += sent;
        own.waiting = sent.saturating_sub(answered);
    }

    /// Echo requests that a node has sent on a network so far.
    pub fn requests(&self, node: &str, network: usize) -> Requests {
        self.requests.borrow().get(&(node.to_owned(), network)).copied().unwrap_or_default()
    }

    /// Starts the lab.
    pub fn up(&mut self) -> Outcome {
        let answer = self.expect(&["up", "lab.yaml", "--detach"], 0)?;
        let pid = answer
            .out
            .split("process ")
            .nth(1)
            .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
        self.pid = pid.unwrap_or(0);
        expect(self.pid > 1, "up", "the lab's process", answer.out)
    }

    /// Commands that reproduce the folder and environment.
    pub fn preface(&self) -> String {
        let Scenario { frame_path, .. } = self.scenario;
        format!(
            "# as root, in an empty folder with payload.xml (any 1,699 B){}\n\
             unshare -n -m sh\n\
             mkdir -p -m 700 /run/thingbed; mount -t tmpfs -o mode=700 none /run/thingbed\n\
             busybox ip link set lo up; busybox ip addr add 203.0.113.1/32 dev lo\n\
             mkdir www; echo from-outside > www/hello; busybox httpd -p 203.0.113.1:80 -h www\n\
             export THINGBED_FRAME_PATH={frame_path}\n\
             cat > lab.yaml <<'END'\n{}END\n",
            if self.scenario.image { " and image.tar (tests/generated)" } else { "" },
            self.scenario.file(),
        )
    }

    /// The last lines of the lab's log.
    pub fn log(&self) -> String {
        let runs = self.bed.path().join("runs").join(&self.scenario.name);
        let folders = std::fs::read_dir(runs).into_iter().flatten().flatten();
        let last = folders.map(|entry| entry.path()).max();
        let text = last.and_then(|folder| std::fs::read_to_string(folder.join("lab.log")).ok());
        let text = text.unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// Timeout of each command, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Result of a command whose output is piped; kills it after the timeout.
pub fn ended(child: Child) -> CommandOutput {
    let pid = child.id() as i32;
    let (to, from) = channel();
    std::thread::spawn(move || to.send(child.wait_with_output()));
    match from.recv_timeout(LIMIT) {
        Ok(output) => CommandOutput::of(output.unwrap()),
        Err(_) => {
            // SAFETY: a plain system call on a process that this test started.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            let err = format!("did not end within {} s and was killed", LIMIT.as_secs());
            CommandOutput { status: -1, out: String::new(), err }
        }
    }
}

/// A word, quoted for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=%./:,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
