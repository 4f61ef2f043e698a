//! Counts acknowledged packets. The statistics of a connection contain only lost packets, but its
//! congestion controller sees both.

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, CubicConfig};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Creates default controllers (CUBIC, RFC 9438) that count acknowledged packets.
pub struct Counter(pub Arc<AtomicU32>);

impl ControllerFactory for Counter {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::new(CubicConfig::default()).build(now, mtu);
        Box::new(Counting { inner, received: self.0.clone() })
    }
}

struct Counting {
    inner: Box<dyn Controller>,
    received: Arc<AtomicU32>,
}

impl Controller for Counting {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, idle: bool, rtt: &RttEstimator) {
        self.received.fetch_add(1, Ordering::Relaxed);
        self.inner.on_ack(now, sent, bytes, idle, rtt);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        self.inner.on_congestion_event(now, sent, persistent, lost);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.inner.on_mtu_update(mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), received: self.received.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
