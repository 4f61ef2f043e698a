//! Slurm's commands: `sbatch`, `squeue`, `scancel`.

use crate::environment::current_exe;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Maximum number of tasks per array: below Slurm's default limit (`MaxArraySize` 1001).
const MOST: usize = 1000;
/// Name prefix of the file with the names of all runs, one per line. Each submission has a new
/// file: tasks of an earlier submission may still be queued.
const NAMES: &str = "runs";
/// Timeout of a Slurm command.
const LIMIT: Duration = Duration::from_secs(60);
/// Timeout for tasks to end after cancellation.
const END: Duration = Duration::from_secs(60);

/// The state of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Queued; also requeued after its node failed.
    Pending,
    /// Runs on this node.
    Running(String),
    /// Ended or ending.
    Ended,
}

/// The submitted job arrays. Drop cancels those that have not ended.
#[derive(Debug)]
pub(super) struct Jobs {
    /// The job ID of each array.
    ids: Vec<String>,
    over: std::cell::Cell<bool>,
}

impl fmt::Display for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.ids.len() == 1 { "job" } else { "jobs" };
        write!(f, "{word} {}", self.ids.join(", "))
    }
}

impl Jobs {
    /// Submits a task for each of `names`; at most `jobs` run at once.
    ///
    /// # Errors
    /// Slurm's error message, with advice.
    pub fn submit(folder: &Path, names: &[String], jobs: Option<u32>) -> Result<Self, String> {
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|e| format!("could not write {}: {e}", path.display()))
        };
        let list = (0..).map(|n| format!("{NAMES}-{n}")).find(|name| !folder.join(name).exists());
        let list = list.unwrap_or_default();
        write(&list, names.join("\n") + "\n")?;
        let mut submitted = Self { ids: Vec::new(), over: std::cell::Cell::new(false) };
        for (number, chunk) in names.chunks(MOST).enumerate() {
            // Tasks of all arrays have one numbering, that of the file of names.
            let first = number * MOST;
            let script = format!("task-{number}.sh");
            write(&script, text(folder, &list, first))?;
            let limit = jobs.map_or(String::new(), |jobs| format!("%{jobs}"));
            let mut command = Command::new("sbatch");
            command
                // `--requeue`: a task whose node fails starts again, which is harmless, because it
                // checks first what is finished.
                .args(["--parsable", "--requeue", "--open-mode=append", "--job-name=thingbed"])
                // The script redirects its output to a file with the run's number.
                .args(["--output=/dev/null", "--cpus-per-task=1"])
                .arg(format!("--array=0-{}{limit}", chunk.len() - 1))
                .arg(folder.join(&script));
            let answer = ask(&mut command)?;
            // `NUMBER;CLUSTER` where there are several clusters.
            submitted.ids.push(answer.trim().split(';').next().unwrap_or_default().to_owned());
        }
        Ok(submitted)
    }

    /// The states of the tasks that Slurm still knows, by run number.
    pub fn states(&self) -> Result<BTreeMap<usize, State>, String> {
        let mut command = Command::new("squeue");
        // Job, index, state, node; `all` also shows those that have just ended.
        command.args(["-h", "-r", "-o", "%F|%K|%T|%N", "-t", "all", "-j", &self.ids.join(",")]);
        let answer = match ask(&mut command) {
            Ok(answer) => answer,
            // Slurm removes jobs some minutes after their end.
            Err(text) if text.contains("Invalid job id") => String::new(),
            // The controller may be restarting; tasks run without it.
            Err(_) => return Ok(self.unknown()),
        };
        Ok(answer.lines().filter_map(|line| self.task(line)).collect())
    }

    /// All tasks as queued.
    fn unknown(&self) -> BTreeMap<usize, State> {
        // Not as ended: runs would be reported as failed while they execute.
        (0..self.ids.len() * MOST).map(|at| (at, State::Pending)).collect()
    }

    fn task(&self, line: &str) -> Option<(usize, State)> {
        let mut parts = line.trim().split('|');
        let (id, at) = (parts.next()?, parts.next()?);
        let array = self.ids.iter().position(|known| known == id)?;
        let at: usize = at.parse().ok()?;
        let state = match parts.next()? {
            "RUNNING" | "COMPLETING" | "CONFIGURING" | "SUSPENDED" | "STOPPED" | "SIGNALING"
            | "STAGE_OUT" => State::Running(parts.next().unwrap_or_default().to_owned()),
            // Slurm requeues a task whose node failed.
            "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "RESIZING" | "NODE_FAIL" => {
                State::Pending
            }
            _ => State::Ended,
        };
        Some((array * MOST + at, state))
    }

    /// Marks all tasks as ended, so that drop cancels none.
    pub fn done(&self) {
        self.over.set(true);
    }

    /// Cancels all tasks and waits until they have ended.
    pub fn cancel(&self) {
        self.over.set(true);
        let _ = ask(Command::new("scancel").arg("--quiet").args(&self.ids));
        // A cancelled task still removes its guest; its files must not change after this process
        // has ended.
        let until = Instant::now() + END;
        let lives = |state: &State| matches!(state, State::Pending | State::Running(_));
        while Instant::now() < until && self.states().is_ok_and(|states| states.values().any(lives))
        {
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        if !self.over.get() {
            self.cancel();
        }
    }
}

