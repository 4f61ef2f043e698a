//! Small programs that measure a network from within nodes: one that sends
//! numbered datagrams and times their return, one that returns them, one that
//! passes them on.

use crate::clock::{Nanos, SECOND, monotonic_now};
use crate::error::Error;
use crate::wait::{Waiter, punctual};
use serde::Serialize;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// What probes to send.
#[derive(Debug, Clone)]
pub struct Probes {
    /// Where an echo listens, as `host:port`.
    pub to: String,
    /// How many.
    pub count: u64,
    /// From one to the next.
    pub every: Nanos,
    /// Bytes of each, 16 or more.
    pub size: usize,
}

/// What came of them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Returns {
    /// Probes that were sent.
    pub sent: u64,
    /// Probes that came back.
    pub returned: u64,
    /// Those that came back more than once.
    pub duplicates: u64,
    /// Those that came back after a later one.
    pub late: u64,
    /// The most in a row that did not come back.
    pub longest_loss: u64,
    /// Round trips from the intended time, in ns, in the order of the probes; no
    /// value for one that did not come back.
    pub rtt_ns: Vec<Option<Nanos>>,
    /// From the first return to the last, in ns.
    pub span_ns: Nanos,
}

/// How long after the last probe a return is waited for.
const PATIENCE: Nanos = 3 * SECOND;
/// A datagram's header: its number, twice, to tell it from strangers.
const HEADER: usize = 16;

/// Sends probes and times their return.
///
/// # Errors
/// When there is no such host, or the kernel refuses a socket.
pub fn ping(probes: &Probes) -> Result<Returns, Error> {
    let to = resolve(&probes.to)?;
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(Error::io("open a socket for probes"))?;
    socket.connect(to).map_err(Error::io("reach the echo"))?;
    let count = probes.count as usize;
    greet(&socket)?;
    socket.set_nonblocking(true).map_err(Error::io("make a socket not wait"))?;
    punctual();
    let mut waiter = Waiter::new(socket.as_raw_fd(), Vec::new());
    let mut returns = Returns { rtt_ns: vec![None; count], ..Returns::default() };
    let (mut first, mut last, mut highest) = (None, 0, 0);
    let begin = monotonic_now() + 100_000_000;
    let mut buffer = vec![0; probes.size.max(HEADER)];
    let end = begin + probes.every * probes.count + PATIENCE;
    let mut next = 0;
    loop {
        let now = monotonic_now();
        if now >= end || (next == probes.count && returns.returned == probes.count) {
            break;
        }
        let due = begin + probes.every * next;
        if next < probes.count && now >= due {
            let number = next.to_be_bytes();
            buffer[..8].copy_from_slice(&number);
            buffer[8..HEADER].copy_from_slice(&number);
            // A full queue on the way is a loss like any other.
            if socket.send(&buffer).is_ok() {
                returns.sent += 1;
            }
            next += 1;
            continue;
        }
        waiter.wait(Some(if next < probes.count { due } else { end }))?;
        let mut answer = [0; 2048];
        let got = match socket.recv(&mut answer) {
            Ok(got) => got,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
                ) =>
            {
                continue;
            }
            Err(error) => return Err(Error::io("receive probes")(error)),
        };
        let at = monotonic_now();
        let Some(number) = number(&answer[..got]).filter(|number| *number < probes.count) else {
            continue;
        };
        let place = &mut returns.rtt_ns[number as usize];
        if place.is_some() {
            returns.duplicates += 1;
            continue;
        }
        *place = Some(at.saturating_sub(begin + probes.every * number));
        returns.returned += 1;
        returns.late += u64::from(number < highest);
        highest = highest.max(number);
        first.get_or_insert(at);
        last = at;
    }
    returns.span_ns = last.saturating_sub(first.unwrap_or(last));
    let lost = returns.rtt_ns.chunk_by(|a, b| a.is_some() == b.is_some());
    let runs = lost.filter(|run| run[0].is_none()).map(|run| run.len() as u64);
    returns.longest_loss = runs.max().unwrap_or(0);
    Ok(returns)
}

/// Sends strangers until one returns, for a while: then the way is known, and no
/// probe waits for an address to be found.
fn greet(socket: &UdpSocket) -> Result<(), Error> {
    let wait = Some(Duration::from_millis(100));
    socket.set_read_timeout(wait).map_err(Error::io("set a time to wait"))?;
    for _ in 0..100 {
        let _ = socket.send(&[0; HEADER - 1]);
        if socket.recv(&mut [0; HEADER]).is_ok() {
            break;
        }
    }
    // What was greeted twice comes back by then.
    std::thread::sleep(Duration::from_millis(200));
    Ok(())
}

/// Returns every datagram to whoever sent it, for ever.
///
/// # Errors
/// When the port cannot be had.
pub fn echo(port: u16) -> Result<(), Error> {
    let socket = listen(port)?;
    punctual();
    let mut buffer = [0; 65_536];
    loop {
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    }
}

/// Passes datagrams on to `to`, and what comes from there back to whoever sent
/// last, for ever.
///
/// # Errors
/// When the port cannot be had or there is no such host.
pub fn relay(port: u16, to: &str) -> Result<(), Error> {
    let (socket, to) = (listen(port)?, resolve(to)?);
    punctual();
    let mut behind = None;
    let mut buffer = [0; 65_536];
    loop {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        let target = if from == to { behind } else { Some(to) };
        if from != to {
            behind = Some(from);
        }
        if let Some(target) = target {
            let _ = socket.send_to(&buffer[..len], target);
        }
    }
}

fn listen(port: u16) -> Result<UdpSocket, Error> {
    UdpSocket::bind(("0.0.0.0", port))
        .map_err(|source| Error::Address { tried: format!("listen on UDP port {port}"), source })
}

fn resolve(name: &str) -> Result<SocketAddr, Error> {
    let found = name.to_socket_addrs().map_err(|source| Error::Address {
        tried: format!("find `{name}`, which should be HOST:PORT"),
        source,
    })?;
    found.into_iter().find(SocketAddr::is_ipv4).ok_or_else(|| Error::Address {
        tried: format!("find an IPv4 address of `{name}`"),
        source: ErrorKind::NotFound.into(),
    })
}

fn number(datagram: &[u8]) -> Option<u64> {
    let once = datagram.first_chunk::<8>()?;
    let twice = datagram.get(8..)?.first_chunk::<8>()?;
    (once == twice).then(|| u64::from_be_bytes(*once))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_go_by_a_relay_to_an_echo_and_back() {
        let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (near, far) = (free(), free());
        std::thread::spawn(move || echo(far));
        std::thread::spawn(move || relay(near, &format!("127.0.0.1:{far}")));
        std::thread::sleep(Duration::from_millis(100));
        let to = format!("127.0.0.1:{near}");
        let probes = Probes { to, count: 50, every: 1_000_000, size: 100 };
        let returns = ping(&probes).unwrap();
        assert_eq!((returns.sent, returns.returned, returns.duplicates), (50, 50, 0));
        assert!(returns.rtt_ns.iter().all(Option::is_some));
    }

    #[test]
    fn strangers_are_told_apart() {
        assert_eq!(number(&[0; 15]), None);
        assert_eq!(number(&[[0u8; 8], [1; 8]].concat()), None);
        assert_eq!(number(&[7u64.to_be_bytes(), 7u64.to_be_bytes()].concat()), Some(7));
    }

    #[test]
    fn a_host_that_is_not_there_is_named() {
        let error = relay(0, "nobody.invalid:7").unwrap_err().to_string();
        assert!(error.contains("nobody.invalid:7"), "{error}");
    }
}
