//! The address of a hub that has a name: it is resolved again when the hub seems to be elsewhere.

use super::Error;
#[cfg(feature = "discovery")]
use super::discovery;
use super::family::Family;
use crate::{Instant, Span};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use tokio::task::JoinHandle;

/// An announced hub; without discovery there is none.
#[cfg(feature = "discovery")]
pub(super) use super::discovery::Announcement;
#[cfg(not(feature = "discovery"))]
pub(super) type Announcement = std::convert::Infallible;

/// Resolves a name and port, such as `meter-7:5700`, to its first IPv4 address, or to its first IPv6
/// address if it has no other. Blocks until the resolver answers. With the feature `discovery`,
/// `NAME._tb-director._udp.local` is a hub that announces itself as `NAME`
/// ([`Preconnection::announce`](super::Preconnection::announce)): waits for it, half a minute at most,
/// and returns one of the addresses that are announced for this name, at random.
///
/// # Errors
/// [`Error::Socket`] if the name has no address, or no such hub announces itself.
pub fn resolve(name: &str) -> Result<SocketAddr, Error> {
    resolve_in(name, None)
}

/// Resolves a name as [`resolve`] does, to an address of the family of `local`: that of a hub, for a
/// member at `local`.
///
/// # Errors
/// As [`resolve`], and if the name has no address of that family.
pub fn resolve_from(local: SocketAddr, name: &str) -> Result<SocketAddr, Error> {
    resolve_in(name, Some(Family::of(local)))
}

fn resolve_in(name: &str, family: Option<Family>) -> Result<SocketAddr, Error> {
    #[cfg(feature = "discovery")]
    if let Some(hub) = discovery::instance(name) {
        return discovery::find(hub, family);
    }
    let wrong = |source| Error::Socket { what: format!("cannot resolve {name}"), source };
    if !has_port(name) {
        let why = "NAME:PORT is expected, for example hub:5700, 127.0.0.1:5700 or [::1]:5700";
        return Err(wrong(std::io::Error::new(std::io::ErrorKind::InvalidInput, why)));
    }
    let found = name.to_socket_addrs().map_err(wrong)?;
    let found = found.filter(|at| family.is_none_or(|family| family == Family::of(*at)));
    found.min_by_key(SocketAddr::is_ipv6).ok_or_else(|| {
        let kind = family.map_or("", Family::adjective);
        let why =
            format!("it has no {kind}address; all ends of a session need addresses of one family");
        wrong(std::io::Error::new(std::io::ErrorKind::AddrNotAvailable, why))
    })
}

fn has_port(name: &str) -> bool {
    let is_port = |(host, port): (&str, &str)| {
        !host.is_empty() && !host.contains(':') && port.parse::<u16>().is_ok()
    };
    name.parse::<SocketAddr>().is_ok() || name.rsplit_once(':').is_some_and(is_port)
}

/// Gives the hub's address; may block.
pub(super) type Resolve = Arc<dyn Fn() -> Result<SocketAddr, Error> + Send + Sync>;

/// Addresses of a member.
pub(super) struct Ends {
    /// The member's.
    pub local: SocketAddr,
    /// The hub's, and how it is found again.
    pub hub: SocketAddr,
    /// See `hub`.
    pub resolve: Option<Resolve>,
}

/// Minimum time between two calls, and time of silence before one.
const EVERY: Span = Span::from_s(10);

/// Resolves the hub's address again, on another thread.
pub(super) struct Resolver {
    resolve: Option<Resolve>,
    running: Option<JoinHandle<Result<SocketAddr, Error>>>,
    /// Time of the last call or of the last datagram of the hub.
    at: Instant,
    /// Whether another address has sent something since.
    is_elsewhere: bool,
}

impl Resolver {
    pub fn new(resolve: Option<Resolve>) -> Self {
        Self { resolve, running: None, at: Instant::START, is_elsewhere: false }
    }

    /// The hub has sent a datagram that its keys have sealed: its address is still right.
    pub fn record_arrival(&mut self, now: Instant) {
        (self.at, self.is_elsewhere) = (now, false);
    }

    /// Another address has sent a datagram. Anyone can do that.
    pub fn heard_other(&mut self) {
        self.is_elsewhere = true;
    }

    /// Begins to resolve if it is time and the member waits for the hub (`is_waiting`). Returns whether
    /// it is time to ask the hub whether it is still there, because another address has sent something.
    pub fn poll(&mut self, is_waiting: bool, now: Instant) -> bool {
        // Anyone can send datagrams: they cause one question or look-up in this time at most.
        let due = now >= self.at + EVERY && (is_waiting || self.is_elsewhere);
        if !due || self.running.is_some() {
            return false;
        }
        (self.at, self.is_elsewhere) = (now, false);
        if is_waiting && let Some(resolve) = self.resolve.clone() {
            self.running = Some(tokio::task::spawn_blocking(move || resolve()));
        }
        !is_waiting && self.resolve.is_some()
    }

    /// The address, when it is resolved again; a failure is none.
    pub async fn resolved(&mut self) -> Option<SocketAddr> {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let found = running.await;
        self.running = None;
        found.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_port_gets_the_expected_form() {
        for name in ["127.0.0.1", "hub", "::1", "[::1]", "hub:", "hub:70000", ":5700"] {
            let error = resolve(name).unwrap_err().to_string();
            let expected = format!("cannot resolve {name}: NAME:PORT is expected");
            assert!(error.starts_with(&expected), "{error}");
        }
        assert_eq!(resolve("127.0.0.1:9").unwrap(), ([127, 0, 0, 1], 9).into());
        assert!(resolve("[::1]:9").unwrap().is_ipv6());
        let six = "[::]:0".parse().unwrap();
        assert!(resolve_from(six, "[::1]:9").unwrap().is_ipv6());
        let error = resolve_from(six, "127.0.0.1:9").unwrap_err().to_string();
        assert!(error.contains("127.0.0.1:9") && error.contains("no IPv6 address"), "{error}");
    }
}
