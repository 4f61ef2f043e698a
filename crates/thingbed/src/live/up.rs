//! `thingbed up`: starts a live lab.

use super::nodes::LONGEST;
use super::table;
use crate::arguments::Up;
use crate::environment::{current_exe, frame_path, workload_program};
use crate::live::PageProcess;
use crate::signals::watch_signals;
use crate::{Status, printable, remark, say, show};
use experiment::{Experiment, Plan};
use runner::{Folder, sweep_folder};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Descriptor on which the process of a detached lab reports that the lab is up.
const TELL: i32 = 3;

/// Most nodes that `up` lists.
const LISTED: usize = 20;

/// Starts the lab and serves it until it ends, or detaches.
pub fn up(arguments: &Up) -> Result<Status, String> {
    let experiment = match show::read_or_complain(&arguments.settings, &arguments.file) {
        Ok(experiment) => experiment,
        Err(status) => return Ok(status),
    };
    let plan = plan(arguments, &experiment)?;
    // The process of a detached lab has no terminal to warn on.
    let threads = arguments.forwarding.warning(plan.networks.len(), show::cores());
    if let Some(why) = threads.filter(|_| arguments.tell.is_none()) {
        remark(format_args!("warning: {why}"));
    }
    // After the checks: errors of the file appear here, and not in a log.
    if arguments.detach {
        return detach(arguments);
    }
    if let Some(why) = crate::outside::warning(&plan) {
        remark(format_args!("warning: {why}"));
    }
    let interrupted = watch_signals()
        .map_err(|error| format!("could not install the handler for Ctrl-C: {error}"))?;
    // Before all else: the port may be taken.
    let page = arguments.page.as_ref().map(PageProcess::start).transpose()?;
    let folder =
        sweep_folder(&arguments.out, &experiment.name, plan.seed).map_err(|e| e.to_string())?;
    let copy = folder.join("experiment.yaml");
    fs::write(&copy, experiment.source())
        .map_err(|e| runner::Error::write(&copy)(e).to_string())?;
    let home = fs::canonicalize(&arguments.file).unwrap_or_default();
    let begun = Instant::now();
    let (nodes, seconds) = (plan.nodes.len(), || begun.elapsed().as_secs_f64());
    let mut ready = || {
        let (log, folder) = (folder.join("lab.log"), folder.display());
        let page = page.as_ref().map_or(String::new(), |page| format!("\npage: {}", page.url));
        let text = format!(
            "{}: {nodes} nodes up in {:.2} s, logs in {folder}{page}
{}",
            plan.experiment,
            seconds(),
            list(&plan)
        );
        match arguments.tell {
            Some(fd) => tell(fd, &text, &log),
            None => say(format_args!("{text}\nto stop it: Ctrl-C here, or `thingbed down`")),
        }
    };
    let done = runner::up(
        &plan,
        &Folder::take(folder.clone()),
        runner::Up {
            tool: &current_exe(),
            workload: &workload_program(),
            home: home.parent().unwrap_or(Path::new("/")),
            frame_path: frame_path()?,
            threads: arguments.forwarding.threads(),
            spin: arguments.forwarding.spin,
            interrupted: &interrupted,
            ready: &mut ready,
            remark: &mut |text| remark(text),
        },
    );
    done.map(|()| Status::Fine).map_err(|error| error.to_string())
}

