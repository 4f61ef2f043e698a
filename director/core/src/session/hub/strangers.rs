//! Hellos from addresses that the hub does not know: members that join places without a known
//! member, and known members at another address, for example behind a NAT, or after a restart.
//!
//! The answer goes to the address of the hello at once, and the hub keeps nothing of that address:
//! the hello can be a recorded one. Only what a member seals with the keys of the handshake moves it
//! to another address.

use super::Hub;
use super::invite::Begun;
use crate::Instant;
use crate::handshake;
use crate::model::Models;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::session::Event;
use crate::switch::MemberId;
use alloc::collections::VecDeque;

impl Hub {
    /// No member has the places from `first` on.
    pub(super) fn vacate(&mut self, first: MemberId) {
        self.strangers.first = first;
        for member in first..u32::from(self.members) {
            self.switch.leave(member);
            self.absent.remove(&member);
            self.uplinks.left.insert(member);
        }
    }

    /// Members that have joined and not left.
    pub fn present(&self) -> Vec<MemberId> {
        self.switch.members().filter(|member| !self.absent.contains(member)).collect()
    }

    /// Datagrams to send to the source of the last datagram, whatever that is.
    pub fn take_replies(&mut self) -> VecDeque<Vec<u8>> {
        core::mem::take(&mut self.strangers.replies)
    }

    /// A member reports that it is present. The answer is an invitation.
    pub(super) fn handle_report(
        &mut self,
        member: MemberId,
        epoch: u32,
        models: Models,
        now: Instant,
    ) {
        self.fresh = Some(member);
        self.mark_alive(now);
        if self.is_joined(member, epoch, models, now) {
            let (_, newest) = self.switch.current();
            self.invite_queue.push_back(member, newest);
        }
    }

    /// Members that have not reported for long have left without a message.
    pub(super) fn vacate_silent(&mut self, now: Instant) {
        while self.strangers.wake().is_some_and(|at| at <= now) {
            let Some(member) = self.strangers.most_silent() else { return };
            self.leave_place(member, now);
        }
    }

    /// A member has left; its place is vacant.
    pub(super) fn leave_place(&mut self, member: MemberId, now: Instant) {
        self.strangers.forget(member);
        self.drop_member(member, now);
        self.uplinks.left.insert(member);
        self.events.push_back(Event::Left(member));
    }

    /// Whether a member that the hub did not know at its start may have this place.
    fn is_vacant(&self, member: MemberId) -> bool {
        self.strangers.includes(member)
            && self.uplinks.left.contains(&member)
            && self.psks.of(member).is_some()
    }

    /// The members that a hello from an unknown address may be from, most likely first.
    fn candidates(&mut self, hello: &[u8], now: Instant) -> Vec<MemberId> {
        let all = 0..u32::from(self.members);
        // The key will tell: each is tried (decision 87).
        if self.psks.are_separate() {
            return all.collect();
        }
        // All have one key: who repeats a hello keeps its place, others get one without handshakes.
        let (datagram, hello) = (hello, handshake::fingerprint(hello));
        let knows = |member: &MemberId| {
            self.pairings.get(member).is_some_and(|pairing| pairing.knows(&hello))
        };
        if let Some(known) = all.clone().find(knows) {
            return vec![known];
        }
        let is_live =
            |member: &MemberId| self.pairings.get(member).is_some_and(|own| own.is_live(now));
        let mut free = all.filter(|member| self.is_vacant(*member) && !is_live(member));
        let free = free.next();
        // A known member that is elsewhere now says no more about itself than that it has the key.
        free.or_else(|| self.displaced(datagram, now)).into_iter().collect()
    }

    /// A known member that does not answer at its address, for a hello with the key of all. Asks the
    /// members of which that is not known yet: the other end repeats its hello.
    fn displaced(&mut self, hello: &[u8], now: Instant) -> Option<MemberId> {
        if !self.strangers.may_try(now) {
            return None;
        }
        let known = 0..self.strangers.first.min(self.members.into());
        let psk = known.clone().find_map(|member| self.psks.of(member))?;
        // Nothing but a hello of this session causes datagrams to members.
        if handshake::named(psk, hello)? != Some(self.session) && self.psks.is_secure() {
            let announcement = handshake::announcement(&self.session);
            self.strangers.replies.push_back(announcement);
            return None;
        }
        if !self.strangers.may_seek(now) {
            return None;
        }
        let (_, newest) = self.switch.current();
        for member in known {
            let is_live = self.pairings.get(&member).is_some_and(|own| own.is_live(now));
            if self.psks.of(member).is_none() || is_live {
                self.strangers.found(member);
            } else if self.strangers.seek(member, now) {
                self.invite_queue.push_back(member, newest);
            }
        }
        self.strangers.deaf(now)
    }

    /// A hello from an address that no member has.
    pub(super) fn handle_stranger(&mut self, hello: &[u8], from: Option<MemberId>, now: Instant) {
        for member in self.candidates(hello, now) {
            // Counts keys, not hellos: with a key for each member, one hello costs as many tries.
            if !self.strangers.may_try(now) {
                return;
            }
            match self.begin_handshake(member, hello) {
                None => {}
                Some(Begun::Old) => return,
                Some(Begun::Unnamed) => {
                    let announcement = handshake::announcement(&self.session);
                    self.strangers.replies.push_back(announcement);
                    return;
                }
                Some(Begun::Waits(until)) => {
                    // Once in the time of an answer: a recorded hello that is repeated with a
                    // forged source must not make the hub flood that address.
                    if until.is_none_or(|until| now >= until) {
                        let replies = self.answer_hello(member, hello, now);
                        self.strangers.replies.extend(replies.into_iter().flatten());
                    }
                    return;
                }
            }
        }
        self.report_refused(hello, from, now);
    }

    /// Reports a hello if no key opens it.
    fn report_refused(&mut self, hello: &[u8], from: Option<MemberId>, now: Instant) {
        if !self.strangers.may_report(from, now) || !self.strangers.may_try(now) {
            return;
        }
        // With one key for all it may be right, and no place be vacant now; separate keys were tried.
        let mut all = 0..u32::from(self.members);
        let shared = match self.psks.are_separate() {
            true => None,
            false => all.find_map(|member| self.psks.of(member)),
        };
        if shared.is_none_or(|psk| handshake::named(psk, hello).is_none()) {
            self.strangers.refuse(from, now);
        }
    }

    /// The welcome and the invitation for the handshake of this hello.
    fn answer_hello(
        &mut self,
        member: MemberId,
        hello: &[u8],
        now: Instant,
    ) -> Option<[Vec<u8>; 2]> {
        let (_, newest) = self.switch.current();
        let invitation = self.parameters(member, newest)?;
        let until = now + self.patience();
        let (welcome, root, count) = self.pairings.get_mut(&member)?.welcome_to(hello, until)?;
        Some([welcome, invitation.seal(root, count, 0)])
    }
}
