//! Membership: handshakes, invitations and what members report.

use super::Hub;
use super::invite_queue::asking_time;
use super::pairing::{Hello, Pairing};
use crate::downlink::Downlink;
use crate::envelope::Invitation;
use crate::handshake::{self, Welcome};
use crate::model::Models;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::MemberId;
use crate::{Instant, Span};

/// Maximum number of times that the invitation interval is doubled (decision 101).
const MAX_DOUBLED: u32 = 5;

/// Maximum number of queued control messages, for more announcements: recorded hellos that anyone
/// repeats cause these, and they go before invitations.
const MAX_CONTROL: usize = 8;

/// What the hub does with a hello that a member's key opens.
pub(super) enum Begun {
    /// Nothing: it belongs to a former handshake.
    Old,
    /// It may be a recorded one: the member must name the session.
    Unnamed,
    /// The handshake is in progress; the time until which it needs no other answer.
    Waits(Option<Instant>),
}

impl Hub {
    /// Whether all members have joined.
    pub fn is_ready(&self) -> bool {
        self.absent.is_empty()
    }

    /// Members that have not joined.
    pub fn absent(&self) -> impl Iterator<Item = MemberId> {
        self.absent.iter().copied()
    }

    /// Invites absent members again.
    pub(super) fn invite(&mut self, now: Instant) {
        if self.absent.is_empty() || self.has_control() {
            return;
        }
        // First those whose handshakes are in progress.
        while let Some(member) = self.retries.take_due(now) {
            self.hellos.push_back(member);
        }
        if now < self.round_at() || self.has_control() {
            return;
        }
        let (_, epoch) = self.switch.current();
        let asked = |pairing: &Pairing| pairing.is_asked(now);
        let asked = |member: &&MemberId| {
            self.retries.has(**member) || self.pairings.get(member).is_some_and(asked)
        };
        let due: Vec<MemberId> =
            self.absent.iter().filter(|member| !asked(member)).copied().collect();
        if due.is_empty() {
            // Their handshakes have been answered. Without a later time the driver would poll
            // without a pause.
            self.invited = Some((now, 1));
            return;
        }
        // The first round follows none that could have failed.
        self.failed_rounds += u32::from(self.invited.is_some());
        self.invited = Some((now, due.len() as u16));
        due.iter().for_each(|member| self.invite_queue.push_back(*member, epoch));
    }

    /// Time in which the answer to a hello arrives and is answered, with those to all others.
    pub(super) fn patience(&self) -> Span {
        asking_time(&self.conditions(), self.absent.len().max(1) as u16)
    }

    /// Time after which an answer to a hello, or the reaction, counts as lost.
    pub(super) fn retry_time(&self) -> Span {
        // Until a round trip is measured, the path may be much longer than assumed.
        match self.capacity.smoothed_trip() {
            Some(trip) => self.patience() - 4 * self.conditions().rtt + 2 * trip,
            None => self.patience(),
        }
    }

    /// Classifies a hello of a member, and begins a handshake if it is a new one. `None` if the
    /// member's key does not open it.
    pub(super) fn begin_handshake(&mut self, member: MemberId, hello: &[u8]) -> Option<Begun> {
        let number = u16::try_from(member).ok().filter(|number| *number < self.members)?;
        let psk = self.psks.of(member)?;
        let pairing = self.pairings.entry(member).or_default();
        // A known hello costs only a hash, and no second handshake.
        Some(match pairing.classify(hello) {
            Hello::Old => Begun::Old,
            Hello::Repeated(until) => Begun::Waits(until),
            // Before an operation on curves, which takes a hundred times as long: anyone can repeat a
            // recorded hello.
            Hello::New
                if psk.is_some()
                    && pairing.must_name()
                    && handshake::named(psk, hello)? != Some(self.session) =>
            {
                Begun::Unnamed
            }
            Hello::New => {
                let welcome = Welcome {
                    session: self.session,
                    member: number,
                    members: self.members,
                    group: self.config.group,
                    answered: self.config.pattern.is_answered(),
                    reports: self.strangers.includes(member),
                    store: self.downlink.as_ref().map(Downlink::store),
                };
                let ephemeral = self.rng.bytes();
                let accepted = handshake::respond(psk, ephemeral, hello, &welcome)?;
                if pairing.begin(hello, accepted) { Begun::Waits(None) } else { Begun::Unnamed }
            }
        })
    }

