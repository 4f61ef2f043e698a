//! `udp-request-response`: an envelope is a datagram. Nothing is sent again.

use super::pace::{Pace, apart};
use super::{Carried, HubCarrier, Load, MemberCarrier, Place, To};
use crate::Nanos;
use crate::chance::Chance;
use crate::switch::{MemberId, MessageId};
use std::collections::VecDeque;

/// What waits at most; more is dropped from the front: it is the oldest.
const MOST_WAITING: usize = 4_096;

/// The hub's side.
#[derive(Debug)]
pub struct Hub {
    waiting: VecDeque<(MemberId, Vec<u8>)>,
    pace: Pace,
}

impl Hub {
    /// One that sends at the channel's rate at most.
    pub fn new(place: &Place) -> Self {
        Self { waiting: VecDeque::new(), pace: Pace::new(place.rate_bit_s, place.below) }
    }
}

impl HubCarrier for Hub {
    fn send(&mut self, load: Load<'_>, to: &[MemberId], _: Nanos) -> Result<(), String> {
        for member in to {
            if self.waiting.len() >= MOST_WAITING {
                self.waiting.pop_front();
            }
            self.waiting.push_back((*member, load.sealed.to_vec()));
        }
        Ok(())
    }

    fn receive(&mut self, _: &[u8], _: Option<MemberId>, _: Nanos) {}

    fn poll(&mut self, now: Nanos) -> (Option<(To, Vec<u8>)>, Option<Nanos>) {
        if self.waiting.is_empty() {
            return (None, None);
        }
        if self.pace.next_at() > now {
            return (None, Some(self.pace.next_at()));
        }
        let Some((member, sealed)) = self.waiting.pop_front() else { return (None, None) };
        self.pace.sent(sealed.len(), now);
        (Some((To::Member(member), sealed)), Some(self.pace.next_at()))
    }

    fn take(&mut self) -> Vec<Carried> {
        Vec::new()
    }
}

/// A member's side.
#[derive(Debug)]
pub struct Member {
    waiting: VecDeque<(Nanos, Vec<u8>)>,
    pace: Pace,
    chance: Chance,
    place: Place,
}

impl Member {
    /// One whose answers do not meet those of others more than they must.
    pub fn new(place: &Place) -> Self {
        Self {
            waiting: VecDeque::new(),
            pace: Pace::new(place.rate_bit_s, place.below),
            chance: Chance::new(place.seed),
            place: place.clone(),
        }
    }
}

impl MemberCarrier for Member {
    fn answer(&mut self, _: MessageId, sealed: &[u8], now: Nanos) -> Result<(), String> {
        let wait = apart(&self.place, sealed.len(), &mut self.chance);
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back((now + wait, sealed.to_vec()));
        }
        Ok(())
    }

    fn receive(&mut self, _: &[u8], _: Nanos) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        let Some((at, _)) = self.waiting.front() else { return (None, None) };
        let at = (*at).max(self.pace.next_at());
        if at > now {
            return (None, Some(at));
        }
        let Some((_, sealed)) = self.waiting.pop_front() else { return (None, None) };
        self.pace.sent(sealed.len(), now);
        (Some(sealed), Some(self.pace.next_at()))
    }

    fn acknowledges(&self) -> bool {
        false
    }
}
