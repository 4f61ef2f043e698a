//! Losses, and a path from which nothing comes back.

use super::{AFTER_LOSS, Capacity, FILLS, LATE_LOSS, MAX_BACKOFF};
use crate::Instant;

impl Capacity {
    /// Frames were lost; returns whether a queue has dropped them. Then the rate decreases, at
    /// most once in a round trip.
    pub fn lost(&mut self, now: Instant) -> bool {
        // Also losses of a radio: their repairs make arrivals slow (`is_evidence`).
        self.flight.losses = true;
        self.trips.lost();
        let seen = self.flight.rate().map(|rate| rate * self.scale / (1.0 - self.loss).max(0.1));
        // Where all arrives as it was sent, the queue is not the path's.
        let fills = seen.is_some_and(|seen| seen < FILLS * self.rate());
        if !(self.competes() || self.queues(self.flight.longest) && fills) {
            return false;
        }
        self.flight.lost = true;
        self.dropped_at = Some(now);
        // Losses within a round trip are of the same overflow of the queue, and count once.
        let trips = if self.competes() { LATE_LOSS } else { 1 };
        if now >= self.cut_at + trips * self.trip() {
            self.cut_at = now;
            self.startup = false;
            let least = seen.map_or(0.0, |seen| seen * AFTER_LOSS);
            self.rate = (self.rate() * AFTER_LOSS).max(least).min(self.rate());
            self.window.lost(self.competes(), now);
        }
        true
    }

    /// Whether a queue has dropped what was noticed at this time, or later.
    pub fn has_dropped(&self, noticed: Instant) -> bool {
        self.dropped_at.is_some_and(|at| at >= noticed)
    }

    /// Frames of a message that was sent at `sent_at`, or of an answer to it, were lost. If other traffic fills the
    /// queue, it has dropped them, as TCP assumes; otherwise arrivals tell the rate. What was sent before the
    /// last decrease was lost in the same overflow (RFC 9438, 4.6; RFC 6582).
    pub fn missing(&mut self, sent_at: Instant, now: Instant) {
        self.trips.lost();
        if self.competes() && sent_at >= self.cut_at {
            self.lost(now);
        }
    }

    /// Nothing has arrived in time: the path may carry far less, or nothing. Sending slows down
    /// until something arrives, at most once in a round trip; the estimate stays, because the path
    /// has not been measured.
    pub fn timeout(&mut self, now: Instant) {
        if now >= self.slowed_at + self.trip() {
            self.slowed_at = now;
            self.backoff = (self.backoff * 2.0).min(MAX_BACKOFF);
        }
    }
}