/// The batch script of an array whose first task has the run number `first`.
fn text(folder: &Path, list: &str, first: usize) -> String {
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
    let sweep = folder.parent().unwrap_or(folder);
    format!(
        "#!/bin/sh\n\
         # A task of Slurm: one run of the sweep.\n\
         number=$(({first} + SLURM_ARRAY_TASK_ID))\n\
         cd {folder} || exit\n\
         exec >>\"$number.log\" 2>&1\n\
         # The task ends with its program, and its signals are the program's.\n\
         exec {tool} task {sweep} \"$(sed -n \"$((number + 1))p\" {list})\"\n",
        folder = quoted(folder),
        tool = quoted(&current_exe()),
        sweep = quoted(sweep),
    )
}

/// Runs a Slurm command and returns its output.
fn ask(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = within(LIMIT, command.stdin(Stdio::null())).map_err(|error| {
        format!(
            "could not run {name}: {error}\n  --on slurm needs Slurm's commands on this machine\n  \
             apt install slurm-client, or leave out --on slurm to run here"
        )
    })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{name} failed: {}\n  check that `sinfo` shows the cluster's nodes",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// Runs a command and returns its output; kills it after `limit`. Slurm's commands wait as long
/// as the controller is down.
fn within(limit: Duration, command: &mut Command) -> std::io::Result<Output> {
    // Output is read to its end before `wait`: a child with a full pipe would never end.
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (pid, ended) = (Pid::from_raw(child.id() as i32), Arc::new(AtomicBool::new(false)));
    let until = Instant::now() + limit;
    let seen = ended.clone();
    let guard = std::thread::spawn(move || {
        while !seen.load(Relaxed) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        if !seen.load(Relaxed) {
            let _ = kill(pid, Signal::SIGKILL);
        }
    });
    let read = |pipe: &mut dyn Read| {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).map(|_| bytes)
    };
    // Their output fits into a pipe, except for long lists of tasks, which come first.
    let stdout = child.stdout.take().map_or(Ok(Vec::new()), |mut pipe| read(&mut pipe));
    let stderr = child.stderr.take().map_or(Ok(Vec::new()), |mut pipe| read(&mut pipe));
    // Kill before `wait`: until then the process ID cannot be reused.
    ended.store(true, Relaxed);
    let _ = guard.join();
    Ok(Output { status: child.wait()?, stdout: stdout?, stderr: stderr? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_their_runs_numbers_and_one_whose_node_died_comes_again() {
        let jobs = Jobs { ids: vec!["7".into(), "9".into()], over: true.into() };
        let states = ["7|0|RUNNING|n1", "9|3|PENDING|", "7|2|NODE_FAIL|n0", "7|4|COMPLETED|n0"];
        let states: Vec<_> = states.iter().filter_map(|line| jobs.task(line)).collect();
        assert_eq!(
            states,
            [
                (0, State::Running("n1".into())),
                (1003, State::Pending),
                (2, State::Pending),
                (4, State::Ended)
            ]
        );
        assert_eq!(jobs.task("8|0|RUNNING|n1"), None);
    }

    #[test]
    fn paths_are_quoted_in_scripts() {
        let text = text(Path::new("/a b/it's/slurm"), "runs-0", 1000);
        assert!(text.contains("cd '/a b/it'\\''s/slurm' || exit"), "{text}");
        assert!(text.contains("1000 + SLURM_ARRAY_TASK_ID"), "{text}");
    }
}
