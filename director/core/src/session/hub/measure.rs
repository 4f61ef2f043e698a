//! What the hub measures of the path, and how fast it sends.

use super::Hub;
use super::invite_queue::{INVITATION, READY};
use crate::capacity::{Capacity, UNKNOWN_TRIP};
use crate::carrier::Flow;
use crate::conditions::Conditions;
use crate::envelope::{self, Echo};
use crate::model::ModelId;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::session::Config;
use crate::session::multicast::CHECKS;
use crate::switch::{MemberId, MessageId};
use crate::{Instant, Span};

/// Headers of a message in a datagram, in bytes, for comparisons.
const OVERHEAD: f64 = 70.0;

/// An invitation for its round-trip time goes in four times this many of its times on the wire, with the
/// answer, or less often: 5 % of the rate.
const ECHO_SHARE: u64 = 5;

impl Hub {
    /// The capacity and the conditions before anything was measured.
    pub(super) fn begin(config: &Config, members: u16) -> (Capacity, Conditions) {
        let configured = Some(config.assumed.rate_bit_s).filter(|rate| *rate > 0.0);
        let trip = Some(config.assumed.rtt).filter(|trip| *trip > Span::ZERO);
        let packet = (config.datagram() + config.below) as f64;
        let capacity = Capacity::new(configured, trip, packet);
        let assumed = Conditions {
            group: f64::from(members),
            rate_bit_s: capacity.rate(),
            rtt: trip.unwrap_or(UNKNOWN_TRIP),
            ..config.assumed
        };
        (capacity, assumed)
    }

    /// Current conditions: configured values, corrected by estimates.
    pub fn conditions(&self) -> Conditions {
        let spans = self.sent_at.len().saturating_sub(1);
        let rate = match (self.sent_at.front(), self.sent_at.back()) {
            (Some(first), Some(last)) if last > first => {
                spans as f64 * 1e9 / (*last - *first).as_ns_f64()
            }
            _ => self.config.assumed.messages_s,
        };
        let rtt = match self.config.assumed.rtt {
            Span::ZERO => self.capacity.least_trip().unwrap_or(UNKNOWN_TRIP),
            configured => configured,
        };
        let known = Conditions {
            rtt,
            group: self.fan_out as f64,
            payload: self.payload as f64,
            messages_s: rate,
            rate_bit_s: self.capacity.rate(),
            ..self.config.assumed
        };
        let mut here = self.estimator.conditions(known);
        // Samples of one model can all include its queue.
        let least = self.capacity.least_trip().filter(|_| self.config.assumed.rtt == Span::ZERO);
        here.rtt = least.map_or(here.rtt, |least| here.rtt.min(least));
        here
    }

    /// Conditions for the choice of the model: at the rate that another model can rely on.
    pub(super) fn proven_conditions(&self) -> Conditions {
        Conditions { rate_bit_s: self.capacity.proven(), ..self.conditions() }
    }

    /// Records whether multicast works.
    pub(super) fn set_multicast(&mut self, works: bool) {
        self.policy.multicast(works);
        self.stages.values_mut().for_each(|stage| stage.carrier.set_multicast(works));
        self.urgent |= !works && !self.policy.current().features().by_unicast;
    }

    /// Whether messages go to all members at once.
    pub(super) fn multicasts(&self) -> bool {
        self.policy.current().features().multicast && !self.multicast.is_blocked()
    }

    /// Begins to probe multicast, if it is used and nothing is known of it, once two members have joined and no
    /// others are about to.
    pub(super) fn check_multicast(&mut self, now: Instant) {
        let present = self.switch.count().saturating_sub(self.absent.len());
        if self.multicasts() && present > 1 {
            let wait = if self.absent.is_empty() { Span::ZERO } else { self.retry_time() };
            self.multicast.check(now + wait);
        }
    }

