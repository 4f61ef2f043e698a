//! The address of the hub.

use super::Driver;
use crate::Instant;
use crate::io::batch::Arrival;
use crate::io::family;
use std::net::SocketAddr;

impl Driver {
    /// Looks for a hub that does not answer, and says so.
    pub(super) fn seek(&mut self) {
        let now = self.clock.now();
        if self.resolver.poll(self.member.is_waiting(), now) {
            self.member.doubt(now);
        }
        if self.silence.is_due(self.member.has_hub() || self.member.has_left(), now) {
            self.warnings.silent(self.hub);
        }
    }

    /// Handles a datagram: only those from the hub's address count.
    pub(super) fn receive(&mut self, Arrival { bytes, from, waited }: Arrival<'_>, now: Instant) {
        if !family::same(from, self.hub) {
            return self.resolver.heard_other();
        }
        let now = self.clock.arrival(now - waited);
        self.member.receive(bytes, now);
        // Someone else at this address can send anything.
        if self.member.has_hub() {
            self.resolver.record_arrival(now);
        }
        if self.member.misses_multicast(bytes) {
            self.join_again();
        }
    }

    /// The hub may be at this address. Only the address changes: keys decide whose session a member
    /// joins.
    pub(super) fn follow(&mut self, hub: SocketAddr) {
        // The present one may have answered meanwhile.
        let is_possible = hub.is_ipv6() == self.local.is_ipv6() && family::is_of_host(&hub);
        if self.member.is_waiting() && is_possible {
            self.hub = hub;
        }
    }
}
