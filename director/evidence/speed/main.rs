//! Speed of the director's models on loopback, compared with ZeroMQ's in the same run:
//!
//!     cargo run --release -p bench --example director-speed -- rates [MEMBERS] [WINDOW]
//!     cargo run --release -p bench --example director-speed -- delays
//!     cargo run --release -p bench --example director-speed -- core [MEMBERS] [WINDOW]
//!
//! `rates`: a hub keeps a window of messages of 100 B open to all members, which answer each with
//! the same bytes. Counts answers per second. ZeroMQ and each model take turns of half a second.
//! ZeroMQ is ROUTER and DEALER, or PUB and SUB with answers by PUSH and PULL; ratios are to the
//! faster of the two. The same datagrams over bare sockets show what the machine can do. `delays`: one request at a time, to one member.
//! `core`: what the library alone computes for `rates`, without sockets.
//!
//! All ends are in one process. The hub has a thread, and all members together have one. ZeroMQ has
//! an I/O thread per end in addition.

mod bare_side;
mod core_side;
mod director_side;
mod protection;
mod zeromq_side;

use bare_side::Bare;
use director::ModelId;
use director_side::{Group, Setup};
use protection::Protection;
use std::process::ExitCode;
use std::time::Duration;
use zeromq_side::{Pattern, Zeromq};

/// Size of a message and of its answer, in bytes.
const PAYLOAD: usize = 100;
const TURN: Duration = Duration::from_millis(500);
const TURNS: usize = 5;
const REQUESTS: usize = 400;
const MODELS: [ModelId; 3] = [ModelId::UdpArq, ModelId::MulticastFec, ModelId::UdpRequestResponse];

type Failure = Box<dyn std::error::Error>;

/// What was measured in a turn.
#[derive(Debug, Clone, Copy, Default)]
struct Speed {
    /// Answers per second.
    answers_s: f64,
    /// CPU time of the process per answer, in us.
    cpu_us: f64,
}

/// One of the sides: a hub with members.
trait Side {
    /// Keeps `window` messages open for this time.
    fn run(&mut self, window: usize, time: Duration) -> Result<Speed, Failure>;
    /// Sends requests one after another, with a pause before each; returns their delays.
    fn delays(&mut self, requests: usize, pause: Duration) -> Result<Vec<Duration>, Failure>;
}

/// A side in the table.
struct Row {
    name: String,
    side: Box<dyn Side>,
    speeds: Vec<Speed>,
}

impl Row {
    fn new(name: String, side: impl Side + 'static) -> Self {
        Self { name, side: Box::new(side), speeds: Vec::new() }
    }

    fn answers_s(&self) -> f64 {
        median(self.speeds.iter().map(|speed| speed.answers_s).collect())
    }

