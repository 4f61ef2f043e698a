//! Datagrams from members.

use super::Hub;
use crate::Instant;
use crate::bundle;
use crate::carrier::{self, CarrierEvent};
use crate::envelope::{self, FromMember};
use crate::handshake;
use crate::model::Models;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::policy::MIN_TIMEOUT;
use crate::session::Event;
use crate::switch::{MemberId, MessageId};
use crate::uplink;

impl Hub {
    /// Handles a datagram or a frame of an external stack. `from` is the member with the source
    /// address, if any.
    pub fn receive(&mut self, datagram: &[u8], from: Option<MemberId>, now: Instant) {
        self.settled = None;
        self.fresh = None;
        self.strangers.is_refused = false;
        self.receive_from(datagram, from, now);
        self.fresh.into_iter().for_each(|member| self.strangers.found(member));
    }

    fn receive_from(&mut self, datagram: &[u8], from: Option<MemberId>, now: Instant) {
        if handshake::is_hello(datagram) {
            // The address may be another member's by now (DHCP, NAT): a hello that its member's key
            // does not open is tried with the others.
            if !from.is_some_and(|member| self.handle_hello(member, datagram, now)) {
                self.handle_stranger(datagram, from, now);
            }
            return;
        }
        // By its keys, not by its address (decision 84).
        if let Some((member, frame)) = uplink::take_member(datagram) {
            self.handle_uplink(member, frame, now);
            return;
        }
        self.unproved = Some(datagram.len());
        if envelope::is_envelope(datagram) {
            self.envelope(datagram.to_vec(), now);
        } else {
            self.frame(datagram, from, now);
        }
        self.unproved = None;
    }

    /// The member that the last datagram is from, if it carried something that the member has not
    /// sent before: a repeated datagram, which anyone can send, gives none.
    pub fn take_fresh(&mut self) -> Option<MemberId> {
        self.fresh.take()
    }

    /// Whether the last datagram was a hello that no key of the session opens: at most once a minute for the
    /// address of each member, and once a second for other addresses. Its sender has another key, or was revoked. Anyone can send one, so it changes nothing.
    pub fn take_refused(&mut self) -> bool {
        core::mem::take(&mut self.strangers.is_refused)
    }

    fn frame(&mut self, datagram: &[u8], from: Option<MemberId>, now: Instant) {
        let mut genuine = false;
        let mut events = core::mem::take(&mut self.carried);
        // Frames of external stacks carry no epoch, but their envelopes do: any stage will do.
        let outside = carrier::model_of(datagram);
        let newest = self.stages.iter().rev().find(|(_, stage)| Some(stage.model) == outside);
        let newest = newest.map(|(epoch, _)| *epoch);
        for (epoch, stage) in &mut self.stages {
            if carrier::is_of(stage.model, datagram) && newest.is_none_or(|newest| newest == *epoch)
            {
                genuine |= stage.carrier.receive(datagram, from, now);
                stage.carrier.take(&mut events);
            }
        }
        if genuine {
            if bundle::is_bundle(datagram) {
                // Longer ones may have been lost.
                self.bundle_sent(self.config.datagram());
            }
            self.proved(from, now);
        }
        self.handle_carrier_events(events, now);
    }

    /// The datagram in hand is from a member, and new. Nothing else may move an estimate.
    pub(super) fn proved(&mut self, from: Option<MemberId>, now: Instant) {
        if let Some(length) = self.unproved.take() {
            self.record_arrival(from, length, now);
            self.mark_alive(now);
        }
    }

    /// A control message is from a member, and new.
    fn proved_control(&mut self, now: Instant) {
        // No arrival for the capacity: the hub paces these exchanges apart from the models.
        if self.unproved.take().is_some() {
            self.mark_alive(now);
        }
    }

    /// Records that a member is reachable.
    pub(super) fn mark_alive(&mut self, now: Instant) {
        let silent = now - self.heard_at;
        // There was an outage: lateness counts from its end (`check_late`).
        if silent > MIN_TIMEOUT && silent > self.timeout() {
            self.resumed_at = now;
        }
        self.heard_at = now;
    }