/// The nodes with their addresses and programs.
fn list(plan: &Plan) -> String {
    let rows = plan.nodes.iter().take(LISTED).map(|node| {
        let addresses = node.links.iter().flat_map(|link| {
            let addresses: Vec<String> = match link.by_dhcp {
                true => vec!["by DHCP".to_owned()],
                false => link.addresses().map(|address| address.to_string()).collect(),
            };
            addresses
        });
        // A machine's program is that on its console, as in `thingbed ps`.
        let machine = plan.console(node).map(|console| console.argv.join(" "));
        let program = node.program.as_ref().map(|program| program.run.join(" "));
        let program = machine.or(program);
        let program = printable(&program.unwrap_or_default()).replace(['\n', '\t'], " ");
        let program = match program.char_indices().nth(LONGEST) {
            Some((at, _)) => format!("{}...", &program[..at]),
            None => program,
        };
        vec![node.name.clone(), addresses.collect::<Vec<_>>().join(" "), program]
    });
    let text = table(&["NODE", "ADDRESSES", "PROGRAM"], 9, rows.collect());
    match plan.nodes.len().saturating_sub(LISTED) {
        0 => text,
        more => format!("{text}\n and {more} more: `thingbed ps`"),
    }
}

fn plan(arguments: &Up, experiment: &Experiment) -> Result<Plan, String> {
    let cells = show::cells(experiment, &arguments.only).map_err(|error| error.to_string())?;
    let cell = cells.first().ok_or("--only matches no cell of the experiment")?;
    experiment.plan(cell, 0, experiment.seed).map_err(|error| error.to_string())
}

/// Starts this program again in a new session, and waits until its lab is up.
fn detach(arguments: &Up) -> Result<Status, String> {
    let failed = |error: std::io::Error| format!("could not start the lab's process: {error}");
    let (mut reports, tell) = std::io::pipe().map_err(failed)?;
    let mut command = Command::new(current_exe());
    command.arg("up").arg(&arguments.file).arg("--out").arg(&arguments.out);
    command.args(["--tell", &TELL.to_string()]);
    command.args(arguments.only.iter().flat_map(|only| ["--only", only]));
    command.args(arguments.settings.set.iter().flat_map(|set| ["--set", set]));
    command.args(arguments.page.iter().map(|place| format!("--page={place}")));
    command.args(["--threads", &arguments.forwarding.threads().to_string()]);
    command.args(arguments.forwarding.spin.then_some("--spin"));
    // Do not pass this terminal on: processes of the lab would keep it open.
    let (mut errors, error_pipe) = std::io::pipe().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(error_pipe);
    let fd = tell.as_raw_fd();
    // SAFETY: only system calls between fork and exec. If the number is right already, only its
    // close-on-exec flag has to go.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            let kept =
                // dup2 of a number to itself changes nothing, and would leave close-on-exec set.
                if fd == TELL { libc::fcntl(fd, libc::F_SETFD, 0) } else { libc::dup2(fd, TELL) };
            if kept < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        });
    }
    let mut lab = command.spawn().map_err(failed)?;
    // This process must not hold the writing ends, else reading never ends.
    drop((tell, command));
    let mut text = String::new();
    reports.read_to_string(&mut text).map_err(failed)?;
    // The lab's process ended before it was up; its error is in the other pipe.
    if text.is_empty() {
        let ended = lab.wait().map_err(failed)?;
        let mut why = String::new();
        errors.read_to_string(&mut why).map_err(failed)?;
        remark(why.trim_end());
        return Ok(if ended.code() == Some(2) { Status::Wrong } else { Status::Failed });
    }
    say(text.trim_end());
    say(format_args!(
        "the lab runs in the background as process {}; to stop it: `thingbed down`",
        lab.id()
    ));
    Ok(Status::Fine)
}

/// Reports that the lab is up, and redirects further output to the log.
fn tell(fd: i32, text: &str, log: &Path) {
    // First the log, then the report: `detach` returns on the report, and its pipe for errors is
    // gone then.
    if let Ok(log) = File::create(log) {
        for ours in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            // SAFETY: both descriptors are open; the log's other descriptor is closed after this.
            unsafe { libc::dup2(log.as_raw_fd(), ours) };
        }
    }
    // SAFETY: the descriptor was opened for this by the process that started this one.
    let mut pipe = unsafe { File::from_raw_fd(fd) };
    let _ = writeln!(pipe, "{text}");
}
