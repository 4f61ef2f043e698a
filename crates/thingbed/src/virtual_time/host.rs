//! The host's side: starts a guest for one run, shows its messages and reads its results.

use super::files::files;
use super::refusal::refusal;
use super::session::Session;
use super::stall::{StallDetector, abandoned, give_up};
use super::wire::{INTERRUPT, Message, Request};
use crate::progress::Screen;
use experiment::{Cpu, Plan};
use guest::{Engine, Event, Guest, Machine, Mount};
use runner::{Error, Finished, Phase, ProgressSink};
use serde::de::DeserializeOwned;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The run's folder in the guest; independent of its path on the host.
pub(crate) const FOLDER: &str = "/run/results";
/// The guest's clock starts at 2026-01-01 00:00 UTC (s since 1970), so that a run has the same
/// times on each day.
const START_S: u64 = 1_767_225_600;
/// The variables that a guest inherits from the caller: those that locate programs and libraries.
const ENVIRONMENT: [&str; 9] = [
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "NODE_PATH",
    "THINGBED_FRAME_PATH",
];
/// Folders in which a guest does not see the host's files.
const HIDDEN: [&str; 4] = ["/run", "/dev", "/proc", "/sys"];
/// The memory of a guest without programs, and the addition for each program, in bytes.
// Estimates: the guest touches only what it uses, so too much costs nothing; too little is reported
// as `OutOfMemory`.
const BASE_BYTES: u64 = 1 << 30;
const PROGRAM_BYTES: u64 = 8 << 20;
/// Maximum memory of a guest in bytes. The sum of the nodes' limits may exceed any host, but
/// programs use less than their limits.
const MOST_BYTES: u64 = 16 << 30;
/// Maximum length of the request in bytes: it is an argument of a program (execve(2): 128 KiB).
// MAX_ARG_STRLEN is 131,072 B; the rest is for the kernel's own parameters.
const MOST_ARGUMENT: usize = 120_000;
/// Polling interval of the user's interrupt.
const TICK: Duration = Duration::from_millis(200);

/// The mount of a guest's results folder.
///
/// # Errors
/// When there is no such folder.
pub(crate) fn results(folder: &Path) -> Result<Vec<Mount>, Error> {
    let host = fs::canonicalize(folder).map_err(Error::write(folder))?;
    Ok(vec![Mount { host, guest: PathBuf::from(FOLDER) }])
}

/// Serves a guest until its run ends; then the results are in `folder`. `nodes` are the nodes in
/// which the user can open shells while the run is paused; none without `--stop-at`.
///
/// # Errors
/// When the guest died, or the run failed.
pub(crate) fn in_guest(
    mut guest: Guest,
    nodes: Option<Vec<String>>,
    home: &Path,
    folder: &Path,
    interrupted: &AtomicBool,
    screen: &mut Screen,
) -> Result<Finished, Error> {
    let outcome = serve(&mut guest, nodes, interrupted, screen);
    // Also after an error: a missing file is its likely cause.
    let missing = guest.missing(home);
    if !missing.is_empty() {
        screen.suspend(|| crate::remark(missing_files_warning(&missing)));
    }
    let interrupted = outcome.map_err(|error| with_host_paths(error, folder))?;
    Ok(Finished { interrupted, ..finished(folder)? })
}

/// Reads the results of a run from `folder`.
///
/// # Errors
/// When there are none, or when another version wrote them.
pub(crate) fn finished(folder: &Path) -> Result<Finished, Error> {
    let run = report::run_facts(folder).map_err(|error| unread(&error))?;
    let summary = read(&folder.join("summary.json"))?;
    Ok(Finished { folder: folder.to_owned(), summary, verdict: run.verdict, interrupted: false })
}

