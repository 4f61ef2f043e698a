//! Datagrams from members.

use super::Hub;
use crate::Nanos;
use crate::carrier::{self, Carried};
use crate::envelope::{self, FromMember};
use crate::session::Event;
use crate::switch::{MemberId, MessageId};

impl Hub {
    /// Handles a datagram or a frame of an external stack. `from` is the member with the source
    /// address, if any.
    pub fn receive(&mut self, datagram: &[u8], from: Option<MemberId>, now: Nanos) {
        self.estimator.arrival(now, datagram.len() + self.config.below);
        if from.is_some() {
            self.heard(now);
        }
        if let Some(known) = envelope::open_hello(&self.invites, datagram) {
            if let Some(member) = from {
                // The largest number has no successor.
                let later = known.checked_add(1).filter(|_| known > self.root.session());
                if let Some(later) = later {
                    self.renumber(later, now);
                }
                self.called(member);
            }
            return;
        }
        if envelope::is_envelope(datagram) {
            self.envelope(datagram, now);
            return;
        }
        let mut told = Vec::new();
        // Frames of external stacks carry no epoch, but their envelopes do: any stage will do.
        let outside = carrier::model_of(datagram);
        let newest = self.stages.iter().rev().find(|(_, stage)| Some(stage.model) == outside);
        let newest = newest.map(|(epoch, _)| *epoch);
        for (epoch, stage) in &mut self.stages {
            if carrier::is_of(stage.model, datagram) && newest.is_none_or(|newest| newest == *epoch)
            {
                stage.carrier.receive(datagram, from, now);
                told.extend(stage.carrier.take());
            }
        }
        self.hear(told, now);
    }

    /// Records that a member is reachable.
    fn heard(&mut self, now: Nanos) {
        if now.saturating_sub(self.heard_at) > self.patience() {
            self.resumed_at = now;
        }
        self.heard_at = now;
    }

    pub(super) fn hear(&mut self, told: Vec<Carried>, now: Nanos) {
        for carried in told {
            match carried {
                Carried::Had(member, number) => {
                    // If the pattern has answers, only the answer counts.
                    if !self.config.pattern.is_answered() {
                        self.acknowledged(member, number, now);
                    }
                }
                Carried::Envelope(bytes) => self.envelope(&bytes, now),
                Carried::Frames { came, lost } => self.estimator.frames(came, lost),
                Carried::RoundTrip(ns) => self.estimator.round_trip(ns),
                Carried::Unreached => {
                    if self.reach.block(now) {
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
        self.heard(now);
        match what {
            FromMember::Answer(number, body) => {
                if self.switch.owes(number, member) {
                    self.answer = body.len();
                    self.events.push_back(Event::Answer { message: number, member, bytes: body });
                    self.done(member, number, now);
                }
            }
            FromMember::Acknowledge(number) => self.acknowledged(member, number, now),
            FromMember::Cannot(_, models) => self.member_has(member, models),
            FromMember::Ready(epoch, models) => {
                self.member_has(member, models);
                self.turns.knows(member, epoch);
                if self.absent.remove(&member) {
                    self.in_vain = 0;
                    self.events.push_back(Event::Joined(member));
                }
                if self.reach.heard(member, now) {
                    self.policy.multicast(true);
                }
                let actions = self.switch.ready(member, epoch);
                // A message that the new model rejects expires.
                let _ = self.perform(actions, now);
            }
        }
    }

    fn acknowledged(&mut self, member: MemberId, number: MessageId, now: Nanos) {
        if self.switch.owes(number, member) && !self.config.pattern.is_answered() {
            self.events.push_back(Event::Acknowledged { message: number, member });
            self.done(member, number, now);
        }
    }

    fn done(&mut self, member: MemberId, number: MessageId, now: Nanos) {
        self.switch.acknowledged(member, number);
        if !self.switch.is_open(number)
            && let Some(outgoing) = self.messages.remove(&number)
        {
            self.policy.observed((now - outgoing.sent_at.min(now)) as f64 / 1e6);
            self.look_at_rate();
            self.renew(now);
            self.events.push_back(Event::Over { message: number, lacking: Vec::new() });
        }
    }
}
