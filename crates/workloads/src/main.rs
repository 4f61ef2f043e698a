//! `thingbed-workload`: runs one program of an experiment, inside a node.

use record::control::Status;
use record::spec::{
    CollectorSpec, ConsoleSpec, DeviceSpec, DhcpSpec, ExchangeSpec, GatewaySpec, InteractionSpec,
    LoadSpec, MqttSpec, ProbeSpec, Spec,
};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use workloads::{
    Control, Error, collect, console, device, dhcp, exchange, gateway, interaction, load, mqtt,
    probe, read, zmq_info,
};

const USAGE: &str = "usage: \
thingbed-workload interaction SPEC.json            run a source or a sink
       thingbed-workload mqtt SPEC.json            run an MQTT client
       thingbed-workload exchange SPEC.json        run one side of an exchange workload
       thingbed-workload load SPEC.json            send requests on a schedule
       thingbed-workload device SPEC.json          answer requests after configured service times
       thingbed-workload probe SPEC.json           measure CPU contention
       thingbed-workload collect SPEC.json         collect metrics of a node's programs
       thingbed-workload console SPEC.json         run a machine on a terminal
       thingbed-workload gateway SPEC.json         run a gateway of MQTT clients
       thingbed-workload dhcp SPEC.json            get an IPv6 address by DHCP
       thingbed-workload zmq-info                  show the version and features of libzmq";

fn main() -> ExitCode {
    // A write beyond the limit of file sizes is an error with a text, and ends no program without one.
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [InteractionSpec::PROGRAM, spec] => run(spec, interaction),
        [MqttSpec::PROGRAM, spec] => run(spec, mqtt),
        [ExchangeSpec::PROGRAM, spec] => run(spec, exchange),
        [LoadSpec::PROGRAM, spec] => run(spec, load),
        [DeviceSpec::PROGRAM, spec] => run(spec, device),
        [ProbeSpec::PROGRAM, spec] => run(spec, probe),
        [CollectorSpec::PROGRAM, spec] => run(spec, collect),
        [ConsoleSpec::PROGRAM, spec] => run_console(spec),
        [DhcpSpec::PROGRAM, spec] => run_alone(spec, dhcp),
        [GatewaySpec::PROGRAM, spec] => run_alone(spec, gateway),
        ["zmq-info"] => {
            print(zmq_info());
            ExitCode::SUCCESS
        }
        ["--help" | "-h" | "help"] => {
            print(USAGE);
            ExitCode::SUCCESS
        }
        _ => usage(),
    }
}

/// Prints a result. `println!` would panic if the pipe is closed, as by `head`.
fn print(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn usage() -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{USAGE}");
    ExitCode::from(2)
}

/// Runs a program with the spec in a file.
fn run<S: Spec>(
    spec: &str,
    program: impl FnOnce(&S, &mut Control) -> Result<(), Error>,
) -> ExitCode {
    let mut control = match Control::from_environment() {
        Ok(control) => control,
        // There is no channel to report on.
        Err(error) => return report_failure(&error, None),
    };
    match read(Path::new(spec)).and_then(|spec| program(&spec, &mut control)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_failure(&error, Some(&mut control)),
    }
}

/// Runs a machine; its exit status is this program's.
fn run_console(spec: &str) -> ExitCode {
    match read(Path::new(spec)).and_then(|spec: ConsoleSpec| console(&spec)) {
        Ok(status) => ExitCode::from(status),
        Err(error) => report_failure(&error, None),
    }
}

/// Runs a program without a control channel.
fn run_alone<S: Spec>(spec: &str, program: impl FnOnce(&S) -> Result<(), Error>) -> ExitCode {
    match read(Path::new(spec)).and_then(|spec| program(&spec)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_failure(&error, None),
    }
}

/// Reports an error to the log and to the parent process.
fn report_failure(error: &Error, control: Option<&mut Control>) -> ExitCode {
    let error = error.to_string();
    workloads::log!("{error}");
    if let Some(control) = control {
        // A closed channel needs no message.
        let _ = control.send_status(&Status::Failed { error });
    }
    ExitCode::FAILURE
}
