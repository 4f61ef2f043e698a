//! The programs that the benchmark runs in nodes: itself, under other commands.

use lab::{Lab, Program};
use std::error::Error;
use std::fs::File;
use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Sends datagrams: `<address> <frames a second, 0 for as many as it can>`.
pub const FLOOD: &str = "__flood";
/// Sends one datagram, so that a switch learns where the sender is: `<address>`.
pub const HELLO: &str = "__hello";
/// Keeps a processor busy.
pub const BURN: &str = "__burn";

/// Bytes of a frame on the wire, link header included.
pub const FRAME: usize = 100;
const HEADERS: usize = 14 + 20 + 8;
/// A paced flood sends what is due this often.
const TURN: Duration = Duration::from_millis(1);

/// Runs `argv` of this very program in a node.
pub fn start(lab: &Lab, node: usize, argv: &[&str]) -> Result<(), Box<dyn Error>> {
    let null = File::options().write(true).open("/dev/null")?;
    let own = std::env::current_exe()?.display().to_string();
    let program = Program {
        argv: std::iter::once(own).chain(argv.iter().map(|arg| (*arg).to_owned())).collect(),
        env: Vec::new(),
        cwd: "/".to_owned(),
        stdout: null.try_clone()?.into(),
        stderr: null.into(),
        control: None,
    };
    Ok(lab.run(node, 0, program)?)
}

/// Where a thread may run.
#[derive(Debug, Clone, Copy)]
pub enum Cpu {
    First,
    Last,
    Any,
}

/// Keeps this thread, and those that it starts from now on, to `cpu`. Floods have
/// the last and forwarders the first: they then take nothing from each other,
/// and the ratio is one of forwarders.
pub fn keep_to(cpu: Cpu) {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    // SAFETY: an all-zero set is valid, and lives over the calls.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let cpus = match cpu {
            Cpu::First => 0..1,
            Cpu::Last => count - 1..count,
            Cpu::Any => 0..libc::CPU_SETSIZE as usize,
        };
        cpus.for_each(|cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Lives the life of a flood.
pub fn flood(args: &[String]) -> ExitCode {
    let (Some(address), Some(rate)) = (args.first(), args.get(1)) else { return ExitCode::from(2) };
    let rate: f64 = rate.parse().unwrap_or(0.0);
    keep_to(Cpu::Last);
    let Ok(socket) = UdpSocket::bind("0.0.0.0:0") else { return ExitCode::FAILURE };
    if socket.connect((address.as_str(), 9)).is_err() {
        return ExitCode::FAILURE;
    }
    let payload = [0; FRAME - HEADERS];
    let begin = Instant::now();
    let mut sent = 0.0;
    loop {
        let due = if rate > 0.0 { begin.elapsed().as_secs_f64() * rate } else { f64::INFINITY };
        while sent < due {
            // A full queue is what a flood is for.
            let _ = socket.send(&payload);
            sent += 1.0;
        }
        std::thread::sleep(TURN.min(Duration::from_secs_f64(1.0 / rate)));
    }
}

/// Lives the life of a greeting.
pub fn hello(args: &[String]) -> ExitCode {
    let Some(address) = args.first() else { return ExitCode::from(2) };
    let sent = UdpSocket::bind("0.0.0.0:0").and_then(|s| s.send_to(b"hello", (&**address, 9)));
    if sent.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lives the life of a busy program.
pub fn burn() -> ExitCode {
    loop {
        std::hint::black_box(Instant::now());
    }
}
