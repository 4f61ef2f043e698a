//! Supervision of the model in use, and model selection.

use super::outgoing::Outgoing;
use super::{Hub, Stage};
use crate::conditions::Conditions;
use crate::model::ModelId;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::policy::{Bad, Choice};
use crate::session::Event;
use crate::switch::{MemberId, MessageId, Phase};
use crate::window::OVERTAKEN;
use crate::{Instant, Span};

/// Minimum number of round-trip samples before members are informed of a change.
const ENOUGH_TRIPS: usize = 16;
/// Interval of decisions while messages are outstanding.
const DECIDE_EVERY: Span = Span::from_ms(100);
/// Number of models that may refuse a message until it ends.
const MAX_REFUSALS: u32 = 3;
/// Maximum number of outstanding messages.
pub(super) const MAX_MESSAGES: usize = 1_024;

impl Hub {
    /// Timeout after which a message counts as failed.
    pub(super) fn timeout(&self) -> Span {
        self.policy.timeout(&self.conditions()) + self.capacity.patience()
    }

    /// Handles late messages: the model in use fails. For models without frame
    /// acknowledgements, this is also the loss estimate.
    pub(super) fn check_late(&mut self, now: Instant) {
        let reliable = self.policy.current().features().reliable;
        let frames = self.payload.div_ceil(self.config.datagram().max(1)).max(1) as f64;
        let ways = if self.config.pattern.is_answered() { 2.0 } else { 1.0 };
        let timeout = self.timeout();
        let outside = self.policy.current().is_outside();
        let measures = self.capacity.is_estimated() && self.policy.current().features().measures;
        let queue = self.queue();
        let (mut unsure, mut again, mut lost_all) = (None, Vec::new(), false);
        let mut late = None;
        for (number, message) in &mut self.messages {
            if message.due.take_if(|due| *due <= now).is_none() {
                continue;
            }
            let all_good = message.timed && reliable;
            if all_good {
                // The model serves the others; those that are apart take their time.
                continue;
            }
            late = Some(*number);
            let since = message.sent_at.max(self.resumed_at);
            let silent = self.heard_at < message.sent_at || now < since + timeout;
            if silent && reliable {
                // No member has sent anything, or the first ones only just again: an outage.
                // It is not the model's fault, and another model does not help.
                message.due = Some((now + timeout / 4).max(since + timeout));
                lost_all |= self.heard_at < message.sent_at;
                unsure = outside.then_some(*number);
                continue;
            }
            if reliable && queue >= now - since {
                // More is sent than the path carries, so any model would be as late (decision 157).
                message.due = Some(now + timeout / 4);
                continue;
            }
            let all = message.to.max(1) as f64;
            let received = all - self.switch.unacknowledged_count(*number) as f64;
            if reliable {
                self.policy.record_delay((now - message.sent_at).as_ms());
            } else {
                if since == message.sent_at {
                    // Of a missing message's frames one was lost, at a random position.
                    let (each, lost) = (frames * ways, all - received);
                    let there = received * each + lost * (each - 1.0) / 2.0;
                    self.estimator.frames(there.round() as u32, lost as u32);
                }
                if received < all {
                    self.policy.fall_back();
                    self.urgent = true;
                }
            }
            // While members send, the path is slow rather than the model at fault.
            let quiet = now >= self.heard_at + timeout / 2;
            // One that measures the path adapts to it.
            let wholly = received == 0.0 && (quiet || !reliable) && !measures;
            self.policy.record_failure(wholly);
            self.urgent |= wholly;
            if outside {
                again.push(*number);
            }
        }
        if lost_all && !outside {
            self.capacity.timeout(now);
        }
        late.into_iter().for_each(|number| self.suspect_packets(number, now));
        self.ask_by_datagram(unsure);
        for number in again {
            self.send_again(number, now);
        }
    }

    /// Drops messages after their deadline.
    pub(super) fn expire(&mut self, now: Instant) {
        let late = |(number, message): (&MessageId, &Outgoing)| {
            let is_late = message.until.is_some_and(|until| until <= now);
            is_late.then_some((*number, message.sent_at))
        };
        let late: Vec<(MessageId, Instant)> = self.messages.iter().filter_map(late).collect();
        if late.is_empty() {
            return;
        }
        let queue = self.queue();
        // If more is sent than the path carries, any model would be as late (decision 156).
        let missed = |(number, sent_at): &(MessageId, Instant)| {
            self.switch.unacknowledged_count(*number) > 0 && queue < now - *sent_at
        };
        // After a missed deadline a change needs no lasting gain (decision 32).
        self.urgent |= late.iter().any(missed);
        // After a collapse of the path, a message is late only after its deadline. If nothing was sent since,
        // it says nothing of the path.
        let lost = |late: &&(MessageId, Instant)| {
            late.1 <= self.carried_at && (missed(late) || self.served_at < late.1)
        };
        if let Some((number, _)) = late.iter().find(lost) {
            self.suspect_packets(*number, now);
        }
        self.end(late.into_iter().map(|(number, _)| number));
    }