    /// A member begins a handshake, or someone repeats an earlier hello of it. Returns whether it
    /// has the member's key.
    pub(super) fn handle_hello(&mut self, member: MemberId, hello: &[u8], now: Instant) -> bool {
        let repeated = match self.begin_handshake(member, hello) {
            None => return false,
            Some(Begun::Old) => return true,
            Some(Begun::Unnamed) => {
                if self.control.len() < MAX_CONTROL {
                    self.control.push_back((member, handshake::announcement(&self.session)));
                }
                return true;
            }
            Some(Begun::Waits(repeated)) => repeated,
        };
        if self.absent.contains(&member) {
            self.retries.heard(member, now);
        }
        // One that was invited a moment ago may have sent its hello before: the next round is
        // enough.
        if repeated.is_some_and(|until| now < until) {
            self.failed_rounds = 0;
        } else if !self.hellos.contains(&member) {
            self.hellos.push_back(member);
        }
        true
    }

    /// Whether control messages are queued.
    pub(super) fn has_control(&self) -> bool {
        !self.invite_queue.is_empty() || !self.hellos.is_empty() || !self.control.is_empty()
    }

    /// Time of the next invitation of absent members.
    pub(super) fn invite_at(&self) -> Instant {
        self.round_at().min(self.retries.wake().unwrap_or(Instant::NEVER))
    }

    /// Time of the next round of invitations to absent members whose handshakes are not in progress; backs off
    /// while no member joins.
    fn round_at(&self) -> Instant {
        let Some((at, members)) = self.invited else { return Instant::START };
        at + asking_time(&self.conditions(), members) * (1 << self.failed_rounds.min(MAX_DOUBLED))
    }

    /// The next datagram of handshakes and invitations. A member without keys gets the
    /// announcement of the session.
    pub(super) fn next_control(&mut self, now: Instant) -> Option<(MemberId, Vec<u8>)> {
        // First the invitations that follow a welcome: a member needs both to join.
        if let Some(control) = self.control.pop_front() {
            return Some(control);
        }
        let (_, newest) = self.switch.current();
        if let Some(member) = self.hellos.pop_front() {
            // An invitation follows the welcome anyway.
            if self.absent.contains(&member) {
                self.invite_queue.remove(member, newest);
            }
            return self.welcome(member, newest, now);
        }
        let (member, epoch) = self.invite_queue.pop()?;
        self.psks.of(member)?;
        let pairing = self.pairings.entry(member).or_default();
        // The member has not proved that it has the keys, so it could not open an invitation alone.
        if pairing.has_begun() && !pairing.is_paired() {
            return self.welcome(member, epoch, now);
        }
        if !pairing.is_paired() {
            return Some((member, handshake::announcement(&self.session)));
        }
        let invitation = self.parameters(member, epoch)?;
        let (root, count) = self.pairings.get_mut(&member)?.control()?;
        Some((member, invitation.seal(root, count, 0)))
    }

    /// The answer to a member's hello; queues its invitation to an epoch.
    fn welcome(
        &mut self,
        member: MemberId,
        epoch: u32,
        now: Instant,
    ) -> Option<(MemberId, Vec<u8>)> {
        let invitation = self.parameters(member, epoch)?;
        let (patience, retry) = (self.patience(), self.retry_time());
        let (welcome, root, count) = self.pairings.get_mut(&member)?.welcome(now + patience)?;
        self.retries.answered(member, retry, now);
        let invitation = invitation.seal(root, count, 0);
        self.control.push_back((member, invitation));
        Some((member, welcome))
    }

