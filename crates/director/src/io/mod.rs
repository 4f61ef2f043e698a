//! Sessions on sockets: a task of tokio's for each, which gives the core the time and
//! datagrams, and does what it says.

mod hub;
mod member;
pub mod outside;
mod path;
mod preconnection;
mod socket;

pub use hub::{Collected, Session};
pub use member::{Listener, Request};
pub use preconnection::Preconnection;

use crate::Nanos;
use crate::session::SessionError;
use std::net::{SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Why there is no session on sockets, or it failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The session itself.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A socket.
    #[error("{what}: {source}")]
    Socket {
        /// What was tried, with the address.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// No random numbers are to be had from the system.
    #[error("the system has no random numbers")]
    Random,
}

/// The first address of IPv4 of a name and a port, such as `meter-7:5700`; asks whoever
/// resolves names here, and waits for it.
///
/// # Errors
/// When there is none.
pub fn resolve(name: &str) -> Result<SocketAddrV4, Error> {
    let wrong = |source| Error::Socket { what: format!("the address of {name}"), source };
    let found = name.to_socket_addrs().map_err(wrong)?;
    let mut found = found.filter_map(|address| match address {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(_) => None,
    });
    found.next().ok_or_else(|| wrong(std::io::ErrorKind::AddrNotAvailable.into()))
}

/// Datagrams that are sent before it is looked whether any came.
const AT_ONCE: usize = 32;
/// The longest datagram.
const LONGEST: usize = 65_536;
/// So long nobody sleeps, in case a clock's wake-up is lost.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A clock that does not jump, from the start of a session.
#[derive(Debug, Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> Nanos {
        self.0.elapsed().as_nanos() as Nanos
    }

    /// When it will be `at`; not too far off.
    fn until(self, at: Option<Nanos>) -> Instant {
        let latest = Instant::now() + LONGEST_SLEEP;
        at.map_or(latest, |at| (self.0 + Duration::from_nanos(at)).min(latest))
    }
}

/// us since 1970, so that a later session is told from an earlier one.
fn session_number() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_micros() as u64).max(1)
}

fn random() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    let system = ring::rand::SystemRandom::new();
    ring::rand::SecureRandom::fill(&system, &mut bytes).map_err(|_| Error::Random)?;
    Ok(u64::from_ne_bytes(bytes))
}