    /// Time that the path likely needs for all outstanding messages, if it is a fifth slower than known.
    pub(super) fn queue(&self) -> Span {
        let copies = if self.multicasts() { 1 } else { self.fan_out };
        let bytes = self.messages.len() * copies * (self.payload + self.config.below);
        Span::from_ns_f64(bytes as f64 * 1.25 * 8e9 / self.capacity.proven().max(1.0))
    }

    /// A stack that delivers nothing looks like an outage, for example when its broker is gone.
    /// Asks a member by datagram: if it answers, the stack is at fault.
    fn ask_by_datagram(&mut self, unsure: Option<MessageId>) {
        let Some(number) = unsure.filter(|_| self.invite_queue.is_empty()) else { return };
        let lacking: Vec<MemberId> = self.switch.unacknowledged(number).collect();
        let any = (self.rng.uniform() * lacking.len() as f64) as usize;
        let (_, epoch) = self.switch.current();
        if let Some(member) = lacking.get(any) {
            self.invite_queue.push_back(*member, epoch);
        }
    }

    /// Sends a late message again, with a doubled timeout each time: external stacks do not
    /// report drops, for example to a peer that has just come back.
    fn send_again(&mut self, number: MessageId, now: Instant) {
        let actions = self.switch.send_again(number);
        let _ = self.perform(actions, now);
        let timeout = self.timeout();
        if let Some(message) = self.messages.get_mut(&number) {
            message.due = Some(now + timeout.max(now - message.sent_at));
        }
    }

    /// Drops the oldest messages above the limit: those without an answer or a deadline. Also those
    /// that many newer ones have overtaken, for example because a member was away: members would
    /// take them for duplicates, and confirm them without having received them.
    pub(super) fn drop_oldest(&mut self) {
        let newest = self.next;
        let is_overtaken = |number: MessageId| newest - number > OVERTAKEN;
        while let Some(number) = self.messages.keys().next().copied()
            && (self.messages.len() > MAX_MESSAGES || is_overtaken(number))
        {
            self.end([number].into_iter());
        }
    }

    /// Starts a new epoch with new parameters if round-trip time or MTU have changed a lot. Members
    /// do not depend on the data rate that they were told.
    pub(super) fn renew(&mut self, now: Instant) {
        let (_, epoch) = self.switch.current();
        let Some(stage) = self.stages.get(&epoch) else { return };
        let trip = self.conditions().rtt.as_ns_f64() / stage.rtt.max(Span::from_ns(1)).as_ns_f64();
        let known = self.estimator.round_trips() >= ENOUGH_TRIPS;
        let packets = stage.datagram != self.config.datagram();
        // Outstanding messages would go again to the whole group: too costly for a longer RTT.
        let trips = known && self.messages.is_empty() && !(0.5..2.0).contains(&trip);
        if (packets || trips || self.has_used_numbers(stage))
            && self.switch.phase() == Phase::Stable
        {
            let actions = self.switch.renew(now);
            let _ = self.perform(actions, now);
        }
    }

    /// Whether a model needs new keys for further messages: in a pause, if there is one in time.
    fn has_used_numbers(&self, stage: &Stage) -> bool {
        let (used, most) = (self.next - stage.first, stage.carrier.max_messages());
        used >= if self.messages.is_empty() { most / 2 } else { most }
    }