    pub(super) fn handle_carrier_events(&mut self, mut events: Vec<CarrierEvent>, now: Instant) {
        for carried in events.drain(..) {
            match carried {
                CarrierEvent::Delivered(member, number) => {
                    // If the pattern has answers, only the answer counts.
                    if !self.config.pattern.is_answered() {
                        self.acknowledged(member, number, now);
                    }
                }
                CarrierEvent::Envelope(bytes) => self.envelope(bytes, now),
                CarrierEvent::Frames { member, received, lost, noticed } => {
                    if noticed == now && lost > 0 {
                        self.gap(member, now);
                    }
                    self.frames(member, received, lost, noticed);
                }
                CarrierEvent::Gap(member) => self.gap(member, now),
                CarrierEvent::RoundTrip(member, ns) => self.round_trip(member, ns, now),
                CarrierEvent::Timeout(member, sent_at) => {
                    // Something has arrived since: it is a loss, and no silence of the path
                    // (decision 80).
                    if self.heard_at <= sent_at && !self.apart.has(member) {
                        self.capacity.timeout(now);
                    }
                }
                CarrierEvent::Train(train) => self.capacity.train(train, now),
                CarrierEvent::Missing(member, _) if self.apart.has(member) => {}
                CarrierEvent::Missing(_, sent_at) => self.capacity.missing(sent_at, now),
                CarrierEvent::Vanished(member) => self.suspect_member(member, now),
                CarrierEvent::MulticastBlocked => {
                    if self.multicast.block(now) {
                        self.set_multicast(false);
                    }
                }
            }
        }
        self.carried = events;
    }

    fn envelope(&mut self, bytes: Vec<u8>, now: Instant) {
        let (_, epoch) = self.switch.current();
        let Some(member) = envelope::member_of(&bytes).map(MemberId::from) else { return };
        let Some(pairing) = self.pairings.get_mut(&member) else { return };
        let start = pairing.keys().map(|(_, start)| start);
        let opened = pairing.open(epoch, self.next, bytes);
        if let Some((pair, _)) = pairing.keys().filter(|(_, now)| Some(*now) != start) {
            // It has proved other keys: those of another start.
            self.stages.values_mut().for_each(|stage| stage.carrier.set_pair(member, pair));
        }
        let Some((epoch, what)) = opened else { return };
        match what {
            FromMember::Answer(number, body) => {
                // Anyone can repeat a recorded answer, from any address: only an awaited one moves
                // the member there and counts as an arrival.
                if self.switch.awaits(number, member) {
                    self.fresh = Some(member);
                    self.proved(Some(member), now);
                    self.answer = body.len();
                    self.events.push_back(Event::Answer { message: number, member, bytes: body });
                    self.done(member, number, now);
                }
            }
            FromMember::Acknowledge(number) => self.acknowledged(member, number, now),
            FromMember::Alive(_, models, waits) => {
                self.handle_report(member, epoch, models, now);
                self.suspect_uplink(member, waits, now);
            }
            FromMember::Cannot(_, models) => {
                self.proved_control(now);
                self.set_models(member, models);
            }
            FromMember::Ready(_, models, echo) => {
                self.fresh = Some(member);
                // `proved_control` takes the length, which the probe of the packet size needs.
                let length = self.unproved;
                self.proved_control(now);
                self.handle_echo(member, echo, now);
                length.into_iter().for_each(|length| self.probe_answered(member, length, now));
                if !self.is_joined(member, epoch, models, now) {
                    return;
                }
                self.invite_queue.remove(member, epoch);
                let (_, newest) = self.switch.current();
                if epoch != newest {
                    // A late invitation, or one of a handshake that another has overtaken.
                    self.invite_queue.push_back(member, newest);
                }
                let actions = self.switch.ready(member, epoch);
                // A message that the new model rejects expires.
                let _ = self.perform(actions, now);
            }
        }
    }

    /// A member is in an epoch. Returns `false` if it must change to another one before it can join.
    pub(super) fn is_joined(
        &mut self,
        member: MemberId,
        epoch: u32,
        models: Models,
        now: Instant,
    ) -> bool {
        if !self.rejoin(member, epoch) {
            return false;
        }
        self.strangers.record_report(member, now);
        self.set_models(member, models);
        if self.absent.remove(&member) {
            self.retries.joined(member, self.retry_time(), now);
            self.failed_rounds = 0;
            self.events.push_back(Event::Joined(member));
            self.check_multicast(now);
        }
        true
    }

    fn acknowledged(&mut self, member: MemberId, number: MessageId, now: Instant) {
        if self.switch.awaits(number, member) && !self.config.pattern.is_answered() {
            self.proved(Some(member), now);
            self.events.push_back(Event::Acknowledged { message: number, member });
            self.done(member, number, now);
        }
    }

    fn done(&mut self, member: MemberId, number: MessageId, now: Instant) {
        self.switch.acknowledged(member, number);
        self.served_at = now;
        // After the member was removed: the delay ends when all others have answered.
        self.record_delay(number, now);
        if !self.switch.is_open(number) && self.messages.remove(&number).is_some() {
            // If this was the last one, a new epoch would send no message again.
            self.renew(now);
            self.events.push_back(Event::Over { message: number, lacking: Vec::new() });
        }
    }
}
