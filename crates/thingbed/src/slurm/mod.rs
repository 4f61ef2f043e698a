//! Sweeps on a Slurm cluster: an array job with one task per run. Results are read from the runs'
//! folders, as for `--resume`; Slurm only tells whether a task is still pending or running.

mod files;
mod queue;
mod task;

pub use task::task;

use crate::layout::SLURM;
use crate::remark;
use crate::resume;
use crate::sweep::{Sweep, name};
use crate::virtual_time;
use experiment::Cell;
use indicatif::{ProgressBar, ProgressStyle};
use queue::{Jobs, State};
use runner::{Error, Finished};
use std::collections::BTreeMap;
use std::fs;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Polling interval of runs and tasks.
const PERIOD: Duration = Duration::from_millis(500);
/// Time limit for a folder to appear here after its task ended on another node (shared file
/// systems cache).
const GRACE: Duration = Duration::from_secs(15);
/// Number of last lines of a task's output that an error shows.
const WORDS: usize = 5;

/// The result of a run and its duration.
pub(crate) type Ended = (Result<Finished, Error>, Duration);

impl Sweep<'_> {
    /// Executes the runs `todo` (indices into `runs`) on the cluster and passes each result to
    /// `ended` when it arrives. Cancels the rest after a break or a user's interrupt.
    pub(crate) fn on_slurm(
        &self,
        runs: &[(u32, &Cell)],
        todo: &[usize],
        mut ended: impl FnMut(usize, Ended) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        if todo.is_empty() {
            return Ok(());
        }
        let folder = self.folder.join(SLURM);
        fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
        // Tasks run in other folders on other machines, so the script needs absolute paths.
        let folder = fs::canonicalize(&folder).map_err(Error::write(&folder))?;
        let names: Vec<String> = todo.iter().map(|n| name(runs[*n].1, runs[*n].0)).collect();
        let jobs = Jobs::submit(&folder, &names, self.arguments.jobs).map_err(cluster)?;
        if !self.arguments.quiet {
            remark(format_args!(
                "{} runs as Slurm's {}; their output is in {}",
                names.len(),
                jobs,
                folder.display()
            ));
        }
        let bar = (!self.arguments.quiet && std::io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{spinner} {bar:24}  {pos} of {len}  {msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(names.len() as u64).with_style(style)
        });
        let mut open: BTreeMap<usize, Option<Instant>> =
            (0..todo.len()).map(|n| (n, None)).collect();
        let mut outcome = ControlFlow::Continue(());
        while !open.is_empty() && outcome.is_continue() && !self.interrupted.load(Relaxed) {
            std::thread::sleep(PERIOD);
            // Before the files: a task that ends between the two has its files, and is not taken
            // for failed.
            let states = jobs.states().map_err(cluster)?;
            if let Some(bar) = &bar {
                bar.set_message(text(&states));
                bar.tick();
            }
            for at in open.keys().copied().collect::<Vec<_>>() {
                let run = self.folder.join(&names[at]);
                let over = match states.get(&at) {
                    Some(State::Pending | State::Running(_)) => false,
                    // The network file system may not show its folder yet.
                    None | Some(State::Ended) => {
                        let since = open
                            .get_mut(&at)
                            // The grace time begins when the task is first seen as ended.
                            .and_then(|since| since.replace(since.unwrap_or_else(Instant::now)));
                        since.is_some_and(|since| since.elapsed() > GRACE)
                    }
                };
                let took = files::took(&folder, &names[at]);
                let result = match took {
                    // A task writes this file last.
                    // Both: the file of an earlier submission may exist while the run is repeated.
                    Some(took) if resume::had(&run).is_some() => {
                        (virtual_time::finished(&run), took)
                    }
                    _ if over => (Err(failed(&folder, at)), Duration::ZERO),
                    _ => continue,
                };
                open.remove(&at);
                if !self.arguments.quiet {
                    let word = result.0.as_ref().map_or("failed".to_owned(), crate::sweep::word);
                    let line = format!("[{}/{}] {}  {word}", todo[at] + 1, runs.len(), names[at]);
                    match &bar {
                        Some(bar) => bar.suspend(|| remark(line)),
                        None => remark(line),
                    }
                }
                if let Some(bar) = &bar {
                    bar.inc(1);
                }
                outcome = ended(todo[at], result);
                if outcome.is_break() {
                    break;
                }
            }
        }
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        match open.is_empty() {
            true => jobs.done(),
            // After a break or an interrupt, tasks that nothing waits for would hold the cluster.
            false => jobs.cancel(),
        }
        Ok(())
    }
}

/// Summary of tasks by state, for the progress line.
fn text(states: &BTreeMap<usize, State>) -> String {
    let mut nodes: Vec<&str> = states
        .values()
        .filter_map(|state| match state {
            State::Running(node) => Some(node.as_str()),
            _ => None,
        })
        .collect();
    let running = nodes.len();
    nodes.sort_unstable();
    nodes.dedup();
    let waiting = states.values().filter(|state| **state == State::Pending).count();
    format!("{running} running on {} nodes, {waiting} waiting", nodes.len())
}

/// The message for a task without results.
fn failed(folder: &Path, at: usize) -> Error {
    let log = log(folder, at);
    let words = fs::read_to_string(&log).unwrap_or_default();
    let lines: Vec<&str> = words.lines().collect();
    let last = lines[lines.len().saturating_sub(WORDS)..].join("\n  ");
    let text = match last.is_empty() {
        true => format!(
            "a task of Slurm ended without results and without output\n  was it cancelled? \
             If not, check that each node has {} and {} at these paths",
            folder.display(),
            crate::environment::current_exe().display()
        ),
        false => format!("a task of Slurm failed; {} ends with\n  {last}", log.display()),
    };
    Error::Guest { text, ends_sweep: false }
}

fn cluster(text: String) -> Error {
    Error::Guest { text, ends_sweep: true }
}

/// The log file of a task.
fn log(folder: &Path, at: usize) -> PathBuf {
    folder.join(format!("{at}.log"))
}