    /// Checks whether another model is better.
    pub(super) fn decide(&mut self, now: Instant) {
        // A full check per answer is too expensive; one per interval is enough.
        if now < self.decide_at || (self.messages.is_empty() && !self.urgent) {
            return;
        }
        self.decide_at = now + DECIDE_EVERY;
        // First what is late: it can make this decision urgent.
        self.check_late(now);
        // Before the phase is checked: a new epoch is a change as well.
        self.renew(now);
        if self.switch.phase() == Phase::Changing {
            return;
        }
        self.decide_refused(now);
        if self.switch.phase() == Phase::Changing {
            return;
        }
        // What was urgent during a change is still so for this decision.
        let here = self.conditions();
        self.apart.update(here.burst);
        let apart = self.apart.members();
        self.stages.values_mut().for_each(|stage| {
            stage.carrier.adapt(&here);
            stage.carrier.set_apart(apart);
        });
        self.set_pace();
        let from = self.policy.current();
        self.policy.may_lose(self.estimator.upper_loss(self.config.assumed.loss));
        self.policy.set_bad(self.bad_members(&here));
        let proven = self.proven_conditions();
        let decision = self.policy.decide(now, &proven, &self.map, self.urgent);
        self.urgent = false;
        if let Choice::Change(to) = decision.choice {
            self.change(from, to, now);
        }
        self.last = Some(decision);
    }

    /// Members that lose far more than the others, for the policy.
    fn bad_members(&self, here: &Conditions) -> Option<Bad> {
        let (share, bad, good) = self.apart.bad()?;
        let farther = self.distances.excess(self.apart.bad_members());
        // What members that are apart lose is not in the conditions.
        let good = if self.apart.members().is_empty() { good } else { here.loss };
        Some(Bad { share, loss: [bad, good], farther })
    }

    /// Whether a message that a model has refused can wait for another: for the newest one, which
    /// members receive it by once they change to it; for the end of this change, since one change
    /// follows the other; or for a change that begins now.
    pub(super) fn waits_for_another_model(&mut self, number: MessageId, now: Instant) -> bool {
        let Some(message) = self.messages.get(&number) else { return false };
        if !message.is_refused || self.switch.phase() == Phase::Changing {
            return true;
        }
        self.change_for_refused(now)
    }

    /// Changes to another model for messages that the one in use has refused. Members that change
    /// receive their outstanding messages again. Returns whether there is another model.
    fn change_for_refused(&mut self, now: Instant) -> bool {
        let refused = self.messages.values().filter(|message| message.is_refused);
        let Some(longest) = refused.map(|message| message.bytes.len()).max() else { return false };
        // Shorter messages may have been sent since.
        self.payload = longest + self.authority.signature_len();
        let from = self.policy.current();
        self.policy.refused();
        let decision = self.policy.decide(now, &self.proven_conditions(), &self.map, true);
        let Choice::Change(to) = decision.choice else { return false };
        self.messages.values_mut().for_each(|message| message.is_refused = false);
        self.change(from, to, now);
        self.last = Some(decision);
        true
    }

    /// After a change of the model: chooses another one for messages that this model has refused.
    /// Messages that no other can carry, or that several have refused, end.
    fn decide_refused(&mut self, now: Instant) {
        let refused = |(number, message): (&MessageId, &Outgoing)| {
            message.is_refused.then_some((*number, message.refusals))
        };
        let refused: Vec<(MessageId, u32)> = self.messages.iter().filter_map(refused).collect();
        let (ended, waiting): (Vec<_>, Vec<_>) =
            refused.into_iter().partition(|(_, refusals)| *refusals >= MAX_REFUSALS);
        self.end(ended.into_iter().map(|(number, _)| number));
        if !waiting.is_empty() && !self.change_for_refused(now) {
            self.end(waiting.into_iter().map(|(number, _)| number));
        }
    }

    /// Ends messages that some members lack.
    pub(super) fn end(&mut self, numbers: impl Iterator<Item = MessageId>) {
        for number in numbers {
            let ended = self.messages.remove(&number);
            let lacking = self.switch.forget(number);
            // The models end what has a lifetime themselves.
            if ended.is_some_and(|message| message.until.is_none()) {
                self.withdraw(number, &lacking);
            }
            self.events.push_back(Event::Over { message: number, lacking });
        }
    }

    /// These members get no more of a message.
    pub(super) fn withdraw(&mut self, number: MessageId, members: &[MemberId]) {
        let stages = self.stages.values_mut();
        stages.for_each(|stage| stage.carrier.withdraw(number, members));
    }

    pub(super) fn change(&mut self, from: ModelId, to: ModelId, now: Instant) {
        self.events.push_back(Event::ModelChange { from, to, at: now });
        // The new model can fill what the old one left free.
        self.capacity.change();
        self.check_multicast(now);
        let actions = self.switch.change(to, now);
        let _ = self.perform(actions, now);
    }
}

#[cfg(all(test, feature = "std"))]
#[path = "carrier_tests.rs"]
mod tests;
