//! `thingbed-workload`: runs one program of an experiment, inside a node.

use std::path::Path;
use std::process::ExitCode;
use workloads::{Control, Error, Said, Spec, interaction, zmq_info};

const USAGE: &str = "usage: thingbed-workload interaction SPEC.json   run a source or a sink\n       \
                     thingbed-workload zmq-info                what the libzmq in use can do";

fn main() -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["interaction", spec] => run(Path::new(spec)),
        ["zmq-info"] => {
            println!("{}", zmq_info());
            ExitCode::SUCCESS
        }
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run(path: &Path) -> ExitCode {
    let mut control = match Control::from_environment() {
        Ok(control) => control,
        Err(error) => return failed(&error, None),
    };
    let result = Spec::read(path).and_then(|spec| interaction(&spec, &mut control));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error, Some(&mut control)),
    }
}

/// Tells both the person who reads the log and the tool that waits.
fn failed(error: &Error, control: Option<&mut Control>) -> ExitCode {
    let error = error.to_string();
    eprintln!("thingbed-workload: {error}");
    if let Some(control) = control {
        // Whoever closed the channel already knows that the end has come.
        let _ = control.say(&Said::Failed { error });
    }
    ExitCode::FAILURE
}
