//! Thingbed's command line.

mod again;
mod analyze;
mod arguments;
mod capacity;
mod capsule;
mod cell_run;
mod compare;
mod completion;
mod demo;
mod device;
mod differences;
mod doctor;
mod environment;
mod gc;
mod import;
mod jobs;
mod layout;
mod live;
mod load;
mod lock;
mod manual;
mod map;
mod mistake;
mod outcome;
mod output;
mod outside;
mod profiles;
mod progress;
mod provenance;
mod remaining_time;
mod resume;
mod selection;
mod show;
mod signals;
mod slurm;
mod status;
mod sweep;
mod trace;
mod trust;
mod verify;
mod virtual_time;

pub(crate) use output::{complain, printable, remark, say, say_styled};
pub(crate) use status::Status;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use experiment::PlannedFaultKind as Fault;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Must come first: the fork server needs a process with one thread and no open descriptors.
    if std::env::args_os().nth(1).is_some_and(|first| first == lab::FORK_SERVER) {
        return lab::fork_server();
    }
    // As process 1 of a QEMU guest there is no command line to parse, and nothing is mounted yet.
    if std::env::args_os().nth(1).is_some_and(|first| first == guest::INIT) {
        return guest::init();
    }
    // After the fork server, which inherits its socket from the process that starts it.
    set_close_on_exec();
    signals::ignore_file_size();
    // Answers a shell that asks for completions, and ends.
    // Before parsing: an incomplete command line is an error for the parser.
    clap_complete::CompleteEnv::with_factory(Arguments::command).var(manual::COMPLETE).complete();
    let arguments = Arguments::try_parse()
        .unwrap_or_else(|error| mistake::explained(error, std::env::args_os()).exit());
    let status = match arguments.command {
        Command::Run(run) => sweep::run(&run),
        Command::Pack(arguments) => capsule::pack(&arguments),
        Command::Verify(arguments) => verify::verify(&arguments),
        Command::Map(arguments) => map::map(&arguments),
        Command::Capacity(arguments) => capacity::capacity(&arguments),
        Command::Check { files, settings } => show::check(&files, &settings),
        Command::Demo(arguments) => demo::demo(&arguments),
        Command::Import(arguments) => import::import(&arguments),
        Command::Plan(plan) => show::plan(&plan),
        Command::Report { folder, markdown: true, .. } => show::markdown(&folder),
        Command::Report { folder, html, junit, format, .. } => {
            show::report(&folder, html.as_deref(), junit.as_deref(), format)
        }
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Profiles { what, json } => profiles::profiles(what.as_ref(), json),
        Command::Analyze(arguments) => analyze::analyze(&arguments),
        Command::Load(arguments) => load::load(&arguments),
        Command::Device(arguments) => device::device(&arguments),
        Command::Trace(what) => trace::trace(&what),
        Command::Doctor { json } => doctor::doctor(json),
        Command::Up(arguments) => or_failed(live::up(&arguments)),
        Command::Down { lab } => or_failed(live::down(&lab)),
        Command::Labs(what) => or_failed(live::labs(&what)),
        Command::Ps(arguments) => or_failed(live::ps(&arguments)),
        Command::Pingall(arguments) => or_failed(live::pingall(&arguments)),
        Command::Top(arguments) => or_failed(live::top(&arguments)),
        Command::Page(arguments) => or_failed(live::page(&arguments)),
        // The status is the program's, so it can be any number.
        Command::Exec(arguments) => return exit_status(live::exec(&arguments)),
        Command::Shell(arguments) => return exit_status(live::shell(&arguments)),
        Command::Console(arguments) => or_failed(live::console(&arguments)),
        Command::Logs(arguments) => or_failed(live::logs(&arguments)),
        Command::Start(nodes) => or_failed(live::inject_fault(Fault::Start, &nodes)),
        Command::Stop(nodes) => or_failed(live::inject_fault(Fault::Stop, &nodes)),
        Command::Restart(nodes) => or_failed(live::inject_fault(Fault::Restart, &nodes)),
        Command::Kill(nodes) => or_failed(live::inject_fault(Fault::Kill, &nodes)),
        Command::Pause(nodes) => or_failed(live::inject_fault(Fault::Pause, &nodes)),
        Command::Resume(nodes) => or_failed(live::inject_fault(Fault::Resume, &nodes)),
        Command::Destroy(nodes) => or_failed(live::destroy(&nodes)),
        Command::Clone(arguments) => or_failed(live::clone(&arguments)),
        Command::Capture(arguments) => or_failed(live::capture(&arguments)),
        Command::Set(arguments) => or_failed(live::set(&arguments)),
        Command::Cp(arguments) => or_failed(live::cp(&arguments)),
        Command::Link(what) => or_failed(live::link(&what)),
        Command::Gc { images } => gc::gc(images),
        Command::Schema => show::schema(),
        Command::Completions { shell } => or_failed(manual::completions(shell)),
        Command::Manual { folder } => or_failed(manual::manual(&folder)),
        Command::Task { folder, run } => slurm::task(&folder, &run),
        Command::GuestCell { request } => virtual_time::cell(&request),
    };
    let status = match output::lost() {
        Some(error) => {
            complain(format_args!("could not write standard output: {error}"));
            status.max(Status::Failed)
        }
        None => status,
    };
    ExitCode::from(status as u8)
}

/// Sets close-on-exec on all inherited descriptors, so that no child process gets them: neither
/// nodes nor helpers such as slirp4netns, which would pass them on.
fn set_close_on_exec() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: a plain system call that only changes descriptor flags. Kernels before 5.11 reject
    // it; then the descriptors stay inheritable.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_uint,
        );
    }
}

/// The status of a finished command; prints its error.
fn or_failed(ended: Result<Status, String>) -> Status {
    ended.unwrap_or_else(|error| {
        complain(error);
        Status::Failed
    })
}

/// The exit status of a program in a node.
fn exit_status(ended: Result<u8, String>) -> ExitCode {
    match ended {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            complain(error);
            ExitCode::from(Status::Failed as u8)
        }
    }
}