/// Refuses a plan that cannot run in virtual time, or on this machine.
///
/// # Errors
/// The reason and the fix.
pub(crate) fn check(plan: &Plan, cpu: Cpu, tool: &Path) -> Result<(), Error> {
    if let Some(text) = refusal(plan, cpu) {
        return Err(Error::Clock(text));
    }
    engine(cpu, tool).map(drop)
}

fn engine(cpu: Cpu, tool: &Path) -> Result<Engine, Error> {
    match cpu {
        Cpu::Infinite => {
            let kernel = guest::find_kernel(tool).map_err(failed)?;
            Ok(Engine::UserModeLinux { kernel })
        }
        Cpu::Mips(mips) => {
            let kernel = guest::find_qemu_kernel(tool).map_err(failed)?;
            Ok(Engine::Qemu { kernel, mips })
        }
    }
}

/// The guest for `request`, a run of `plan`; its results go to `writable`.
///
/// # Errors
/// When there is no kernel for it.
pub(crate) fn machine(
    plan: &Plan,
    request: Request,
    writable: Vec<Mount>,
) -> Result<Machine, Error> {
    // Otherwise the guest would start and not find its experiment.
    if let Some(hidden) = HIDDEN.iter().find(|hidden| request.home.starts_with(hidden)) {
        return Err(Error::Clock(format!(
            "the experiment is in {}, and a guest has its own {hidden}\n  move the experiment \
             to another folder, e.g. below your home",
            request.home.display()
        )));
    }
    let request = &Request { folder: PathBuf::from(FOLDER), ..request };
    let tool = crate::environment::current_exe();
    let json = serde_json::to_string(request).map_err(|error| unread(&error))?;
    if json.len() > MOST_ARGUMENT {
        return Err(Error::Clock(format!(
            "the experiment has {} kB, and --set and environment variables change files of up to \
             {} kB in virtual time\n  change the file instead, or use --clock real",
            json.len() / 1000,
            MOST_ARGUMENT / 1000
        )));
    }
    let given = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    Ok(Machine {
        engine: engine(request.cpu, &tool)?,
        files: if request.cpu.is_infinite() { Vec::new() } else { files(plan, request) },
        tool,
        arguments: vec!["guest-cell".to_owned(), json],
        environment: ENVIRONMENT.iter().filter_map(|name| given(name)).collect(),
        directory: request.home.clone(),
        writable,
        memory_bytes: memory(plan),
        // Each repeat has other random numbers in programs, as it has in links.
        seed: plan.seed.wrapping_mul(1_000_003).wrapping_add(plan.repeat.into()),
        cache: cache(),
        start_s: START_S,
    })
}

/// The memory of the guest of `plan` in bytes: a base, a part for each program, and the sum of
/// the nodes' limits.
fn memory(plan: &Plan) -> u64 {
    let programs = (plan.nodes.len() + plan.workloads.len()) as u64;
    let limits = plan.nodes.iter().filter_map(|node| node.limits.memory);
    let allowed = limits.fold(0_u64, |sum, limit| sum.saturating_add(limit.get()));
    (BASE_BYTES + PROGRAM_BYTES * programs).saturating_add(allowed).min(MOST_BYTES)
}

/// The folder for snapshots of booted guests.
pub(crate) fn cache() -> PathBuf {
    image::Cache::of_user().path().with_file_name("guests")
}

