//! Messages to members.

use super::{Hub, LINGER, Outgoing};
use crate::Nanos;
use crate::carrier::Load;
use crate::envelope;
use crate::session::SessionError;
use crate::switch::{Action, MemberId, MessageId};

impl Hub {
    /// Sends a message to all members; returns its number.
    ///
    /// # Errors
    /// [`SessionError`] if no model in use can carry it.
    pub fn send(&mut self, bytes: &[u8], now: Nanos) -> Result<MessageId, SessionError> {
        let all: Vec<MemberId> = (0..u32::from(self.members)).collect();
        self.send_to(bytes, &all, now)
    }

    /// Sends a message to some members; returns its number.
    ///
    /// # Errors
    /// [`SessionError`] if no model in use can carry it.
    pub fn send_to(
        &mut self,
        bytes: &[u8],
        to: &[MemberId],
        now: Nanos,
    ) -> Result<MessageId, SessionError> {
        let number = self.next;
        self.next += 1;
        self.payload = bytes.len().max(1);
        self.fan_out = to.len().max(1);
        self.sent_at.push_back(now);
        if self.sent_at.len() > 32 {
            self.sent_at.pop_front();
        }
        let until = self.config.targets.deadline_ns.map(|deadline| now + deadline);
        let bytes = bytes.to_vec();
        let outgoing = Outgoing { bytes, to: to.len(), sent_at: now, due: None, until };
        self.messages.insert(number, outgoing);
        self.drop_oldest();
        let actions = self.switch.send_to(number, to);
        if let Err(error) = self.perform(actions, now)
            && !self.change_after_rejection(&error, now)
        {
            self.switch.forget(number);
            self.messages.remove(&number);
            return Err(error);
        }
        Ok(number)
    }

    pub(super) fn perform(&mut self, actions: Vec<Action>, now: Nanos) -> Result<(), SessionError> {
        let due = now + self.timeout();
        let mut performed = Ok(());
        for action in actions {
            match action {
                Action::Prepare { model, epoch } => self.open(model, epoch),
                Action::Ask { member, epoch } => self.invite_queue.push_back(member, epoch),
                Action::Retire { epoch, .. } => {
                    let until = now + LINGER + 4 * self.conditions().rtt_ns;
                    if let Some(stage) = self.stages.get_mut(&epoch) {
                        stage.carrier.retire(now);
                        stage.until = Some(until);
                    }
                }
                Action::Send { message, model, epoch, members } => {
                    let Some(outgoing) = self.messages.get_mut(&message) else { continue };
                    outgoing.due = Some(due);
                    let Some(stage) = self.stages.get_mut(&epoch) else { continue };
                    let sealed = envelope::seal_data(&self.root, epoch, message, &outgoing.bytes);
                    let load = Load {
                        number: message,
                        sealed: &sealed,
                        answered: self.config.pattern.is_answered(),
                        until: outgoing.until,
                    };
                    let sent = stage.carrier.send(load, &members, now);
                    performed =
                        performed.and(sent.map_err(|why| SessionError::Refused(model, why)));
                }
            }
        }
        performed
    }
}
