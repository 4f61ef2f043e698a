//! Change of the model, make before break: prepare the new model, ask members whether they are
//! ready, send new messages on the new model, resend unacknowledged ones under the same number,
//! and retire the old model when it has no outstanding messages.

use crate::member_set::MemberSet;
use crate::message_map::MessageMap;
use crate::model::ModelId;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::{Instant, Span};
use alloc::collections::BTreeMap;

pub use crate::ids::{MemberId, MessageId};

/// Actions for the I/O driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Set up a model, in parallel to the existing ones.
    Prepare {
        /// The model.
        model: ModelId,
        /// Its epoch.
        epoch: u32,
    },
    /// Ask a member over the old model whether it is ready for the epoch; repeated until the
    /// member answers.
    Ask {
        /// The member.
        member: MemberId,
        /// The epoch.
        epoch: u32,
    },
    /// Send a message to these members over this model.
    Send {
        /// The message.
        message: MessageId,
        /// The model.
        model: ModelId,
        /// The epoch of the model.
        epoch: u32,
        /// The receivers.
        members: Vec<MemberId>,
    },
    /// Remove a model: it has no outstanding messages and no members.
    Retire {
        /// The model.
        model: ModelId,
        /// Its epoch.
        epoch: u32,
    },
}

/// Maximum number of times that the time between two `Ask` actions is doubled (decision 101).
const MAX_DOUBLED: u32 = 3;

/// Rounds of `Ask` in a row without an answer from which a change does not hold up the next one: the members
/// that have not answered are off, and may stay so.
const MAX_ROUNDS: u32 = 5;

/// Phase of a model change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// One model is in use, or members that do not answer are left on the one before.
    Stable,
    /// Two models are in use; members change over one by one.
    Changing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stage {
    model: ModelId,
    epoch: u32,
}

/// The sender's model state and outstanding messages.
#[derive(Debug, Clone)]
pub struct Switch {
    now: Stage,
    /// The stage that members change to.
    next: Option<Stage>,
    /// Current stage per member.
    members: BTreeMap<MemberId, Stage>,
    /// Members without an acknowledgement, per message.
    open: MessageMap<MemberSet>,
    /// Time of the next `Ask`.
    ask_at: Instant,
    /// Time between two `Ask` actions, doubled while no member answers.
    timeout: Span,
    /// Consecutive rounds of `Ask` without an answer.
    unanswered: u32,
    /// The first epoch for messages: someone who has left has the keys of earlier ones.
    first: u32,
}

impl Switch {
    /// A session of these members on `model`; a member that does not answer is asked again
    /// after `timeout`.
    pub fn new(model: ModelId, members: impl IntoIterator<Item = MemberId>, timeout: Span) -> Self {
        let now = Stage { model, epoch: 0 };
        let members = members.into_iter().map(|member| (member, now)).collect();
        let open = MessageMap::default();
        Self {
            now,
            next: None,
            members,
            open,
            ask_at: Instant::START,
            timeout: timeout.max(Span::from_ns(1)),
            unanswered: 0,
            first: 0,
        }
    }

    /// The phase.
    pub fn phase(&self) -> Phase {
        let answers = self.unanswered <= MAX_ROUNDS;
        if self.next.is_some() && answers { Phase::Changing } else { Phase::Stable }
    }

    /// The model and epoch of new members.
    pub fn current(&self) -> (ModelId, u32) {
        let stage = self.next.unwrap_or(self.now);
        (stage.model, stage.epoch)
    }

    /// All members.
    pub fn members(&self) -> impl Iterator<Item = MemberId> {
        self.members.keys().copied()
    }

    /// Number of members.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// Number of messages with missing acknowledgements.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Whether a message has missing acknowledgements.
    pub fn is_open(&self, message: MessageId) -> bool {
        self.open.contains(message)
    }

    /// Number of members that have not acknowledged a message.
    pub fn unacknowledged_count(&self, message: MessageId) -> usize {
        self.open.get(message).map_or(0, MemberSet::len)
    }

    /// Members that have not acknowledged a message.
    pub fn unacknowledged(&self, message: MessageId) -> impl Iterator<Item = MemberId> {
        self.open.get(message).into_iter().flat_map(MemberSet::iter)
    }

