//! Membership: invitations and what members report.

use super::Hub;
use super::invite_queue::asking_time;
use crate::Nanos;
use crate::envelope::Invitation;
use crate::model::{ModelId, Models};
use crate::switch::{MemberId, MessageId};

/// Maximum number of times that the invitation interval is doubled.
const MAX_DOUBLED: u32 = 5;

impl Hub {
    /// Invites absent members again.
    pub(super) fn invite(&mut self, now: Nanos) {
        if self.absent.is_empty() || now < self.invite_at() || !self.invite_queue.is_empty() {
            return;
        }
        let (_, epoch) = self.switch.current();
        self.failed_rounds += u32::from(self.invited.is_some());
        self.invited = Some((now, self.absent.len() as u16));
        self.absent.iter().for_each(|member| self.invite_queue.push_back(*member, epoch));
    }

    /// A member sends a hello and asks for an invitation.
    pub(super) fn handle_hello(&mut self, member: MemberId) {
        let (_, epoch) = self.switch.current();
        // A known member has restarted, and a queued one may be up before others: invite first.
        // One that was invited a moment ago may have sent its hello before; the next round is
        // enough.
        if self.invite_queue.contains(member) || !self.absent.contains(&member) {
            self.invite_queue.push_front(member, epoch);
        } else {
            self.failed_rounds = 0;
        }
    }

    /// Time of the next invitation of absent members; backs off while no member joins.
    pub(super) fn invite_at(&self) -> Nanos {
        let Some((at, members)) = self.invited else { return 0 };
        at + (asking_time(&self.conditions(), members) << self.failed_rounds.min(MAX_DOUBLED))
    }

    pub(super) fn invitation(&mut self, member: MemberId, epoch: u32) -> Option<Vec<u8>> {
        let model = self.stages.get(&epoch)?.model;
        let here = self.conditions();
        let invitation = Invitation {
            session: self.root.session(),
            epoch,
            model: Some(model),
            member: (u16::try_from(member).ok()?, self.members),
            group: self.config.group,
            datagram: u16::try_from(self.config.datagram()).unwrap_or(u16::MAX),
            rate_bit_s: here.rate_bit_s as f32,
            loss: (here.loss * 255.0).round() as u8,
            round_trip: here.rtt_ns,
            answered: self.config.pattern.is_answered(),
            next: self.next,
        };
        let draw = self.rng.bits();
        Some(invitation.seal(&self.invites, draw))
    }

    /// Takes a later session number: members know one from before this hub's clock was set
    /// back.
    pub(super) fn renumber(&mut self, session: u64, now: Nanos) {
        let Ok(root) = self.config.security.root(session) else { return };
        self.root = root;
        self.absent = (0..u32::from(self.members)).collect();
        (self.invited, self.failed_rounds) = (None, 0);
        let stages: Vec<(u32, ModelId)> =
            std::mem::take(&mut self.stages).iter().map(|(epoch, s)| (*epoch, s.model)).collect();
        for (epoch, model) in stages {
            self.open(model, epoch);
        }
        let open: Vec<MessageId> = self.messages.keys().copied().collect();
        for number in open {
            let actions = self.switch.send_again(number);
            let _ = self.perform(actions, now);
        }
    }

    /// A member announces its models: it may have another version than the hub, or fewer
    /// features.
    pub(super) fn set_models(&mut self, member: MemberId, models: Models) {
        if self.models.insert(member, models) == Some(models) {
            return;
        }
        let all = self.models.values().fold(Models::ALL, |all, own| all.and(*own));
        self.urgent |= !self.policy.set_member_models(all);
    }
}
