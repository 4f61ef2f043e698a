//! Datagrams from members.

use super::Hub;
use crate::Nanos;
use crate::carrier::{self, CarrierEvent};
use crate::envelope::{self, FromMember};
use crate::session::Event;
use crate::switch::{MemberId, MessageId};

impl Hub {
    /// Handles a datagram or a frame of an external stack. `from` is the member with the source
    /// address, if any.
    pub fn receive(&mut self, datagram: &[u8], from: Option<MemberId>, now: Nanos) {
        self.estimator.arrival(now, datagram.len() + self.config.below);
        if from.is_some() {
            self.mark_alive(now);
        }
        if let Some(known) = envelope::open_hello(&self.invites, datagram) {
            if let Some(member) = from {
                // The largest number has no successor.
                let later = known.checked_add(1).filter(|_| known > self.root.session());
                if let Some(later) = later {
                    self.renumber(later, now);
                }
                self.handle_hello(member);
            }
            return;
        }
        if envelope::is_envelope(datagram) {
            self.envelope(datagram, now);
            return;
        }
        let mut events = Vec::new();
        // Frames of external stacks carry no epoch, but their envelopes do: any stage will do.
        let outside = carrier::model_of(datagram);
        let newest = self.stages.iter().rev().find(|(_, stage)| Some(stage.model) == outside);
        let newest = newest.map(|(epoch, _)| *epoch);
        for (epoch, stage) in &mut self.stages {
            if carrier::is_of(stage.model, datagram) && newest.is_none_or(|newest| newest == *epoch)
            {
                stage.carrier.receive(datagram, from, now);
                events.extend(stage.carrier.take());
            }
        }
        self.handle_carrier_events(events, now);
    }

    /// Records that a member is reachable.
    fn mark_alive(&mut self, now: Nanos) {
        if now.saturating_sub(self.heard_at) > self.timeout() {
            self.resumed_at = now;
        }
        self.heard_at = now;
    }

    pub(super) fn handle_carrier_events(&mut self, events: Vec<CarrierEvent>, now: Nanos) {
        for carried in events {
            match carried {
                CarrierEvent::Delivered(member, number) => {
                    // If the pattern has answers, only the answer counts.
                    if !self.config.pattern.is_answered() {
                        self.acknowledged(member, number, now);
                    }
                }
                CarrierEvent::Envelope(bytes) => self.envelope(&bytes, now),
                CarrierEvent::Frames { received, lost } => self.estimator.frames(received, lost),
                CarrierEvent::RoundTrip(ns) => self.estimator.round_trip(ns),
                CarrierEvent::MulticastBlocked => {
                    if self.multicast.block(now) {
                        self.policy.multicast(false);
                        self.urgent = true;
                    }
                }
            }
        }
    }

    fn envelope(&mut self, bytes: &[u8], now: Nanos) {
        let (_, epoch) = self.switch.current();
        let Some((member, what)) = envelope::open_member(&self.root, (epoch, self.next), bytes)
        else {
            return;
        };
        // Messages over an external stack have no source address.
        self.mark_alive(now);
        match what {
            FromMember::Answer(number, body) => {
                if self.switch.awaits(number, member) {
                    self.answer = body.len();
                    self.events.push_back(Event::Answer { message: number, member, bytes: body });
                    self.done(member, number, now);
                }
            }
            FromMember::Acknowledge(number) => self.acknowledged(member, number, now),
            FromMember::Cannot(_, models) => self.set_models(member, models),
            FromMember::Ready(epoch, models) => {
                self.set_models(member, models);
                self.invite_queue.remove(member, epoch);
                if self.absent.remove(&member) {
                    self.failed_rounds = 0;
                    self.events.push_back(Event::Joined(member));
                }
                if self.multicast.probe_answered(member, now) {
                    self.policy.multicast(true);
                }
                let actions = self.switch.ready(member, epoch);
                // A message that the new model rejects expires.
                let _ = self.perform(actions, now);
            }
        }
    }

    fn acknowledged(&mut self, member: MemberId, number: MessageId, now: Nanos) {
        if self.switch.awaits(number, member) && !self.config.pattern.is_answered() {
            self.events.push_back(Event::Acknowledged { message: number, member });
            self.done(member, number, now);
        }
    }

    fn done(&mut self, member: MemberId, number: MessageId, now: Nanos) {
        self.switch.acknowledged(member, number);
        if !self.switch.is_open(number)
            && let Some(outgoing) = self.messages.remove(&number)
        {
            self.policy.record_delay((now - outgoing.sent_at.min(now)) as f64 / 1e6);
            self.update_rate();
            self.renew(now);
            self.events.push_back(Event::Over { message: number, lacking: Vec::new() });
        }
    }
}