    /// Whether a member has not acknowledged a message.
    pub fn awaits(&self, message: MessageId, member: MemberId) -> bool {
        self.open.get(message).is_some_and(|members| members.contains(member))
    }

    /// The first message that is awaited from a member.
    pub fn first_awaited(&self, member: MemberId) -> Option<MessageId> {
        self.open.iter().find(|(_, members)| members.contains(member)).map(|(number, _)| number)
    }

    /// Drops a message; returns the members that have not acknowledged it.
    pub fn forget(&mut self, message: MessageId) -> Vec<MemberId> {
        self.open.remove(message).map_or(Vec::new(), |members| members.iter().collect())
    }

    /// Starts a change to `model`; no-op during a change or if `model` is in use.
    pub fn change(&mut self, model: ModelId, now: Instant) -> Vec<Action> {
        if model == self.current().0 { Vec::new() } else { self.begin(model, now) }
    }

    /// Starts another epoch of the same model, with changed parameters; no-op during a change.
    pub fn renew(&mut self, now: Instant) -> Vec<Action> {
        self.begin(self.current().0, now)
    }

    fn begin(&mut self, model: ModelId, now: Instant) -> Vec<Action> {
        // One change at a time, so members are in two stages at most, and the old one can end.
        if self.phase() == Phase::Changing {
            return Vec::new();
        }
        let mut actions = self.conclude();
        let next = Stage { model, epoch: self.now.epoch.wrapping_add(1) };
        self.next = Some(next);
        self.unanswered = 0;
        actions.push(Action::Prepare { model, epoch: next.epoch });
        actions.extend(self.ask(now));
        actions
    }

    /// Ends a change without the members that have not answered. The next change asks them again, and
    /// they receive their unacknowledged messages after it.
    fn conclude(&mut self) -> Vec<Action> {
        let Some(next) = self.next else { return Vec::new() };
        self.members.values_mut().for_each(|stage| *stage = next);
        self.retire_old()
    }

    /// Asks members without an answer again when it is time.
    pub fn tick(&mut self, now: Instant) -> Vec<Action> {
        let mut actions =
            if self.next.is_some() && now >= self.ask_at { self.ask(now) } else { Vec::new() };
        // A change that began without members ends here: no member will report ready, or leave.
        actions.extend(self.retire_old());
        actions
    }

    fn ask(&mut self, now: Instant) -> Vec<Action> {
        let Some(next) = self.next else { return Vec::new() };
        self.ask_at = now + self.timeout * (1 << self.unanswered.min(MAX_DOUBLED));
        self.unanswered += 1;
        let waiting = self.members.iter().filter(|(_, stage)| **stage != next);
        waiting.map(|(member, _)| Action::Ask { member: *member, epoch: next.epoch }).collect()
    }

    /// A member is ready for an epoch. Its unacknowledged messages are sent again over the new
    /// model, under the same numbers. Reports for another epoch than the next one are ignored.
    pub fn ready(&mut self, member: MemberId, epoch: u32) -> Vec<Action> {
        let Some(next) = self.next.filter(|next| next.epoch == epoch) else { return Vec::new() };
        let Some(stage) = self.members.get_mut(&member).filter(|stage| **stage != next) else {
            return Vec::new();
        };
        *stage = next;
        self.unanswered = 0;
        let unacknowledged = self.open.iter().filter(|(_, members)| members.contains(member));
        // After a revocation, epochs before `first` are known to the member that has left.
        let unacknowledged = unacknowledged.filter(|_| next.epoch >= self.first);
        let mut actions: Vec<Action> = unacknowledged
            .map(|(message, _)| Action::Send {
                message,
                model: next.model,
                epoch: next.epoch,
                members: vec![member],
            })
            .collect();
        actions.extend(self.retire_old());
        actions
    }

    /// Sends a new message to all: over the new model to members that are ready, over the old
    /// model to the others.
    pub fn send(&mut self, message: MessageId) -> Vec<Action> {
        self.open.insert(message, self.members.keys().copied().collect());
        self.sends(message)
    }

