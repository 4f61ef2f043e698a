//! Invitations of the hub: joining a session and its epochs.

use super::{Joined, Member, MemberEvent, Stage};
use crate::Instant;
use crate::carrier::{self, Params};
use crate::envelope::{self, Echo, FromMember, Invitation};
use crate::handshake::Welcome;
use crate::keys::Root;
use crate::message_map::MessageMap;
use crate::signature::Authority;
use crate::window::{self, Window};
use alloc::collections::BTreeMap;

impl Member {
    /// An invitation of the hub, or of someone who claims to be it.
    pub(super) fn invitation(&mut self, datagram: &[u8], now: Instant) {
        // The keys of a complete handshake first: the member changes to that session now, and not
        // before its invitation (decision 63).
        let complete = self.handshakes.complete.as_mut().map(|link| link.open(datagram));
        if let Some(opened) = complete.flatten() {
            return self.invited(true, opened, datagram, now);
        }
        let joined = self.joined.as_mut().map(|joined| joined.link.open(datagram));
        if let Some(opened) = joined.flatten() {
            // A repeated one is no sign of life.
            if opened.is_some() {
                self.reports.record_answer(now);
            }
            return self.invited(false, opened, datagram, now);
        }
        match self.joined {
            // The welcome before it may be lost.
            None => self.handshakes.prompt(now),
            // The hub uses other keys: those of a former start of this member, if the message that
            // proved the present ones was lost.
            Some(_) => self.reports.doubt(now),
        }
    }

    /// The hub invites to an epoch by a datagram; `new` if it is the first of a handshake. `None` if
    /// it is a repeated or late invitation.
    fn invited(
        &mut self,
        new: bool,
        invitation: Option<Invitation>,
        datagram: &[u8],
        now: Instant,
    ) {
        let Some(invitation) = &invitation else { return };
        let known = self.joined.as_ref().filter(|_| !new).map(|joined| joined.epoch);
        if known.is_some_and(|known| known > invitation.epoch) {
            return;
        }
        // The keys of a repeated invitation are known; its answer may have been lost.
        if known != Some(invitation.epoch) {
            let link = match new {
                true => self.handshakes.complete.as_mut(),
                false => self.joined.as_mut().map(|joined| &mut joined.link),
            };
            let Some(link) = link else { return };
            let root = match self.psk {
                Some(_) => Root::new(&invitation.secret, link.welcome.session)
                    .signed(Authority::of(invitation.signer)),
                None => Root::insecure(link.welcome.session),
            };
            // The hub may not have measured the path yet.
            let own = self.handshakes.round_trip.filter(|_| invitation.estimated);
            let round_trip = invitation.round_trip.max(own.unwrap_or_default());
            let params = Params {
                root: root.clone(),
                pair: link.root.clone(),
                epoch: invitation.epoch,
                members: link.welcome.members,
                datagram: usize::from(invitation.datagram),
                below: self.below,
                rate_bit_s: f64::from(invitation.rate_bit_s),
                loss: f64::from(invitation.loss) / 255.0,
                round_trip,
                wait: round_trip,
                estimated: invitation.estimated,
                answered: link.welcome.answered,
                answer: 0,
                efficient: false,
                seed: self.rng.seed(),
            };
            let model = invitation.model.filter(|model| self.models.has(*model));
            let stage = model.and_then(|model| {
                let mut carrier = carrier::member(model, &params, link.welcome.member)?;
                carrier.set_bundles(invitation.bundles);
                carrier.set_next(invitation.next);
                Some(Stage { model, root, received_at: now, carrier })
            });
            let Some(stage) = stage else {
                // A model of a later version or not compiled in: the hub must select another.
                let cannot = link.control(invitation.epoch, FromMember::Cannot, self.models);
                self.control.push_back(cannot);
                return;
            };
            self.enter(invitation, stage, new);
            self.uplink.set_datagram(invitation.datagram.into());
            if new {
                let reports = self.joined.as_ref().is_some_and(|own| own.link.welcome.reports);
                // Without keys, nothing else shows that the hub takes this start for a former one.
                self.reports.begin(reports, self.psk.is_none(), now);
                self.connect_uplink(invitation);
            }
        }
        if let Some(joined) = &mut self.joined {
            // What the hub has measured meanwhile.
            if invitation.estimated
                && known == Some(invitation.epoch)
                && let Some(stage) = joined.stages.get_mut(&invitation.epoch)
            {
                stage.carrier.set_round_trip(invitation.round_trip);
            }
            let size = if invitation.probes { datagram.len() } else { 0 };
            let echo = envelope::invitation_count(datagram);
            let echo = echo.map_or(Echo::Unknown, Echo::of_invitation);
            joined.ready(self.models, echo, size, &mut self.control);
        }
    }

    /// Whether a unicast datagram should have arrived by multicast, which does not reach this
    /// member. To join the group again may help.
    pub fn misses_multicast(&self, datagram: &[u8]) -> bool {
        let members = self.joined.as_ref().map_or(0, |joined| joined.link.welcome.members);
        members > 1 && carrier::asks(datagram)
    }

    /// Changes to an epoch, of this session or of a new one.
    fn enter(&mut self, invitation: &Invitation, stage: Stage, new: bool) {
        if new && let Some(link) = self.handshakes.finish() {
            let session = link.welcome.session;
            // The hub counts messages by session: what has arrived before is not delivered again.
            let before = self.joined.take().filter(|own| own.link.welcome.session == session);
            let (stages, epoch) = (BTreeMap::new(), invitation.epoch);
            self.joined = Some(match before {
                Some(before) => Joined { link, epoch, stages, ..before },
                None => Joined {
                    link,
                    epoch,
                    stages,
                    probes: 0,
                    window: Window::beginning_at(invitation.next, window::MESSAGES),
                    newest: invitation.next,
                    open: MessageMap::default(),
                },
            });
        }
        let Some(joined) = &mut self.joined else { return };
        joined.epoch = invitation.epoch;
        let Welcome { group, .. } = joined.link.welcome;
        let model = stage.model;
        joined.stages.insert(invitation.epoch, stage);
        // Keep the previous model: it can have messages in flight.
        while joined.stages.len() > 2 {
            joined.stages.pop_first();
        }
        self.events.push_back(MemberEvent::Joined { group, model });
    }
}
