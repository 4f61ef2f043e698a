//! Sessions on sockets. Each session has a tokio task, the I/O driver, which passes datagrams and
//! time to the core and sends the core's datagrams.

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

/// Error of a session on sockets.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Session error.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Socket error.
    #[error("{what}: {source}")]
    Socket {
        /// The operation, with the address.
        what: String,
        /// The system error.
        source: std::io::Error,
    },
    /// The system provides no random numbers.
    #[error("cannot read random numbers from the system")]
    Random,
}

/// Resolves a name and port, such as `meter-7:5700`, to its first IPv4 address. Blocks until the
/// resolver answers.
///
/// # Errors
/// [`Error::Socket`] if the name has no IPv4 address.
pub fn resolve(name: &str) -> Result<SocketAddrV4, Error> {
    let wrong = |source| Error::Socket { what: format!("cannot resolve {name}"), source };
    let found = name.to_socket_addrs().map_err(wrong)?;
    let mut found = found.filter_map(|address| match address {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(_) => None,
    });
    found.next().ok_or_else(|| wrong(std::io::ErrorKind::AddrNotAvailable.into()))
}

/// Datagrams per turn in one direction.
const AT_ONCE: usize = 32;
/// Maximum datagram size, in bytes.
const LONGEST: usize = 65_536;
/// Maximum sleep, in case a wake-up is lost.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A monotonic clock, from the start of a session.
#[derive(Debug, Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> Nanos {
        self.0.elapsed().as_nanos() as Nanos
    }

    /// The instant of `at`, limited to the maximum sleep.
    fn until(self, at: Option<Nanos>) -> Instant {
        let latest = Instant::now() + LONGEST_SLEEP;
        at.map_or(latest, |at| (self.0 + Duration::from_nanos(at)).min(latest))
    }
}

/// Session number: us since 1970, so that a later session has a larger one.
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
