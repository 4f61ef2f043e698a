//! Sessions on sockets. Each session has a tokio task, the I/O driver, which passes datagrams and
//! time to the core and sends the core's datagrams.

mod backlog;
mod batch;
mod collect;
mod command;
#[cfg(feature = "discovery")]
mod discovery;
mod durable;
mod family;
mod folder_clock;
mod hub;
mod hub_storage;
mod inbox;
mod keeping;
mod log;
mod member;
mod member_command;
mod membership;
pub mod outside;
mod path;
mod preconnection;
mod publisher;
mod receipt_log;
mod record;
mod request;
mod resolver;
mod saver;
mod sending;
mod silence;
pub mod socket;
mod storage;
mod waiting;
mod warning;
mod writer;

pub use command::{Collected, StoredSending};
pub use durable::DurableMessage;
pub use folder_clock::FolderClock;
pub use hub::Session;
pub use inbox::{Inbox, Incoming};
pub use member::Listener;
pub use preconnection::Preconnection;
pub use publisher::Publisher;
pub use request::Request;
pub use resolver::{resolve, resolve_from};

use crate::Instant;
use crate::rng::NoRandomness;
use crate::session::{Config, SessionError};
use std::time::Duration;

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
    #[error(transparent)]
    Random(#[from] NoRandomness),
}

/// Multicast rate of external stacks with a separate rate, if none is configured, in bit/s.
const STACK_RATE: f64 = 10e6;

/// The rate that external stacks are configured with, in bit/s.
fn outside_rate(config: &Config) -> f64 {
    let configured = config.assumed.rate_bit_s;
    if configured > 0.0 { configured } else { STACK_RATE }
}

/// Datagrams to send per turn, and buffers of datagrams and commands to handle.
const AT_ONCE: usize = 64;
/// Maximum sleep, in case a wake-up is lost.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A monotonic clock, from the start of a session.
#[derive(Debug, Clone, Copy)]
struct Clock {
    start: tokio::time::Instant,
    /// The latest time that the session has seen.
    latest: Instant,
}

impl Clock {
    fn start() -> Self {
        Self { start: tokio::time::Instant::now(), latest: Instant::START }
    }

    fn now(&mut self) -> Instant {
        self.arrival(self.read())
    }

    /// The time of a datagram that arrived `at` a time. A session's time never goes back: at the
    /// earliest, the latest one before.
    fn arrival(&mut self, at: Instant) -> Instant {
        self.latest = self.latest.max(at);
        self.latest
    }

    /// The time now, which the session has not seen yet.
    fn read(self) -> Instant {
        Instant::START + self.start.elapsed().into()
    }

    /// The instant of `at`, limited to the maximum sleep.
    fn until(self, at: Option<Instant>) -> tokio::time::Instant {
        let latest = tokio::time::Instant::now() + LONGEST_SLEEP;
        at.map_or(latest, |at| (self.start + at.since_start().into()).min(latest))
    }
}