    /// A probe by multicast, which one member answers, if it is time.
    pub(super) fn probe_multicast(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.multicast.next_at().filter(|at| *at <= now)?;
        if self.multicast.has_failed_check(now) {
            self.multicast.block(now);
            self.set_multicast(false);
            return None;
        }
        let all = self.present();
        if all.len() < 2 {
            self.multicast.postpone_check();
            self.multicast.next_at()?;
        }
        // One random member: if all were asked, hundreds would answer at the same time (decision
        // 34).
        let any = all.get((self.rng.uniform() * all.len() as f64) as usize).copied().unwrap_or(0);
        self.multicast.probe(any, self.retry_time(), now);
        self.probes += 1;
        let (_, epoch) = self.switch.current();
        let root = &self.stages.get(&epoch)?.root;
        Some(envelope::seal_probe(root, epoch, self.probes, any as u16))
    }

    /// Records a control message that was sent to a member.
    pub(super) fn record_invitation(&mut self, member: MemberId, control: &[u8], now: Instant) {
        if let Some(count) = envelope::invitation_count(control) {
            self.echoes.sent(member, Echo::of_invitation(count), now);
        }
    }

    /// An invitation to the current epoch for its round-trip time, to a member with an outstanding
    /// message, if there was no sample for some time. With a configured rate none is needed.
    pub(super) fn next_echo(&mut self, now: Instant) -> Option<(MemberId, Vec<u8>)> {
        let (number, message) = self.messages.first_key_value()?;
        let trip = self.capacity.smoothed_trip().unwrap_or(UNKNOWN_TRIP);
        // Messages give samples by themselves unless they wait in a queue, where these are missing
        // most (decision 101).
        let seen = self.capacity.sampled_at().unwrap_or_default().max(message.sent_at);
        if !self.capacity.is_estimated() || !self.echoes.may_ask(now) || now < seen + 2 * trip {
            return None;
        }
        let lacking = self.switch.unacknowledged(*number);
        let lacking: Vec<MemberId> = lacking.filter(|m| !self.absent.contains(m)).collect();
        let any = (self.rng.uniform() * lacking.len() as f64) as usize;
        let member = *lacking.get(any)?;
        let here = self.conditions();
        let takes = Span::from_ns_f64((INVITATION + READY) * 8e9 / here.rate_bit_s.max(1.0));
        let silent = self.echoes.ask(trip.max(ECHO_SHARE * takes), here.loss, now);
        self.capacity.set_silent(silent);
        let (_, epoch) = self.switch.current();
        let invitation = self.parameters(member, epoch)?;
        let (root, count) = self.pairings.get_mut(&member)?.control()?;
        Some((member, invitation.seal(root, count, 0)))
    }

    /// A member has answered an invitation or a multicast probe: it is a round-trip sample, also
    /// while a model's messages give none.
    pub(super) fn handle_echo(&mut self, member: MemberId, echo: Echo, now: Instant) {
        if let Some(trip) = self.echoes.answered(member, echo, now) {
            self.capacity.set_silent(false);
            let near = self.distances.record(member, trip, now);
            self.capacity.round_trip(now, near);
        }
        // Only the answer to the probe proves multicast: members answer invitations that came by
        // unicast too (decision 101).
        let number = |back| self.probes.checked_sub(back).filter(|number| *number > 0);
        let back = (0..CHECKS).find(|back| number(*back).map(Echo::of_probe) == Some(echo));
        if back.is_some_and(|back| self.multicast.probe_answered(member, back > 0, now)) {
            self.set_multicast(true);
        }
    }

    /// Records the arrival of a datagram of `length` bytes from a member, if known. Acknowledgements of a multicast say
    /// nothing of the path's rate, and QUIC and external stacks have their own congestion control.
    pub(super) fn record_arrival(&mut self, from: Option<MemberId>, length: usize, now: Instant) {
        // What a member that is apart sends again and again is not what the path carries.
        let apart = from.is_some_and(|member| self.apart.has(member));
        let model = self.policy.current();
        let answered = self.config.pattern.is_answered();
        let own =
            model.is_outside() || matches!(model, ModelId::QuicStreams | ModelId::QuicDatagrams);
        if own || apart || (self.multicasts() && !answered) {
            self.capacity.resume();
        } else {
            self.capacity.arrival(now, length + self.config.below);
        }
    }

