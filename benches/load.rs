//! The programs that the benchmark runs in nodes: itself, under other commands.

use lab::{Lab, Program};
use std::error::Error;
use std::fs::File;
use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Sends datagrams: `<address> <frames a second, 0 for as many as it can>`.
pub const FLOOD: &str = "__flood";
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

/// Keeps this thread to one processor: the first, or the last. Those who flood
/// and those who forward then take nothing from each other, and the ratio is one
/// of forwarders.
pub fn pin(last: bool) {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    // SAFETY: an all-zero set is valid, and lives over the calls.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(if last { count - 1 } else { 0 }, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Lives the life of a flood.
pub fn flood(args: &[String]) -> ExitCode {
    let (Some(address), Some(rate)) = (args.first(), args.get(1)) else { return ExitCode::from(2) };
    let rate: f64 = rate.parse().unwrap_or(0.0);
    pin(true);
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

/// Lives the life of a busy program.
pub fn burn() -> ExitCode {
    loop {
        std::hint::black_box(Instant::now());
    }
}
