//! Performance of the test bed on this machine, compared with the machine's own limits: bring-up
//! and tear-down of nodes, forwarded frames, forwarding lateness, requests, the director's
//! decisions.
//!
//! `cargo bench -p bench [--
//! nodes|accounting|core|frames|threads|receivers|multicast|many|release|bulk|requests|decisions]
//! [ring|tap|packet]`

mod accounting;
mod bare;
mod bulk;
mod core;
mod decisions;
mod frames;
mod load;
mod many;
mod nodes;
mod receivers;
mod release;
mod requests;
mod timer;

use std::process::ExitCode;

type Bench = fn() -> Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.first().map(String::as_str) {
        Some(lab::FORK_SERVER) => return lab::fork_server(),
        Some(load::FLOOD) => return load::flood(&args[1..], load::Cpu::Last),
        Some(load::FLOOD_ANYWHERE) => return load::flood(&args[1..], load::Cpu::Any),
        Some(load::SEND) => return load::send(&args[1..]),
        Some(load::READ) => return load::read(),
        Some(load::HELLO) => return load::hello(&args[1..]),
        Some(load::JOIN) => return load::join(&args[1..]),
        Some(load::DRAIN) => return load::drain(),
        Some(load::POUR) => return load::pour(&args[1..]),
        Some(load::TICK) => return accounting::tick(),
        Some(load::BURN) => return load::burn(),
        _ => {}
    }
    let all = args.iter().all(|arg| engine::FramePath::from_name(arg).is_some());
    let selected = |name: &str| all || args.iter().any(|arg| arg == name);
    let mut benches: Vec<Bench> = Vec::new();
    if selected("nodes") {
        benches.push(nodes::bench);
    }
    if selected("accounting") {
        benches.push(accounting::bench);
    }
    if selected("core") {
        benches.push(core::bench);
    }
    if selected("frames") {
        benches.push(frames::bench);
    }
    if selected("threads") {
        benches.push(frames::threads);
    }
    if selected("receivers") {
        benches.push(receivers::bench);
    }
    if selected("multicast") {
        benches.push(frames::multicast);
    }
    if selected("many") {
        benches.push(many::bench);
    }
    if selected("release") {
        benches.push(release::bench);
    }
    if selected("bulk") {
        benches.push(bulk::bench);
    }
    if selected("decisions") {
        benches.push(decisions::bench);
    }
    if selected("requests") {
        benches.push(requests::bench);
    }
    for bench in benches {
        if let Err(error) = bench() {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The median.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
