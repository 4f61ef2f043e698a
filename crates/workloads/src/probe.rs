//! Small programs that measure a network from inside nodes: ping (numbered datagrams and their
//! round-trip times), echo, and relay.

use crate::clock::{Nanos, SECOND, monotonic_now};
use crate::error::Error;
use crate::protocols::udp::receive;
use crate::wait::{Waiter, wake_precisely};
use serde::Serialize;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Configuration of a ping.
#[derive(Debug, Clone)]
pub struct Probes {
    /// Address of an echo server, as `host:port`.
    pub to: String,
    /// Number of probes.
    pub count: u64,
    /// Interval between probes.
    pub every: Nanos,
    /// Bytes per probe, 16 or more.
    pub size: usize,
}

/// Results of a ping.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Returns {
    /// Probes sent.
    pub sent: u64,
    /// Probes returned.
    pub returned: u64,
    /// Probes returned more than once.
    pub duplicates: u64,
    /// Probes returned after a later one (reordered).
    pub late: u64,
    /// Longest run of consecutive lost probes.
    pub longest_loss: u64,
    /// Round-trip times from the intended time, in ns, in the order of the probes; none for a lost
    /// one.
    pub rtt_ns: Vec<Option<Nanos>>,
    /// Time from the first return to the last, in ns.
    pub span_ns: Nanos,
}

/// Maximum wait for returns after the last probe.
const RETURN_TIMEOUT: Nanos = 3 * SECOND;
/// Header of a datagram: its number, twice, to recognise unrelated datagrams.
const HEADER: usize = 16;

/// Sends probes and measures their round-trip times.
///
/// # Errors
/// The host is unknown, or the system refuses a socket.
pub fn ping(probes: &Probes) -> Result<Returns, Error> {
    let to = resolve(&probes.to)?;
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(Error::io("open a socket for probes"))?;
    socket.connect(to).map_err(Error::io("connect to the echo server"))?;
    let count = probes.count as usize;
    warm_up(&socket)?;
    socket.set_nonblocking(true).map_err(Error::io("make a socket non-blocking"))?;
    wake_precisely();
    let mut waiter = Waiter::new(socket.as_raw_fd(), Vec::new());
    let mut returns = Returns { rtt_ns: vec![None; count], ..Returns::default() };
    let (mut first, mut last, mut highest) = (None, 0, 0);
    let begin = monotonic_now() + 100_000_000;
    let mut buffer = vec![0; probes.size.max(HEADER)];
    let end = begin + probes.every * probes.count + RETURN_TIMEOUT;
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
            // A full queue counts as loss.
            if socket.send(&buffer).is_ok() {
                returns.sent += 1;
            }
            next += 1;
            continue;
        }
        waiter.wait(Some(if next < probes.count { due } else { end }))?;
        let mut answer = [0; 2048];
        let Some((got, _)) = receive(&socket, &mut answer)? else { continue };
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

/// Sends invalid probes until one returns, for a while: then the path is resolved, and no probe
/// waits for ARP.
fn warm_up(socket: &UdpSocket) -> Result<(), Error> {
    let wait = Some(Duration::from_millis(100));
    socket.set_read_timeout(wait).map_err(Error::io("set the receive timeout"))?;
    for _ in 0..100 {
        let _ = socket.send(&[0; HEADER - 1]);
        if socket.recv(&mut [0; HEADER]).is_ok() {
            break;
        }
    }
    // Repeated warm-up datagrams return by then.
    std::thread::sleep(Duration::from_millis(200));
    Ok(())
}

/// Returns every datagram to its sender; runs until killed.
///
/// # Errors
/// The port is not available.
pub fn echo(port: u16) -> Result<(), Error> {
    let socket = listen(port)?;
    wake_precisely();
    let mut buffer = [0; 65_536];
    loop {
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    }
}

/// Forwards datagrams to `to`, and those from `to` back to the last sender; runs until killed.
///
/// # Errors
/// The port is not available, or the host is unknown.
pub fn relay(port: u16, to: &str) -> Result<(), Error> {
    let (socket, to) = (listen(port)?, resolve(to)?);
    wake_precisely();
    let mut client = None;
    let mut buffer = [0; 65_536];
    loop {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        let target = if from == to { client } else { Some(to) };
        if from != to {
            client = Some(from);
        }
        if let Some(target) = target {
            let _ = socket.send_to(&buffer[..len], target);
        }
    }
}

fn listen(port: u16) -> Result<UdpSocket, Error> {
    UdpSocket::bind(("0.0.0.0", port)).map_err(|source| Error::Address {
        operation: format!("listen on UDP port {port}"),
        source,
    })
}

fn resolve(name: &str) -> Result<SocketAddr, Error> {
    let found = name.to_socket_addrs().map_err(|source| Error::Address {
        operation: format!("resolve `{name}` (expected HOST:PORT)"),
        source,
    })?;
    found.into_iter().find(SocketAddr::is_ipv4).ok_or_else(|| Error::Address {
        operation: format!("find an IPv4 address of `{name}`"),
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
        let error = relay(0, "missing.invalid:7").unwrap_err().to_string();
        assert!(error.contains("missing.invalid:7"), "{error}");
    }
}