    /// Sends a new message to some members, as [`send`](Self::send) does to all.
    pub fn send_to(&mut self, message: MessageId, to: &[MemberId]) -> Vec<Action> {
        // Most messages are to all.
        let all = to.iter().eq(self.members.keys());
        let known = to.iter().filter(|member| all || self.members.contains_key(member));
        self.open.insert(message, known.copied().collect());
        self.sends(message)
    }

    /// Time of the next `Ask`, if any.
    pub fn ask_at(&self) -> Option<Instant> {
        self.next.map(|_| self.ask_at)
    }

    /// Sends a message again to the members that have not acknowledged it.
    pub fn send_again(&mut self, message: MessageId) -> Vec<Action> {
        self.sends(message)
    }

    /// Members get messages only after their change to an epoch that begins after this.
    pub fn hold(&mut self) {
        self.first = self.next.unwrap_or(self.now).epoch.wrapping_add(1);
    }

    fn sends(&self, message: MessageId) -> Vec<Action> {
        if self.next.is_none() && self.now.epoch >= self.first {
            let members: Vec<MemberId> = self.unacknowledged(message).collect();
            let Stage { model, epoch } = self.now;
            return match members.is_empty() {
                true => Vec::new(),
                false => vec![Action::Send { message, model, epoch, members }],
            };
        }
        let mut sends: Vec<(Stage, Vec<MemberId>)> = Vec::new();
        for member in self.unacknowledged(message) {
            let Some(stage) = self.members.get(&member) else { continue };
            // Held until the member is ready for a later epoch (`ready`).
            if stage.epoch < self.first {
                continue;
            }
            match sends.iter_mut().find(|(known, _)| known == stage) {
                Some((_, members)) => members.push(member),
                None => sends.push((*stage, vec![member])),
            }
        }
        let send =
            |(Stage { model, epoch }, members)| Action::Send { message, model, epoch, members };
        sends.into_iter().map(send).collect()
    }

    /// A member acknowledges a message; ignored if the message was not sent to it.
    pub fn acknowledged(&mut self, member: MemberId, message: MessageId) {
        if let Some(members) = self.open.get_mut(message) {
            members.remove(member);
            if members.is_empty() {
                self.open.remove(message);
            }
        }
    }

    /// A member joins; it starts on the newest model.
    pub fn join(&mut self, member: MemberId) {
        let stage = self.next.unwrap_or(self.now);
        self.members.entry(member).or_insert(stage);
    }

    /// A member leaves; its outstanding messages are dropped.
    pub fn leave(&mut self, member: MemberId) -> Vec<Action> {
        self.members.remove(&member);
        self.open.retain(|_, members| {
            members.remove(member);
            !members.is_empty()
        });
        // The last member on the old model may have left.
        self.retire_old()
    }