    /// Records a round-trip time to a member.
    pub(super) fn round_trip(&mut self, member: MemberId, ns: Span, now: Instant) {
        self.estimator.round_trip(ns);
        let near = self.distances.record(member, ns, now);
        self.capacity.round_trip(now, near);
    }

    /// Frames of a member are missing. Those of a member that is apart say nothing of the others' path.
    pub(super) fn gap(&mut self, member: MemberId, now: Instant) {
        if !self.apart.has(member) {
            self.capacity.lost(now);
        }
    }

    /// Records received and lost frames of a member, which were missing at `noticed`. Those that a queue has
    /// dropped say nothing of the radio, and those of a member that is apart nothing of the others'.
    pub(super) fn frames(&mut self, member: MemberId, received: u32, lost: u32, noticed: Instant) {
        let apart = self.apart.has(member);
        let congested = !apart && self.capacity.has_dropped(noticed);
        let lost = if congested { 0 } else { lost };
        self.apart.frames(member, received, lost);
        if !apart {
            self.estimator.frames(received, lost);
        }
    }

    /// Whether a message has arrived at all members but those that are apart, if it went to others
    /// too.
    pub(super) fn only_apart_lack(&self, number: MessageId) -> bool {
        let Some(message) = self.messages.get(&number) else { return false };
        let lacking = self.switch.unacknowledged_count(number);
        lacking < message.to
            && self.switch.unacknowledged(number).all(|member| self.apart.has(member))
    }

    /// Records the delay of a message, once: of its last answer, without those of members that are
    /// apart.
    pub(super) fn record_delay(&mut self, number: MessageId, now: Instant) {
        if !self.only_apart_lack(number) {
            return;
        }
        if let Some(message) = self.messages.get_mut(&number)
            && !core::mem::replace(&mut message.timed, true)
        {
            let delay = now - message.sent_at;
            // If more is sent than the path carries, the delay says nothing of the model (decision 157).
            if self.queue() < delay {
                self.policy.record_delay(delay.as_ms());
            }
            self.update_capacity(now);
        }
    }

    /// Bytes of a message, and of its answer or acknowledgement, with headers.
    fn sizes(&self) -> (f64, f64) {
        let message = self.payload as f64 + OVERHEAD;
        match self.config.pattern.is_answered() {
            // Before the first answer, assume that answers are as long as messages.
            true if self.answer == 0 => (message, message),
            true => (message, self.answer as f64 + OVERHEAD),
            false => (message, OVERHEAD),
        }
    }

    /// The answers to a message are here: evaluates what they tell of the path.
    fn update_capacity(&mut self, now: Instant) {
        let (message, answer) = self.sizes();
        // By unicast, each answer follows a separate message.
        let alone = !self.multicasts();
        let scale = if alone { message / answer } else { 1.0 };
        self.capacity.set_traffic(message.max(answer), scale, self.conditions().loss);
        self.capacity.completed(now, self.messages.values().all(|message| message.timed));
        self.set_pace();
    }

    /// Tells the models how fast to send.
    pub(super) fn set_pace(&mut self) {
        let (message, answer) = self.sizes();
        // Members with a configured rate spread longer answers themselves (`answer_delay`). Others
        // answer at once, so the hub leaves the channel to them.
        let charge = if self.capacity.is_estimated() { (answer / message).max(1.0) } else { 1.0 };
        let wait = self.capacity.wait();
        // Round trips are recorded as if all members were as near as the nearest; distant ones need
        // longer.
        let wait = wait.map(|wait| wait + self.distances.mean_excess());
        let flow = Flow {
            rate_bit_s: self.capacity.pace(),
            charge,
            answers_bit_s: self.capacity.answers(),
            wait,
            patience: self.capacity.patience(),
        };
        self.stages.values_mut().for_each(|stage| stage.carrier.pace(&flow));
    }
}
