//! `thingbed-workload`: runs one program of an experiment, inside a node.

use std::path::Path;
use std::process::ExitCode;
use workloads::{
    Control, DeviceSpec, Error, ExchangeSpec, LoadSpec, MqttSpec, ProbeSpec, Probes, Said, Spec,
    device, echo, exchange, interaction, load, mqtt, ping, probe, relay, zmq_info,
};

const USAGE: &str = "usage: \
thingbed-workload interaction SPEC.json            run a source or a sink
       thingbed-workload mqtt SPEC.json            run an MQTT client
       thingbed-workload exchange SPEC.json        run a side of exchanges
       thingbed-workload load SPEC.json            send requests by a schedule
       thingbed-workload device SPEC.json          answer them after given times
       thingbed-workload probe SPEC.json           look for contention
       thingbed-workload ping HOST:PORT COUNT EVERY_US SIZE
                                                   time the return of datagrams; prints JSON
       thingbed-workload echo PORT                 return datagrams
       thingbed-workload relay PORT HOST:PORT      pass datagrams on, and back
       thingbed-workload zmq-info                  what the libzmq in use can do";

fn main() -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["interaction", spec] => {
            run(|control| Spec::read(Path::new(spec)).and_then(|spec| interaction(&spec, control)))
        }
        ["mqtt", spec] => {
            run(|control| MqttSpec::read(Path::new(spec)).and_then(|spec| mqtt(&spec, control)))
        }
        ["exchange", spec] => run(|control| {
            ExchangeSpec::read(Path::new(spec)).and_then(|spec| exchange(&spec, control))
        }),
        ["load", spec] => {
            run(|control| LoadSpec::read(Path::new(spec)).and_then(|spec| load(&spec, control)))
        }
        ["device", spec] => {
            run(|control| DeviceSpec::read(Path::new(spec)).and_then(|spec| device(&spec, control)))
        }
        ["probe", spec] => {
            run(|control| ProbeSpec::read(Path::new(spec)).and_then(|spec| probe(&spec, control)))
        }
        ["ping", to, count, every, size] => match probes(to, count, every, size) {
            Some(probes) => ended(ping(&probes).map(|returns| {
                println!("{}", serde_json::to_string(&returns).unwrap_or_default());
            })),
            None => usage(),
        },
        ["echo", port] => port.parse().map_or_else(|_| usage(), |port| ended(echo(port))),
        ["relay", port, to] => port.parse().map_or_else(|_| usage(), |port| ended(relay(port, to))),
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
    // A datagram is no longer, and a list of round trips has to fit somewhere.
    let fits = size <= 65_000 && count <= 10_000_000;
    fits.then(|| Probes { to: to.to_owned(), count, every, size })
}

fn ended(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error, None),
    }
}

fn run(program: impl FnOnce(&mut Control) -> Result<(), Error>) -> ExitCode {
    let mut control = match Control::from_environment() {
        Ok(control) => control,
        Err(error) => return failed(&error, None),
    };
    match program(&mut control) {
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
