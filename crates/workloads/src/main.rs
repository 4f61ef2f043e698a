//! `thingbed-workload`: runs one program of an experiment, inside a node.

use record::control::Status;
use record::spec::{
    DeviceSpec, ExchangeSpec, InteractionSpec, LoadSpec, MqttSpec, ProbeSpec, Spec,
};
use std::path::Path;
use std::process::ExitCode;
use workloads::{
    Control, Error, Probes, device, echo, exchange, interaction, load, mqtt, ping, probe, read,
    relay, zmq_info,
};

const USAGE: &str = "usage: \
thingbed-workload interaction SPEC.json            run a source or a sink
       thingbed-workload mqtt SPEC.json            run an MQTT client
       thingbed-workload exchange SPEC.json        run one side of an exchange workload
       thingbed-workload load SPEC.json            send requests on a schedule
       thingbed-workload device SPEC.json          answer requests after configured service times
       thingbed-workload probe SPEC.json           measure CPU contention
       thingbed-workload ping HOST:PORT COUNT EVERY_US SIZE
                                                   measure round-trip times; prints JSON
       thingbed-workload echo PORT                 return datagrams
       thingbed-workload relay PORT HOST:PORT      forward datagrams in both directions
       thingbed-workload zmq-info                  show the version and features of libzmq";

fn main() -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [InteractionSpec::PROGRAM, spec] => run(spec, interaction),
        [MqttSpec::PROGRAM, spec] => run(spec, mqtt),
        [ExchangeSpec::PROGRAM, spec] => run(spec, exchange),
        [LoadSpec::PROGRAM, spec] => run(spec, load),
        [DeviceSpec::PROGRAM, spec] => run(spec, device),
        [ProbeSpec::PROGRAM, spec] => run(spec, probe),
        ["ping", to, count, every, size] => match probes(to, count, every, size) {
            Some(probes) => exit_code(ping(&probes).map(|returns| {
                println!("{}", serde_json::to_string(&returns).unwrap_or_default());
            })),
            None => usage(),
        },
        ["echo", port] => port.parse().map_or_else(|_| usage(), |port| exit_code(echo(port))),
        ["relay", port, to] => {
            port.parse().map_or_else(|_| usage(), |port| exit_code(relay(port, to)))
        }
        ["zmq-info"] => {
            println!("{}", zmq_info());
            ExitCode::SUCCESS
        }
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn probes(to: &str, count: &str, every_us: &str, size: &str) -> Option<Probes> {
    let every = every_us.parse::<u64>().ok()?.checked_mul(1_000)?;
    let (count, size) = (count.parse().ok()?, size.parse().ok()?);
    // Limits of a datagram's size, and of the list of round trips.
    let fits = size <= 65_000 && count <= 10_000_000;
    fits.then(|| Probes { to: to.to_owned(), count, every, size })
}

fn exit_code(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_failure(&error, None),
    }
}

/// Runs a program with the spec in a file.
fn run<S: Spec>(
    spec: &str,
    program: impl FnOnce(&S, &mut Control) -> Result<(), Error>,
) -> ExitCode {
    let mut control = match Control::from_environment() {
        Ok(control) => control,
        Err(error) => return report_failure(&error, None),
    };
    match read(Path::new(spec)).and_then(|spec| program(&spec, &mut control)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_failure(&error, Some(&mut control)),
    }
}

/// Reports an error to the log and to the parent process.
fn report_failure(error: &Error, control: Option<&mut Control>) -> ExitCode {
    let error = error.to_string();
    eprintln!("thingbed-workload: {error}");
    if let Some(control) = control {
        // A closed channel needs no message.
        let _ = control.send_status(&Status::Failed { error });
    }
    ExitCode::FAILURE
}
