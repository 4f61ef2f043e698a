//! Datagrams that may be sent in a round trip: a few without knowledge of the path, and as many as TCP
//! CUBIC (RFC 9438) where other traffic fills the queue, so that both have about the same share.

use crate::Instant;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;

/// Datagrams that may be sent in a round trip without knowledge of the path (RFC 6928).
pub(super) const INITIAL: f64 = 10.0;
/// Decrease after a loss in a queue, and the growth in datagrams per cubic second (RFC 9438, 4.6 and 5).
const AFTER_LOSS: f64 = 0.7;
const GROWTH: f64 = 0.4;
/// Datagrams per round trip with which Reno is as fast on average, if it decreases as this does (RFC 9438, 4.3).
const AS_RENO: f64 = 3.0 * (1.0 - AFTER_LOSS) / (1.0 + AFTER_LOSS);
/// Maximum growth in a round trip (RFC 9438, 4.2).
const MAX_GROWTH: f64 = 1.5;
/// Decrease without competition (RFC 5681).
const HALVED: f64 = 0.5;

/// The window, in datagrams.
#[derive(Debug, Clone)]
pub(super) struct Window {
    size: f64,
    /// Its size before the last decrease.
    max: f64,
    /// What Reno would have.
    reno: f64,
    /// Time of the last decrease, or of the begin of the competition.
    since: Instant,
}

impl Default for Window {
    fn default() -> Self {
        Self { size: INITIAL, max: INITIAL, reno: INITIAL, since: Instant::START }
    }
}

impl Window {
    /// Its size in datagrams.
    pub fn size(&self) -> f64 {
        self.size
    }

    /// Other traffic begins to fill the queue, while this many datagrams go in a round trip.
    pub fn compete(&mut self, size: f64, now: Instant) {
        let size = size.max(INITIAL);
        *self = Self { size, max: size, reno: size, since: now };
    }

    /// It ends.
    pub fn leave(&mut self) {
        self.size = self.size.min(INITIAL);
    }

    /// This number of datagrams has arrived. Without competition the delivery rate decides, and the
    /// window only grows back after losses, by a datagram in a round trip.
    pub fn arrived(&mut self, datagrams: f64, competes: bool, now: Instant) {
        if !competes {
            self.size = (self.size + datagrams / self.size).min(INITIAL.max(self.size));
            return;
        }
        let alpha = if self.reno < self.max { AS_RENO } else { 1.0 };
        self.reno += alpha * datagrams / self.size;
        let begin = (self.max * (1.0 - AFTER_LOSS) / GROWTH).cbrt();
        let passed = (now - self.since).as_ns_f64() / 1e9 - begin;
        let target = GROWTH * passed.powi(3) + self.max;
        let target = target.clamp(self.size, self.size * MAX_GROWTH);
        self.size += (target - self.size) * datagrams / self.size;
        self.size = self.size.max(self.reno);
    }

    /// A queue has dropped datagrams.
    pub fn lost(&mut self, competes: bool, now: Instant) {
        if !competes {
            self.size = (self.size * HALVED).max(1.0);
            return;
        }
        // Fast convergence: others have taken a share (RFC 9438, 4.7).
        let shrinks = self.size < self.max;
        self.max = if shrinks { self.size * (1.0 + AFTER_LOSS) / 2.0 } else { self.size };
        self.size = (self.size * AFTER_LOSS).max(1.0);
        (self.reno, self.since) = (self.size, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    /// Round trips of 100 ms, each with a window that arrives, and a loss after some of them.
    fn run(window: &mut Window, trips: u64, begin: Instant) -> Instant {
        (0..trips).fold(begin, |now, _| {
            let now = now + Span::from_ms(100);
            (0..10).for_each(|_| window.arrived(window.size() / 10.0, true, now));
            now
        })
    }

    /// By hand: K = (100 * 0.3 / 0.4)^(1/3) = 4.217 s; after 5 s 0.4 * 0.783^3 = 0.19 more than before the
    /// loss, after 9 s 0.4 * 4.783^3 = 43.8.
    #[test]
    fn it_grows_back_as_cubic_does() {
        let mut window = Window::default();
        window.compete(100.0, Instant::START);
        window.lost(true, Instant::START);
        assert_eq!(window.size(), 70.0);
        let now = run(&mut window, 10, Instant::START);
        assert!((85.0..88.0).contains(&window.size()), "{}", window.size());
        let now = run(&mut window, 40, now);
        assert!((99.0..101.0).contains(&window.size()), "{}", window.size());
        run(&mut window, 40, now);
        assert!((140.0..144.0).contains(&window.size()), "{}", window.size());
    }

    /// A small window grows as that of Reno: 0.53 datagrams in a round trip.
    #[test]
    fn a_small_window_grows_as_that_of_reno() {
        let mut window = Window::default();
        window.compete(10.0, Instant::START);
        window.lost(true, Instant::START);
        run(&mut window, 4, Instant::START);
        assert!((9.0..9.3).contains(&window.size()), "{}", window.size());
        window.lost(false, Instant::START);
        window.leave();
        (0..1_000).for_each(|_| window.arrived(10.0, false, Instant::START));
        assert_eq!(window.size(), INITIAL);
    }
}