    /// Retires the old model after all members have changed. Each member's outstanding messages
    /// were sent again over the new model when it changed.
    fn retire_old(&mut self) -> Vec<Action> {
        let Some(next) = self.next else { return Vec::new() };
        if self.members.values().any(|stage| *stage != next) {
            return Vec::new();
        }
        let old = core::mem::replace(&mut self.now, next);
        self.next = None;
        vec![Action::Retire { model: old.model, epoch: old.epoch }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ModelId::{Mqtt, MulticastFec, UdpArq};

    #[test]
    fn members_go_over_one_by_one_and_the_old_model_last() {
        let mut switch = Switch::new(UdpArq, [1, 2], Span::from_ns(10));
        switch.send(7);
        let actions = switch.change(MulticastFec, Instant::START);
        assert_eq!(actions[0], Action::Prepare { model: MulticastFec, epoch: 1 });
        assert_eq!(actions.len(), 3);
        assert!(switch.change(Mqtt, Instant::START).is_empty(), "one at a time");
        // Unacknowledged messages of the first go to it over the new model.
        let send = |message, model, members| {
            let epoch = u32::from(model == MulticastFec);
            Action::Send { message, model, epoch, members }
        };
        assert_eq!(switch.ready(1, 1), [send(7, MulticastFec, vec![1])]);
        assert!(switch.ready(1, 1).is_empty(), "a repeated report");
        assert_eq!(switch.send(8), [send(8, MulticastFec, vec![1]), send(8, UdpArq, vec![2])]);
        assert_eq!(switch.tick(Instant::from_ns(5)), []);
        assert_eq!(switch.tick(Instant::from_ns(10)), [Action::Ask { member: 2, epoch: 1 }]);
        assert!(switch.ready(2, 9).is_empty() && switch.phase() == Phase::Changing);
        switch.acknowledged(2, 8);
        let last = switch.ready(2, 1);
        assert_eq!(last[0], send(7, MulticastFec, vec![2]));
        assert_eq!(last[1], Action::Retire { model: UdpArq, epoch: 0 });
        assert_eq!((switch.phase(), switch.current()), (Phase::Stable, (MulticastFec, 1)));
    }

    #[test]
    fn a_leaving_member_blocks_no_change() {
        let mut switch = Switch::new(UdpArq, [1, 2], Span::from_ns(10));
        switch.send(7);
        switch.change(Mqtt, Instant::START);
        switch.ready(1, 1);
        let retired = switch.leave(2);
        assert_eq!(retired, [Action::Retire { model: UdpArq, epoch: 0 }]);
        switch.acknowledged(1, 7);
        assert_eq!(switch.open(), 0);
        switch.join(3);
        assert_eq!(switch.send(8).len(), 1, "the new member is on the new model");
    }

    /// What failed before: a member that was off held up all changes that followed the first one, and
    /// messages after two revocations for ever.
    #[test]
    fn a_member_that_does_not_answer_holds_up_one_change_only() {
        let mut switch = Switch::new(UdpArq, [1, 2], Span::from_ns(10));
        switch.send(7);
        switch.change(MulticastFec, Instant::START);
        switch.ready(1, 1);
        for _ in 0..MAX_ROUNDS {
            assert_eq!(switch.phase(), Phase::Changing);
            let now = switch.ask_at().unwrap();
            assert_eq!(switch.tick(now), [Action::Ask { member: 2, epoch: 1 }]);
        }
        assert_eq!(switch.phase(), Phase::Changing, "the last one may be answered");
        let now = switch.ask_at().unwrap();
        switch.tick(now);
        assert_eq!(switch.phase(), Phase::Stable);
        assert!(switch.change(MulticastFec, now).is_empty(), "it is in use");
        let actions = switch.change(UdpArq, now);
        assert_eq!(actions[0], Action::Retire { model: UdpArq, epoch: 0 });
        assert_eq!(actions[1], Action::Prepare { model: UdpArq, epoch: 2 });
        let ask = |member| Action::Ask { member, epoch: 2 };
        assert_eq!((&actions[2..], switch.phase()), (&[ask(1), ask(2)][..], Phase::Changing));
        // One that has come back gets what it lacks, whatever it has missed.
        let send = Action::Send { message: 7, model: UdpArq, epoch: 2, members: vec![2] };
        assert_eq!(switch.ready(2, 2), [send]);
    }

    #[test]
    fn after_a_hold_messages_wait_for_an_epoch_that_begins_later() {
        let mut switch = Switch::new(UdpArq, [1, 2, 3], Span::from_ns(10));
        switch.change(MulticastFec, Instant::START);
        switch.leave(3);
        switch.hold();
        // Who has left may have the keys of the change in progress.
        assert!(switch.send(7).is_empty() && switch.ready(1, 1).is_empty());
        assert_eq!(switch.ready(2, 1), [Action::Retire { model: UdpArq, epoch: 0 }]);
        assert!(switch.send_again(7).is_empty());
        switch.renew(Instant::START);
        let send = Action::Send { message: 7, model: MulticastFec, epoch: 2, members: vec![1] };
        assert_eq!(switch.ready(1, 2), [send]);
        assert_eq!(switch.send(8).len(), 1, "the other has not changed yet");
    }

    #[test]
    fn lies_are_not_heard() {
        let mut switch = Switch::new(UdpArq, [1], Span::from_ns(10));
        switch.send(7);
        switch.acknowledged(9, 7);
        switch.acknowledged(1, 99);
        assert!(switch.ready(9, 0).is_empty() && switch.ready(1, 0).is_empty());
        assert_eq!((switch.open(), switch.phase()), (1, Phase::Stable));
    }
}
