//! Thingbed's command line.

mod again;
mod analyze;
mod arguments;
mod calibrate;
mod capacity;
mod capsule;
mod cell_run;
mod device;
mod doctor;
mod gc;
mod jobs;
mod live;
mod load;
mod map;
mod origin;
mod outcome;
mod outlook;
mod profiles;
mod progress;
mod resume;
mod show;
mod signals;
mod slurm;
mod surroundings;
mod sweep;
mod trace;
mod trust;
mod verify;
mod virtual_time;
mod wanted;

use arguments::{Arguments, Command};
use clap::Parser;
use experiment::PlannedFaultKind as Fault;
use std::io::Write;
use std::process::ExitCode;

/// How a command ended, as its exit status says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    /// All is well.
    Fine = 0,
    /// Something stood in the way.
    Failed = 1,
    /// The command line or the experiment file is wrong.
    Wrong = 2,
    /// A run was had, and its verdict is invalid.
    Invalid = 3,
    /// All runs were had, and something that was expected did not hold.
    Unexpected = 4,
    /// The user ended it.
    Interrupted = 130,
}

fn main() -> ExitCode {
    // Before anything else: a nursery must have one thread and nothing open.
    if std::env::args_os().nth(1).is_some_and(|first| first == lab::NURSERY) {
        return lab::nursery();
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == guest::INIT) {
        return guest::init();
    }
    keep_to_ourselves();
    let status = match Arguments::parse().command {
        Command::Run(run) => sweep::run(&run),
        Command::Pack(wanted) => capsule::pack(&wanted),
        Command::Verify(wanted) => verify::verify(&wanted),
        Command::Map(wanted) => map::map(&wanted),
        Command::Capacity(wanted) => capacity::capacity(&wanted),
        Command::Check { files } => show::check(&files),
        Command::Plan(plan) => show::plan(&plan),
        Command::Report { folder, markdown: true, .. } => show::markdown(&folder),
        Command::Report { folder, html, .. } => show::report(&folder, html.as_deref()),
        Command::Compare { folders, by, figure } => show::compare(&folders, &by, figure),
        Command::Profiles { what, json } => profiles::profiles(what.as_ref(), json),
        Command::Analyze(wanted) => analyze::analyze(&wanted),
        Command::Load(wanted) => load::load(&wanted),
        Command::Device(wanted) => device::device(&wanted),
        Command::Trace(what) => trace::trace(&what),
        Command::Doctor { json } => doctor::doctor(json),
        Command::Calibrate { out, seconds } => calibrate::calibrate(&out, seconds),
        Command::Up(wanted) => told(live::up(&wanted)),
        Command::Down { lab } => told(live::down(&lab)),
        Command::Labs => told(live::labs()),
        Command::Ps(wanted) => told(live::ps(&wanted)),
        Command::Top(wanted) => told(live::top(&wanted)),
        Command::Exec(wanted) => return code(live::exec(&wanted)),
        Command::Shell(wanted) => return code(live::shell(&wanted)),
        Command::Logs(wanted) => told(live::logs(&wanted)),
        Command::Start(nodes) => told(live::befall(Fault::Start, &nodes)),
        Command::Stop(nodes) => told(live::befall(Fault::Stop, &nodes)),
        Command::Restart(nodes) => told(live::befall(Fault::Restart, &nodes)),
        Command::Kill(nodes) => told(live::befall(Fault::Kill, &nodes)),
        Command::Pause(nodes) => told(live::befall(Fault::Pause, &nodes)),
        Command::Resume(nodes) => told(live::befall(Fault::Resume, &nodes)),
        Command::Destroy(nodes) => told(live::destroy(&nodes)),
        Command::Clone(wanted) => told(live::clone(&wanted)),
        Command::Capture(wanted) => told(live::capture(&wanted)),
        Command::Set(wanted) => told(live::set(&wanted)),
        Command::Cp(wanted) => told(live::cp(&wanted)),
        Command::Link(what) => told(live::link(&what)),
        Command::Gc { images } => gc::gc(images),
        Command::Schema => show::schema(),
        Command::Task { folder, run } => slurm::task(&folder, &run),
        Command::GuestCell { request } => virtual_time::cell(&request),
    };
    ExitCode::from(status as u8)
}

/// Lets no program that is started from here have descriptors that this one was given:
/// not nodes, and not helpers such as slirp4netns, which hand them on in turn.
fn keep_to_ourselves() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: a plain system call that changes flags of descriptors alone; kernels before
    // 5.11 refuse it, and then all is as it was.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_uint,
        );
    }
}

/// What a command came to, its error said.
fn told(ended: Result<Status, String>) -> Status {
    ended.unwrap_or_else(|error| {
        complain(error);
        Status::Failed
    })
}

/// The exit status of a program in a node.
fn code(ended: Result<u8, String>) -> ExitCode {
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            complain(error);
            ExitCode::from(Status::Failed as u8)
        }
    }
}

/// Prints a result. A reader that has gone, as `head` does, is no error.
pub(crate) fn say(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Tells the user, beside the results.
pub(crate) fn remark(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{}", printable(&text.to_string()));
}

/// Without what a terminal would act on: texts may come from a guest, a capsule or a program.
pub(crate) fn printable(text: &str) -> String {
    let keep = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().map(|c| if keep(c) { c } else { ' ' }).collect()
}

/// Says what went wrong, the way all commands do. What is wrong with an experiment
/// file says so itself.
pub(crate) fn complain(error: impl std::fmt::Display) {
    let text = error.to_string();
    remark(format_args!("error: {}", text.strip_prefix("error: ").unwrap_or(&text)));
}