/// Handles the guest's messages until it ends; returns whether the user interrupted the run.
fn serve(
    guest: &mut Guest,
    nodes: Option<Vec<String>>,
    interrupted: &AtomicBool,
    screen: &mut Screen,
) -> Result<bool, Error> {
    let (mut finished, mut interrupt_sent, mut reads_input) = (None, false, false);
    let mut session = nodes.map(|nodes| Session::new(nodes, interrupted));
    let (mut stall, mut phase) = (StallDetector::new(), Phase::Up);
    loop {
        if interrupted.load(Relaxed) && !interrupt_sent {
            // A guest that still boots would lose the line, and has no results yet.
            if !reads_input {
                return Err(Error::Interrupted);
            }
            interrupt_sent = true;
            // A clock that stood still before it may move on now.
            stall = StallDetector::new();
            // `next` below detects a guest that has ended.
            if guest.send(INTERRUPT).is_err_and(|why| why.kind() == ErrorKind::Unsupported) {
                // A guest that receives no input (QEMU) ends with its process.
                return Err(abandoned(phase, || {
                    "a guest with a CPU of finite speed (--cpu N) cannot be stopped early"
                        .to_owned()
                }));
            }
        }
        match guest.next(TICK).map_err(failed)? {
            Event::Silence => {
                let still = stall.still(guest);
                if let Some((time, program)) = &still {
                    screen.paused(*time, program, interrupt_sent);
                }
                // The guest receives the interrupt only when the program waits, which may never
                // happen here.
                let given_up = still
                    .and_then(|(time, program)| give_up(phase, interrupt_sent, time, &program));
                given_up.map_or(Ok(()), Err)?;
            }
            Event::Line(line) => {
                // The guest's command reads its input before it writes the first line.
                reads_input = true;
                match serde_json::from_str(&line) {
                    Ok(Message::Progress(progress)) => {
                        phase = progress.phase;
                        screen.progress(&progress);
                    }
                    Ok(Message::Held(event)) => {
                        // Without `--stop-at` a guest has no access to the terminal.
                        let Some(session) = &mut session else { continue };
                        screen.use_log_lines();
                        if let Some(command) = session.handle(event) {
                            // The next iteration detects a guest that has ended.
                            let _ =
                                guest.answer(&serde_json::to_string(&command).unwrap_or_default());
                        }
                    }
                    Ok(Message::Finished { interrupted }) => finished = Some(interrupted),
                    Ok(Message::Failed { interrupted: true, .. }) => {
                        return Err(Error::Interrupted);
                    }
                    Ok(Message::Failed { text, ends_sweep, .. }) => {
                        return Err(Error::Guest { text, ends_sweep });
                    }
                    // A program wrote to a descriptor of Thingbed.
                    Err(_) => {}
                }
                // Any message is a sign that the clock moves.
                stall = StallDetector::new();
            }
            Event::Ended(status) => {
                return finished.ok_or_else(|| Error::Guest {
                    text: format!("the run in the guest ended without results: status {status}"),
                    ends_sweep: false,
                });
            }
        }
    }
}

/// The warning about files that programs looked for and that the guest lacks.
fn missing_files_warning(missing: &[PathBuf]) -> String {
    const SHOWN: usize = 5;
    let first: Vec<String> =
        missing.iter().take(SHOWN).map(|path| path.display().to_string()).collect();
    let more = match missing.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "warning: programs looked for files of this machine that the guest lacks: {0}{more}\n  \
         name them in the experiment: files: [{0}]",
        first.join(", "),
    )
}

/// Replaces the guest's paths in an error by the host's.
fn with_host_paths(error: Error, folder: &Path) -> Error {
    match error {
        Error::Guest { text, ends_sweep } => {
            let text = text.replace(FOLDER, &folder.display().to_string());
            Error::Guest { text, ends_sweep }
        }
        other => other,
    }
}

/// Converts a guest's error into an error of the run.
pub(crate) fn failed(error: guest::Error) -> Error {
    // A guest that died may be one cell's fault; a missing kernel is the same for all.
    let ends_sweep = !matches!(error, guest::Error::Died { .. } | guest::Error::OutOfMemory);
    Error::Guest { text: error.to_string(), ends_sweep }
}

fn unread(error: &dyn std::fmt::Display) -> Error {
    let text = format!("could not read what the guest wrote: {error}");
    Error::Guest { text, ends_sweep: false }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = fs::read_to_string(path).map_err(|error| {
        let text = format!("could not read {}: {error}", path.display());
        Error::Guest { text, ends_sweep: false }
    })?;
    serde_json::from_str(&text).map_err(|error| unread(&error))
}
