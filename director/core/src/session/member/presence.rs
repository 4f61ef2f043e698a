//! Whether the hub is there.

use super::Member;
use crate::Instant;

impl Member {
    /// Whether something of the hub is awaited: the member has not joined, or has open messages.
    pub fn is_waiting(&self) -> bool {
        !self.has_left()
            && (self.joined.is_none() || self.reports.is_lost() || self.open_messages() > 0)
    }

    /// Whether the hub has shown that it has the keys, and answers: the member has joined, or a handshake
    /// is complete.
    pub fn has_hub(&self) -> bool {
        let is_joined = self.joined.is_some() && !self.reports.is_lost();
        is_joined || self.handshakes.complete.is_some()
    }

    /// Something suggests that the hub is elsewhere, or has other keys: a report finds out.
    pub fn doubt(&mut self, now: Instant) {
        if self.joined.is_some() {
            self.reports.doubt(now);
        }
    }
}