    /// The parameters of an epoch, for a member.
    pub(super) fn parameters(&self, member: MemberId, epoch: u32) -> Option<Invitation> {
        let (here, stage) = (self.conditions(), self.stages.get(&epoch)?);
        Some(Invitation {
            epoch,
            secret: stage.secret,
            model: Some(stage.model),
            datagram: u16::try_from(self.config.datagram()).unwrap_or(u16::MAX),
            rate_bit_s: here.rate_bit_s as f32,
            loss: (here.loss * 255.0).round() as u8,
            // With queues: timeouts of the new epoch must not be shorter than the path (decision
            // 101).
            round_trip: here.rtt.max(self.capacity.smoothed_trip().unwrap_or_default()),
            // A start of the member that is new takes nothing before that, since it may be recorded.
            next: self.switch.first_awaited(member).unwrap_or(self.next),
            estimated: self.capacity.is_estimated(),
            // Reserved on the wire: no version sets it (docs/director-wire.md).
            apart: false,
            probes: false,
            bundles: true,
            signer: self.authority.public_key(),
        })
    }

    /// A member announces its models: it may have another version than the hub, or fewer
    /// features.
    pub(super) fn set_models(&mut self, member: MemberId, models: Models) {
        if self.models.insert(member, models) != Some(models) {
            self.update_models();
            let reads = models.reads_bundles();
            let stages = self.stages.values_mut();
            stages.for_each(|stage| stage.carrier.set_bundles(member, reads));
        }
    }

    /// Tells the policy which models all members have.
    pub(super) fn update_models(&mut self) {
        let all = self.models.values().fold(Models::ALL, |all, own| all.and(*own));
        self.urgent |= !self.policy.set_member_models(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::Initiator;
    use crate::keys::Psk;
    use crate::rng::Rng;
    use crate::session::{Config, Hub, Security};
    use crate::{ModelId, Pattern, PerformanceMap, Seed};
    use std::sync::Arc;

    #[test]
    fn a_model_that_only_a_departed_member_lacked_can_be_chosen_again() {
        let security = Security::Key(vec![7; 32]);
        let config = Config::new(Pattern::PublishCollect, security);
        let map = Arc::new(PerformanceMap::new());
        let mut hub = Hub::new(config, map, 2, &Seed::reproducible(1)).unwrap();
        hub.set_models(0, Models::ALL);
        hub.set_models(1, [ModelId::UdpArq].into_iter().collect());
        assert!(!hub.policy.has(ModelId::MulticastFec) && hub.policy.has(ModelId::UdpArq));
        hub.drop_member(1, Instant::from_ns(1));
        assert!(hub.policy.has(ModelId::MulticastFec));
    }

    /// What failed before: each copy of a recorded hello that was refused cost a whole handshake.
    #[test]
    fn a_hello_that_must_name_the_session_costs_no_key() {
        let config = Config::new(Pattern::PublishCollect, Security::Key(vec![7; 32]));
        let map = Arc::new(PerformanceMap::new());
        let mut hub = Hub::new(config, map, 1, &Seed::reproducible(1)).unwrap();
        let psk = Psk::new(&[7; 32]).unwrap();
        let hello = |number: u8, session| {
            Initiator::new(Some(&psk), [number; 32], session).hello().to_vec()
        };
        for number in [1, 2] {
            assert!(matches!(hub.begin_handshake(0, &hello(number, None)), Some(Begun::Waits(_))));
        }
        let session = hub.session;
        hub.rng = Rng::new(&Seed::reproducible(2));
        for session in [None, Some(&[9; 16])] {
            let begun = hub.begin_handshake(0, &hello(3, session));
            assert!(matches!(begun, Some(Begun::Unnamed)));
        }
        let undrawn = Rng::new(&Seed::reproducible(2)).bits();
        assert_eq!(hub.rng.bits(), undrawn, "it has drawn a key");
        let named = hub.begin_handshake(0, &hello(3, Some(&session)));
        assert!(matches!(named, Some(Begun::Waits(None))));
    }
}
