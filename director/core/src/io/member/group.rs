//! The group's socket.

use super::Driver;
use crate::Span;
use crate::io::socket;
use std::net::SocketAddr;

/// Minimum interval of multicast joins.
const JOIN_EVERY: Span = Span::from_s(2);

impl Driver {
    /// Joins the group again: multicast routers or switches may have missed the first join.
    pub(super) fn join_again(&mut self) {
        let now = self.clock.now();
        if now >= self.join_at
            && let Some((group, own)) = &self.group
        {
            self.join_at = now + JOIN_EVERY;
            socket::join_again(own, *group, self.local.ip());
        }
    }

    /// Joins a group, unless joined. If that fails, multicast models fail, and the hub detects
    /// it.
    pub(super) fn hear(&mut self, group: SocketAddr) {
        if self.group.as_ref().is_none_or(|(known, _)| *known != group) {
            self.group = socket::group(group, self.local.ip())
                .and_then(socket::driven)
                .ok()
                .map(|own| (group, own));
        }
    }
}
