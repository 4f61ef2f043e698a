//! Packet size: what the system knows, and what probes find.

use super::Hub;
use crate::envelope::{DATA_OVERHEAD, Invitation};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::{MemberId, MessageId};
use crate::{Instant, Span};

/// Maximum bytes that a model adds to a message: headers, count and code, and those of QUIC.
const ADDED: usize = 64;
/// Minimum time for the answer to a probe.
const MIN_ROUND: Span = Span::from_ms(20);

impl Hub {
    /// Sets the path MTU in bytes that the system knows, or `None` if unknown; the configured MTU
    /// remains the upper limit. Members are informed of a change.
    pub fn packets(&mut self, mtu: Option<u32>, now: Instant) {
        self.settled = None;
        let configured = self.configured_mtu as u32;
        self.path_mtu.set_limit(mtu.map_or(configured, |mtu| configured.min(mtu)));
        self.update_packets(now);
    }

    /// A message is late: packets of this size may not pass to a member that has not responded.
    pub(super) fn suspect_packets(&mut self, number: MessageId, now: Instant) {
        let count = self.switch.unacknowledged_count(number) as f64;
        let any = (self.rng.uniform() * count) as usize;
        let lacking = self.switch.unacknowledged(number).nth(any);
        lacking.into_iter().for_each(|member| self.suspect_member(member, now));
    }

    /// Packets of the size of messages or answers may not pass to or from a member.
    pub(super) fn suspect_member(&mut self, member: MemberId, now: Instant) {
        if !self.absent.contains(&member) {
            // Packets that the session does not send are not worth a search (decision 81).
            let content = self.payload.max(self.answer) + DATA_OVERHEAD;
            let longest = content + ADDED + self.below_datagram();
            let used = u32::try_from(longest).unwrap_or(u32::MAX);
            self.path_mtu.suspect(member, used, now);
        }
    }

    /// A member has no acknowledgement of its messages, in datagrams of up to `length` bytes: packets of this
    /// size may not pass to the hub.
    pub(super) fn suspect_uplink(&mut self, member: MemberId, length: u16, now: Instant) {
        if length > 0 && !self.absent.contains(&member) {
            let longest = usize::from(length) + self.below_datagram();
            let used = u32::try_from(longest).unwrap_or(u32::MAX);
            self.path_mtu.suspect_alone(member, used, now);
        }
    }

    /// Several messages or answers can be sent together, in a datagram of this length.
    pub(super) fn bundle_sent(&mut self, length: usize) {
        let size = u32::try_from(length + self.below_datagram()).unwrap_or(u32::MAX);
        self.path_mtu.record_bundle(size);
    }

    /// The next probe: an invitation to the current epoch, which its member answers in a datagram
    /// of the same size.
    pub(super) fn next_probe(&mut self, now: Instant) -> Option<(MemberId, Vec<u8>)> {
        self.path_mtu.next_at().filter(|at| *at <= now)?;
        let here = self.conditions();
        let trip = here.rtt.max(self.capacity.smoothed_trip().unwrap_or_default());
        let airtime = f64::from(self.path_mtu.size()) * 8e9 / here.rate_bit_s.max(1.0);
        let next = self.path_mtu.poll(now, 2 * trip + 4 * Span::from_ns_f64(airtime) + MIN_ROUND);
        self.update_packets(now);
        let (member, size) = next?;
        let (_, epoch) = self.switch.current();
        // An authenticated message that members understand anyway (decision 81).
        let invitation = Invitation { probes: true, ..self.parameters(member, epoch)? };
        let datagram = (size as usize).saturating_sub(self.below_datagram());
        let (root, count) = self.pairings.get_mut(&member)?.control()?;
        Some((member, invitation.seal(root, count, datagram)))
    }

    /// A member has answered an invitation by a datagram of `length` bytes.
    pub(super) fn probe_answered(&mut self, member: MemberId, length: usize, now: Instant) {
        let size = u32::try_from(length + self.below_datagram()).unwrap_or(u32::MAX);
        if self.path_mtu.answered(member, size, now) {
            self.update_packets(now);
        }
    }

    /// Bytes of IP and UDP headers.
    fn below_datagram(&self) -> usize {
        (self.config.assumed.mtu as usize).saturating_sub(self.config.datagram())
    }

    fn update_packets(&mut self, now: Instant) {
        self.set_packets();
        self.renew(now);
    }

    /// Takes the packet size that is known now for what follows; the next decision informs members of it.
    pub(super) fn set_packets(&mut self) {
        let mtu = f64::from(self.path_mtu.size());
        if mtu != self.config.assumed.mtu {
            self.config.assumed.mtu = mtu;
            let datagram = self.config.datagram();
            for (member, own) in &mut self.uplinks.lanes {
                own.lane.set_datagram(datagram);
                self.uplinks.agenda.touch(*member);
            }
            // The system fragments longer datagrams into packets of the size that it knows.
            self.policy.fragments_vanish(self.path_mtu.is_reduced());
            self.urgent = true;
        }
    }
}
