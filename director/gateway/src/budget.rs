//! Limits of memory for the messages of all clients.

use crate::packet::MAX_PACKET;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum size of all messages of QoS 1 and 2 in one direction, in bytes.
pub const MOST: usize = 64 << 20;
/// Bytes of a message in memory in addition to its topic, payload and properties.
pub const OVERHEAD: usize = 256;
/// Maximum size of a message of a client: of MQTT 5, its packet may have an alias in place of a topic.
const LONGEST: usize = MAX_PACKET + u16::MAX as usize + OVERHEAD;

/// Memory for messages that clients have sent and the gateway has not delivered. A client waits for
/// it: it is not read meanwhile, so that TCP slows it down.
#[derive(Debug, Clone)]
pub struct Inflow(Arc<Semaphore>);

impl Default for Inflow {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl Inflow {
    /// Waits for room for a message with this size in bytes.
    pub async fn take(&self, bytes: usize) -> Room {
        let bytes = (bytes + OVERHEAD).min(MOST) as u32;
        // The semaphore is never closed.
        Room(self.0.clone().acquire_many_owned(bytes).await.ok().map(Arc::new))
    }

    /// Bytes of all messages that have room.
    pub fn used(&self) -> usize {
        MOST - self.0.available_permits()
    }

    /// Whether clients may have to wait: the longest message has no room.
    pub fn is_full(&self) -> bool {
        self.0.available_permits() < LONGEST
    }
}

/// The room of a message, until its last copy is dropped. Two messages are equal whatever room they
/// have.
#[derive(Debug, Clone, Default)]
pub struct Room(
    #[expect(dead_code, reason = "it is only dropped")] Option<Arc<OwnedSemaphorePermit>>,
);

impl PartialEq for Room {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Room {}

/// Memory for messages to clients that are not connected or slow. Further ones are dropped and counted.
#[derive(Debug, Clone)]
pub struct Outflow {
    most: usize,
    used: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

impl Default for Outflow {
    fn default() -> Self {
        Self { most: MOST, used: Arc::default(), dropped: Arc::default() }
    }
}

impl Outflow {
    /// Memory of this size in bytes.
    pub fn of(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Counts bytes until the result is dropped, which messages with one payload may share.
    /// `None` if there is not enough.
    pub fn hold(&self, bytes: usize) -> Option<Arc<Held>> {
        let used = self.used.fetch_add(bytes, Relaxed) + bytes;
        let held = Held { bytes, used: self.used.clone() };
        (used <= self.most).then(|| Arc::new(held))
    }

    /// The same for what cannot be refused.
    pub fn count(&self, bytes: usize) -> Arc<Held> {
        self.used.fetch_add(bytes, Relaxed);
        Arc::new(Held { bytes, used: self.used.clone() })
    }

    /// Whether nothing more is to be accepted.
    pub fn is_full(&self) -> bool {
        self.used() >= self.most
    }

    /// A message was dropped.
    pub fn drop_one(&self) {
        self.dropped.fetch_add(1, Relaxed);
    }

    /// Number of messages dropped since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Relaxed)
    }

    /// Bytes of all messages.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }
}

/// Bytes that are counted.
#[derive(Debug)]
pub struct Held {
    bytes: usize,
    used: Arc<AtomicUsize>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_free_when_the_last_copy_is_dropped() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let inflow = Inflow::default();
            let first = inflow.take(MOST / 2).await;
            let copy = first.clone();
            let second = inflow.take(MOST / 2 - 2 * OVERHEAD).await;
            assert!(inflow.is_full());
            let mut third = Box::pin(inflow.take(1));
            let soon = std::time::Duration::from_millis(20);
            assert!(tokio::time::timeout(soon, &mut third).await.is_err(), "there was room");
            drop(first);
            assert!(tokio::time::timeout(soon, &mut third).await.is_err(), "a copy has it");
            drop(copy);
            let third = third.await;
            assert!(!inflow.is_full());
            drop((second, third));
            assert_eq!(inflow.used(), 0);
        });
    }

    #[test]
    fn what_is_refused_is_not_counted() {
        let outflow = Outflow::of(100);
        let held = outflow.hold(60).unwrap();
        assert!(outflow.hold(41).is_none());
        assert_eq!(outflow.used(), 60);
        let shared = held.clone();
        drop(held);
        assert!(outflow.hold(40).is_some(), "not kept");
        assert_eq!(outflow.used(), 60);
        drop(shared);
        assert_eq!(outflow.used(), 0);
    }
}
