//! The address of a hub that has a name: it is resolved again when the hub seems to be elsewhere.

use super::Error;
use crate::Nanos;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Gives the hub's address; may block.
pub(super) type Resolve = Arc<dyn Fn() -> Result<SocketAddr, Error> + Send + Sync>;

/// Minimum time between two calls, in ns, and time of silence before one.
const EVERY: Nanos = 10_000_000_000;

/// Resolves the hub's address again, on another thread.
pub(super) struct Resolver {
    resolve: Option<Resolve>,
    running: Option<JoinHandle<Result<SocketAddr, Error>>>,
    /// Time of the last call or of the last datagram of the hub.
    at: Nanos,
    /// Whether another address has sent something since.
    is_elsewhere: bool,
}

impl Resolver {
    pub fn new(resolve: Option<Resolve>) -> Self {
        Self { resolve, running: None, at: 0, is_elsewhere: false }
    }

    /// The hub has sent a datagram: its address is still right.
    pub fn record_arrival(&mut self, now: Nanos) {
        (self.at, self.is_elsewhere) = (now, false);
    }

    /// Another address has sent a datagram. Anyone can do that.
    pub fn heard_other(&mut self) {
        self.is_elsewhere = true;
    }

    /// Begins to resolve if it is time; the member waits for the hub if `is_waiting`.
    pub fn poll(&mut self, is_waiting: bool, now: Nanos) {
        let due = now >= self.at + EVERY && (is_waiting || self.is_elsewhere);
        if due
            && self.running.is_none()
            && let Some(resolve) = self.resolve.clone()
        {
            (self.at, self.is_elsewhere) = (now, false);
            self.running = Some(tokio::task::spawn_blocking(move || resolve()));
        }
    }

    /// The address, when it is resolved again; a failure is none.
    pub async fn resolved(&mut self) -> Option<SocketAddr> {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let found = running.await;
        self.running = None;
        found.ok()?.ok()
    }
}
