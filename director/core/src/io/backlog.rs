//! How much waits for a member's application.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Messages that wait for an application, and their bytes, from which on the member takes no more.
const MAX_MESSAGES: usize = 16_384;
const MAX_BYTES: usize = 16 << 20;

/// Messages that have arrived and that the application has not taken.
#[derive(Debug, Clone, Default)]
pub(super) struct Backlog {
    messages: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
}

impl Backlog {
    /// A message of this many bytes arrives.
    pub fn add(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The application takes one of this many bytes.
    pub fn take(&self, bytes: usize) {
        self.messages.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether there is no room for another one.
    pub fn is_full(&self) -> bool {
        self.messages.load(Ordering::Relaxed) >= MAX_MESSAGES
            || self.bytes.load(Ordering::Relaxed) >= MAX_BYTES
    }
}
