//! The programs that run in the benchmark's nodes: this binary, with other commands.

use lab::{Lab, Program};
use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Sends datagrams: `<address> <frames per second, 0 for the maximum> [<seconds to wait before>]`.
/// A waiting program announces its address to the switch with a group report, which has no
/// receivers.
pub const FLOOD: &str = "__flood";
/// The same, on any CPU.
pub const FLOOD_ANYWHERE: &str = "__flood-anywhere";
/// Sends datagrams as programs do, on any CPU: sleeps until the next is due, or polls the clock:
/// `<address> <frames per second> [spin]`.
pub const SEND: &str = "__send";
/// The last argument of a sender that polls the clock.
pub const SPIN: &str = "spin";
/// Reads datagrams one by one, with the system's default socket buffer.
pub const READ: &str = "__read";
/// Sends one datagram, so that a switch learns the sender's address, and opens a socket for
/// replies, which it does not read: `<address>`.
pub const HELLO: &str = "__hello";
/// The same, as a member of a multicast group: `<group>`.
pub const JOIN: &str = "__join";
/// Accepts one TCP connection and reads it.
pub const DRAIN: &str = "__drain";
/// Sends over TCP at the maximum rate: `<address> <congestion control>`.
pub const POUR: &str = "__pour";
/// Wakes up periodically.
pub const TICK: &str = "__tick";
/// Keeps a CPU busy.
pub const BURN: &str = "__burn";

/// Bytes of a frame on the wire, link header included.
pub const FRAME: usize = 100;
/// The benchmark's multicast group.
pub const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const HEADERS: usize = 14 + 20 + 8;
const PORT: u16 = 9;
/// Number of datagrams per system call of a flood.
const CALL: usize = 64;
/// Above this rate a flood busy-waits for an even pace; below, wake-ups are rare enough.
const SPIN_FROM: f64 = 5_000.0;

/// Runs this binary with `argv` in a node.
pub fn start(lab: &Lab, node: usize, argv: &[&str]) -> Result<(), Box<dyn Error>> {
    let null = File::options().write(true).open("/dev/null")?;
    let program = std::env::current_exe()?.display().to_string();
    let program = Program {
        argv: std::iter::once(program).chain(argv.iter().map(|arg| (*arg).to_owned())).collect(),
        env: Vec::new(),
        cwd: "/".to_owned(),
        stdout: null.try_clone()?.into(),
        stderr: null.into(),
        control: None,
    };
    Ok(lab.nodes()[node].kind.run(0, program)?)
}

/// CPU affinity of a thread.
#[derive(Debug, Clone, Copy)]
pub enum Cpu {
    First,
    Last,
    Any,
}