    fn cpu_us(&self) -> f64 {
        median(self.speeds.iter().map(|speed| speed.cpu_us).collect())
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).and_then(|text| text.parse().ok());
    let done =
        match arguments.first().map(String::as_str) {
            Some("rates") => rates(number(1), number(2), arguments.get(3).map(String::as_str)),
            Some("delays") => delays(),
            Some("core") => core(number(1), number(2), arguments.get(3).map(String::as_str)),
            _ => Err("director-speed rates|core [MEMBERS] [WINDOW] [NAME] | director-speed delays"
                .into()),
        };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Answers per second of each side, for numbers of members and windows; only of the models whose
/// row contains `only`, if given.
fn rates(members: Option<usize>, window: Option<usize>, only: Option<&str>) -> Result<(), Failure> {
    println!("| members | window | side | answers/s | of ZeroMQ's | CPU per answer, us |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for members in members.map_or(vec![1, 20, 100], |members| vec![members]) {
        let mut rows = Vec::new();
        for pattern in [Pattern::Router, Pattern::Publish] {
            rows.push(Row::new(pattern.name().into(), Zeromq::start(members, pattern, PAYLOAD)?));
        }
        rows.push(Row::new(
            "UDP sockets without a protocol".into(),
            Bare::start(members, PAYLOAD)?,
        ));
        for setup in setups(members, only) {
            rows.push(Row::new(setup.to_string(), Group::start(setup, PAYLOAD)?));
        }
        for window in window.map_or(vec![1, 32], |window| vec![window]) {
            // In turns, so that a change of the machine's speed meets all sides.
            for _ in 0..TURNS {
                for row in &mut rows {
                    row.speeds.push(row.side.run(window, TURN)?);
                }
            }
            print(members, window, &rows);
            rows.iter_mut().for_each(|row| row.speeds.clear());
        }
    }
    Ok(())
}

/// The models with each protection, and with a configured rate or none.
fn setups(members: usize, only: Option<&str>) -> Vec<Setup> {
    let mut setups = Vec::new();
    for model in MODELS {
        for protection in protection::ALL {
            for rate_bit_s in [10e9, 0.0] {
                setups.push(Setup { model, members, protection, rate_bit_s });
            }
        }
    }
    setups.retain(|setup| only.is_none_or(|only| setup.to_string().contains(only)));
    setups
}

/// CPU time and datagrams per answer, without sockets.
fn core(members: Option<usize>, window: Option<usize>, only: Option<&str>) -> Result<(), Failure> {
    println!(
        "| members | window | side | hub, us | members, us | datagrams of the hub | of members |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let (members, window) = (members.unwrap_or(100), window.unwrap_or(32));
    for setup in setups(members, only) {
        let core_side::Computed { hub_us, members_us, sent, returned } =
            core_side::compute(setup, window, TURNS)?;
        println!(
            "| {members} | {window} | {setup} | {hub_us:.2} | {members_us:.2} | {sent:.2} | {returned:.2} |"
        );
    }
    Ok(())
}

fn print(members: usize, window: usize, rows: &[Row]) {
    // Both patterns of ZeroMQ come first.
    let best = rows[..2].iter().map(Row::answers_s).fold(0.0, f64::max);
    for row in rows {
        println!(
            "| {members} | {window} | {} | {:.0} | 1/{:.1} | {:.1} |",
            row.name,
            row.answers_s(),
            best / row.answers_s(),
            row.cpu_us(),
        );
    }
}

/// Delays of single requests, by configured rate: one after another, and after pauses.
fn delays() -> Result<(), Failure> {
    println!("| side | p50 after pauses, us | p99 | p50 in a row, us | p99 |");
    println!("| --- | --- | --- | --- | --- |");
    for pattern in [Pattern::Router, Pattern::Publish] {
        let side = Zeromq::start(1, pattern, PAYLOAD)?;
        delay(pattern.name(), side)?;
    }
    for model in MODELS {
        for protection in [Protection::Plain, Protection::Encrypted] {
            for rate_bit_s in [1e6, 100e6, 10e9, 0.0] {
                let setup = Setup { model, members: 1, protection, rate_bit_s };
                delay(&setup.to_string(), Group::start(setup, PAYLOAD)?)?;
            }
        }
    }
    Ok(())
}

fn delay(name: &str, mut side: impl Side) -> Result<(), Failure> {
    // The rate of a session without a configured one is found by the first requests.
    side.run(1, TURN)?;
    let mut cells = Vec::new();
    for pause in [Duration::from_millis(5), Duration::ZERO] {
        let delays = side.delays(REQUESTS, pause)?;
        let mut us: Vec<f64> = delays.iter().map(|delay| delay.as_secs_f64() * 1e6).collect();
        us.sort_by(f64::total_cmp);
        let of = |share: f64| us.get((us.len() as f64 * share) as usize).copied();
        cells.extend([0.5, 0.99].map(|share| format!("{:.0}", of(share).unwrap_or(f64::NAN))));
    }
    println!("| {name} | {} |", cells.join(" | "));
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// CPU time of the process.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours and outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
