//! Sends and receives numbered, time-stamped datagrams at a constant gap.
//!
//! `probe receive PORT PEER FILE` greets `PEER` until the first datagram arrives. When
//! none has arrived for [`IDLE_TIMEOUT`], it writes a line for each: its number, its times of
//! sending and arrival in ns of CLOCK_MONOTONIC, and whether it has a flipped bit.
//! `probe send PORT COUNT GAP_US SIZE TOGETHER` waits for the greeting and sends
//! `COUNT` datagrams of `SIZE` bytes, `TOGETHER` of them every `GAP_US`.

use std::error::Error;
use std::fmt::Write;
use std::mem::zeroed;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::time::Duration;

type Outcome = Result<(), Box<dyn Error>>;

/// Idle timeout of the receiver; shorter than the tool's own.
const IDLE_TIMEOUT: Duration = Duration::from_millis(2800);
const GREETING: Duration = Duration::from_millis(200);
/// Time from the greeting to the first datagram, in ns.
const LEAD: u64 = 500_000_000;
/// Bytes of number, time and length. A datagram contains three copies: two of them
/// outvote a flipped bit in the third.
const STAMP: usize = 24;
const FILL: u8 = 0xa5;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args[..] {
        ["receive", port, peer, file] => receive(port, peer, file),
        ["send", port, count, gap, size, together] => send(port, count, gap, size, together),
        _ => Err("probe receive PORT PEER FILE | send PORT COUNT GAP_US SIZE TOGETHER".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("probe: {error}");
            ExitCode::FAILURE
        }
    }
}

fn receive(port: &str, peer: &str, file: &str) -> Outcome {
    let socket = UdpSocket::bind(("0.0.0.0", port.parse()?))?;
    option(&socket, libc::SO_RCVBUFFORCE, 1 << 23)?;
    socket.set_read_timeout(Some(GREETING))?;
    let mut buffer = [0; 65_536];
    let mut lines = String::new();
    let mut received = false;
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((length, _)) => {
                let arrived = now();
                if !received {
                    received = true;
                    socket.set_read_timeout(Some(IDLE_TIMEOUT))?;
                }
                let (number, sent, corrupted) = read(&buffer[..length]);
                writeln!(lines, "{number} {sent} {arrived} {}", u8::from(corrupted))?;
            }
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => {
                return Err(error.into());
            }
            Err(_) if received => break,
            Err(_) => {
                socket.send_to(b"hello", (peer, port.parse()?))?;
            }
        }
    }
    std::fs::write(file, lines)?;
    Ok(())
}

fn send(port: &str, count: &str, gap: &str, size: &str, together: &str) -> Outcome {
    let (count, gap, size): (u64, u64, usize) = (count.parse()?, gap.parse()?, size.parse()?);
    let together: u64 = together.parse()?;
    let socket = UdpSocket::bind(("0.0.0.0", port.parse()?))?;
    // With a checksum the kernel would drop corrupted datagrams, which the test counts.
    option(&socket, libc::SO_NO_CHECK, 1)?;
    // SAFETY: a plain system call that touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let (_, peer) = socket.recv_from(&mut [0; 16])?;
    socket.connect(peer)?;
    let mut datagram = vec![FILL; size.max(3 * STAMP)];
    let length = datagram.len() as u64;
    let begin = now() + LEAD;
    for number in 0..count {
        sleep_until(begin + number / together * gap * 1000);
        let stamp = [number, now(), length].map(u64::to_be_bytes).concat();
        datagram[..3 * STAMP].copy_from_slice(&stamp.repeat(3));
        // Drops by a full queue are part of the measurement.
        let _ = socket.send(&datagram);
    }
    Ok(())
}

/// Number, time of sending, and whether the datagram was corrupted.
fn read(datagram: &[u8]) -> (u64, u64, bool) {
    let mut stamp = [0; STAMP];
    let Some((copies, filling)) = datagram.split_at_checked(3 * STAMP) else {
        return (u64::MAX, 0, true);
    };
    for (place, byte) in stamp.iter_mut().enumerate() {
        let [a, b, c] = [0, 1, 2].map(|copy| copies[copy * STAMP + place]);
        *byte = a & b | a & c | b & c;
    }
    let part =
        |at: usize| stamp[at..at + 8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let corrupted = copies != stamp.repeat(3)
        || filling.iter().any(|byte| *byte != FILL)
        || part(16) != datagram.len() as u64;
    (part(0), part(8), corrupted)
}

fn now() -> u64 {
    // SAFETY: an all-zero time is valid and outlives the call.
    let time = unsafe {
        let mut time: libc::timespec = zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn sleep_until(at: u64) {
    let time = libc::timespec {
        tv_sec: (at / 1_000_000_000) as libc::time_t,
        tv_nsec: (at % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the time outlives the call, and nothing is written back to it.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        );
    }
}

fn option(socket: &UdpSocket, name: libc::c_int, value: libc::c_int) -> std::io::Result<()> {
    // SAFETY: the value outlives the call, which gets its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
