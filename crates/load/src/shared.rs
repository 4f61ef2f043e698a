//! What the threads of a load share.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// State that the senders share with the thread that started them.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub stop: AtomicBool,
    pub lag: AtomicU64,
    pub sent: AtomicU64,
}
