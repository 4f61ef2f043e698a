//! Thingbed's command line.

mod arguments;
mod calibrate;
mod doctor;
mod gc;
mod link;
mod progress;
mod resume;
mod show;
mod signals;
mod surroundings;
mod sweep;
mod wanted;

use arguments::{Arguments, Command};
use clap::Parser;
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
    let status = match Arguments::parse().command {
        Command::Run(run) => sweep::run(&run),
        Command::Check { files } => show::check(&files),
        Command::Plan(plan) => show::plan(&plan),
        Command::Report { folder, markdown: true, .. } => show::markdown(&folder),
        Command::Report { folder, html, .. } => show::report(&folder, html.as_deref()),
        Command::Doctor { json } => doctor::doctor(json),
        Command::Calibrate { out, seconds } => calibrate::calibrate(&out, seconds),
        Command::Link(what) => link::link(&what),
        Command::Gc { images } => gc::gc(images),
        Command::Schema => show::schema(),
    };
    ExitCode::from(status as u8)
}

/// Prints a result. A reader that has gone, as `head` does, is no error.
pub(crate) fn say(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Tells the user, beside the results.
pub(crate) fn remark(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Says what went wrong, the way all commands do.
pub(crate) fn complain(error: impl std::fmt::Display) {
    remark(format_args!("error: {error}"));
}