/// Pins this thread and its future threads to `cpu`. Floods use the last CPU and forwarders the
/// first, so that they do not compete and the ratio compares forwarders only.
pub fn pin_to(cpu: Cpu) {
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

/// Runs a flood, on `cpu` if it takes all of one.
pub fn flood(args: &[String], cpu: Cpu) -> ExitCode {
    let (Some(address), Some(rate)) = (args.first(), args.get(1)) else { return ExitCode::from(2) };
    let rate: f64 = rate.parse().unwrap_or(0.0);
    if rate == 0.0 || rate >= SPIN_FROM {
        pin_to(cpu);
    }
    let Ok(socket) = UdpSocket::bind("0.0.0.0:0") else { return ExitCode::FAILURE };
    if socket.connect((address.as_str(), PORT)).is_err() {
        return ExitCode::FAILURE;
    }
    if let Some(wait) = args.get(2).and_then(|wait| wait.parse().ok()) {
        let _ = socket.join_multicast_v4(&GROUP, &Ipv4Addr::UNSPECIFIED);
        std::thread::sleep(Duration::from_secs(wait));
    }
    if rate == 0.0 { full(&socket) } else { paced(&socket, rate, rate >= SPIN_FROM) }
}

/// Runs the program of [`SEND`].
pub fn send(args: &[String]) -> ExitCode {
    let Some((address, rate)) = args.first().zip(args.get(1).and_then(|rate| rate.parse().ok()))
    else {
        return ExitCode::from(2);
    };
    let Ok(socket) = UdpSocket::bind("0.0.0.0:0") else { return ExitCode::FAILURE };
    match socket.connect((address.as_str(), PORT)) {
        Ok(()) => paced(&socket, rate, args.get(2).is_some_and(|word| word == SPIN)),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs the program of [`READ`].
pub fn read() -> ExitCode {
    let Ok(socket) = UdpSocket::bind(("0.0.0.0", PORT)) else { return ExitCode::FAILURE };
    let mut buffer = [0; 2048];
    while socket.recv(&mut buffer).is_ok() {}
    ExitCode::FAILURE
}

/// Sends at the maximum rate, many datagrams per call. A flood is meant to fill the queue.
fn full(socket: &UdpSocket) -> ! {
    let payload = [0u8; FRAME - HEADERS];
    let mut part =
        libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
    // SAFETY: all-zero headers are valid; their targets live as long as they do and are only read.
    unsafe {
        let mut messages: [libc::mmsghdr; CALL] = std::mem::zeroed();
        for message in &mut messages {
            message.msg_hdr.msg_iov = &raw mut part;
            message.msg_hdr.msg_iovlen = 1;
        }
        loop {
            libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), CALL as u32, 0);
        }
    }
}

/// Sends one datagram at a time, with intervals that vary by up to half a gap. Equal intervals
/// would coincide with other senders' and find the medium awake.
fn paced(socket: &UdpSocket, rate: f64, spins: bool) -> ! {
    let payload = [0u8; FRAME - HEADERS];
    let begin = Instant::now();
    let gap = Duration::from_secs_f64(1.0 / rate);
    let mut seed = [0u8; 8];
    // SAFETY: writes eight bytes.
    unsafe { libc::getrandom(seed.as_mut_ptr().cast(), seed.len(), 0) };
    let mut dice = u64::from_ne_bytes(seed);
    let mut share = move || {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (dice >> 33) as f64 / f64::from(1u32 << 31)
    };
    // Floods that start together must not send together.
    let mut due = gap.mul_f64(share());
    loop {
        let left = due.saturating_sub(begin.elapsed());
        match spins {
            false => std::thread::sleep(left),
            true if !left.is_zero() => {
                std::hint::spin_loop();
                continue;
            }
            true => {}
        }
        let _ = socket.send(&payload);
        due += gap.mul_f64(0.5 + share());
    }
}

/// Runs the program of [`HELLO`].
pub fn hello(args: &[String]) -> ExitCode {
    let Some(address) = args.first() else { return ExitCode::from(2) };
    let socket = UdpSocket::bind(("0.0.0.0", PORT));
    let Ok(socket) = socket else { return ExitCode::FAILURE };
    match socket.send_to(b"hello", (&**address, PORT)) {
        Ok(_) => loop {
            std::thread::park();
        },
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs the program of [`JOIN`].
pub fn join(args: &[String]) -> ExitCode {
    let Some(Ok(group)) = args.first().map(|group| group.parse::<Ipv4Addr>()) else {
        return ExitCode::from(2);
    };
    let Ok(socket) = UdpSocket::bind(("0.0.0.0", PORT)) else { return ExitCode::FAILURE };
    if socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED).is_err() {
        return ExitCode::FAILURE;
    }
    loop {
        std::thread::park();
    }
}

/// Runs the program of [`DRAIN`].
pub fn drain() -> ExitCode {
    let accepted = TcpListener::bind(("0.0.0.0", PORT)).and_then(|listener| listener.accept());
    let Ok((mut stream, _)) = accepted else { return ExitCode::FAILURE };
    let mut buffer = vec![0; 1 << 20];
    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
    ExitCode::SUCCESS
}

/// Runs the program of [`POUR`].
pub fn pour(args: &[String]) -> ExitCode {
    let (Some(address), Some(control)) = (args.first(), args.get(1)) else {
        return ExitCode::from(2);
    };
    pin_to(Cpu::Last);
    for _ in 0..100 {
        let Ok(mut stream) = TcpStream::connect((&**address, PORT)) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        // SAFETY: the name is readable for its whole length.
        let set = unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                control.as_ptr().cast(),
                control.len() as u32,
            )
        };
        if set != 0 {
            return ExitCode::FAILURE;
        }
        let buffer = vec![0; 1 << 20];
        while stream.write_all(&buffer).is_ok() {}
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}

/// Runs the program of [`BURN`].
pub fn burn() -> ExitCode {
    loop {
        std::hint::black_box(Instant::now());
    }
}
