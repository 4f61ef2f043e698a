//! Handshakes in progress, whose hellos are answered again: the answer, or the member's reaction to it,
//! may be lost.

use crate::switch::MemberId;
use crate::{Instant, Span};
use alloc::collections::{BTreeMap, BTreeSet};

/// Time since the last hello of a member in which its handshake is in progress. Later the member is invited like
/// those that have not been heard.
const IN_PROGRESS: Span = Span::from_s(60);
/// Longest time between two answers to one member, for each handshake in progress. An answer and the
/// reaction have about 320 B with headers, which is two thirds of 1 kbit/s, the slowest path; RFC 8085, 3.1.3,
/// permits a datagram in three seconds if nothing comes back.
const MAX_WAIT: Span = Span::from_s(4);
/// Up to this number of handshakes in progress, their times are set with each member that joins.
const FEW: usize = 16;
/// Maximum number of times that the time between two answers is doubled.
const MAX_DOUBLED: u32 = 5;

#[derive(Debug, Clone, Copy)]
struct Retry {
    heard_at: Instant,
    /// Time of the next answer; never if none is due.
    at: Instant,
    /// Answers since a member joined.
    answers: u32,
}

/// Handshakes in progress.
#[derive(Debug, Default)]
pub(super) struct Retries {
    members: BTreeMap<MemberId, Retry>,
    /// The members with a next answer, in order of its time.
    due: BTreeSet<(Instant, MemberId)>,
    /// Their greatest number since the times were last set for fewer.
    counted: usize,
}

impl Retries {
    /// A member says hello, or someone repeats an earlier hello of it.
    pub fn heard(&mut self, member: MemberId, now: Instant) {
        let new = Retry { heard_at: now, at: Instant::NEVER, answers: 0 };
        self.members.entry(member).or_insert(new).heard_at = now;
        self.counted = self.counted.max(self.members.len());
    }

    /// The hub answers the last hello of this member, for the first time or again; without losses the
    /// reaction arrives within `patience`.
    pub fn answered(&mut self, member: MemberId, patience: Span, now: Instant) {
        let longest = (MAX_WAIT * self.members.len() as u64).max(patience);
        let Some(retry) = self.members.get_mut(&member) else { return };
        self.due.remove(&(retry.at, member));
        // The first one may be a random loss.
        let doubled = patience * (1 << retry.answers.saturating_sub(1).min(MAX_DOUBLED));
        retry.answers += 1;
        retry.at = now + doubled.min(longest);
        self.due.insert((retry.at, member));
    }

    /// The member has joined, so the path carries what is sent: others lack something because of losses. With
    /// fewer handshakes in progress, reactions arrive within a shorter `patience`.
    pub fn joined(&mut self, member: MemberId, patience: Span, now: Instant) {
        self.remove(member);
        self.members.values_mut().for_each(|retry| retry.answers = 0);
        // Not with each of hundreds, as it takes time for all.
        if self.members.len() <= FEW.max(self.counted / 2) {
            self.counted = self.members.len();
            let waiting = self.members.iter_mut().filter(|(_, retry)| retry.at < Instant::NEVER);
            self.due = waiting
                .map(|(member, retry)| {
                    retry.at = retry.at.min(now + patience);
                    (retry.at, *member)
                })
                .collect();
        }
    }

    /// The member has left.
    pub fn remove(&mut self, member: MemberId) {
        if let Some(retry) = self.members.remove(&member) {
            self.due.remove(&(retry.at, member));
        }
    }

    /// Whether the member has a next answer.
    pub fn has(&self, member: MemberId) -> bool {
        self.members.get(&member).is_some_and(|retry| retry.at < Instant::NEVER)
    }

    /// Time of the next answer.
    pub fn wake(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next member whose hello is to be answered again.
    pub fn take_due(&mut self, now: Instant) -> Option<MemberId> {
        while self.wake().is_some_and(|at| at <= now) {
            let (_, member) = self.due.pop_first()?;
            let Some(retry) = self.members.get_mut(&member) else { continue };
            retry.at = Instant::NEVER;
            if now < retry.heard_at + IN_PROGRESS {
                return Some(member);
            }
            self.members.remove(&member);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Span = Span::from_ms(400);

    fn at(ms: u64) -> Instant {
        Instant::START + Span::from_ms(ms)
    }

    /// Answers until `end`, in ms, to members that are all heard at the start.
    fn answers(retries: &mut Retries, end: u64) -> Vec<(u64, MemberId)> {
        let mut all = Vec::new();
        while let Some(now) = retries.wake().filter(|now| *now < at(end)) {
            while let Some(member) = retries.take_due(now) {
                assert!(!retries.has(member));
                retries.answered(member, PATIENCE, now);
                all.push((now.since_start().as_ms() as u64, member));
            }
        }
        all
    }

    fn times(answers: &[(u64, MemberId)], member: MemberId) -> Vec<u64> {
        answers.iter().filter(|(_, to)| *to == member).map(|(at, _)| *at).collect()
    }

    #[test]
    fn hellos_are_answered_again_until_the_member_joins_or_is_no_longer_heard() {
        let mut retries = Retries::default();
        retries.answered(1, PATIENCE, at(0));
        assert_eq!(retries.wake(), None, "it has said no hello");
        retries.heard(1, at(0));
        assert!(!retries.has(1));
        retries.answered(1, PATIENCE, at(0));
        assert!(retries.has(1));
        let all = times(&answers(&mut retries, 90_000), 1);
        assert_eq!(all[..6], [400, 800, 1_600, 3_200, 6_400, 10_400]);
        assert_eq!((all.len(), all.last()), (18, Some(&58_400)));
        assert!(!retries.has(1) && retries.wake().is_none() && retries.members.is_empty());
    }

    #[test]
    fn many_handshakes_together_need_no_more_than_the_slowest_path_has() {
        let mut retries = Retries::default();
        for member in 0..10 {
            retries.heard(member, at(0));
            retries.answered(member, PATIENCE, at(0));
        }
        let all = answers(&mut retries, 60_000);
        assert_eq!(times(&all, 7), [400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 38_400, 51_200]);
    }

    #[test]
    fn a_member_that_joins_shows_that_the_path_works() {
        let mut retries = Retries::default();
        for member in [1, 2] {
            retries.heard(member, at(0));
            retries.answered(member, PATIENCE, at(0));
        }
        answers(&mut retries, 3_000);
        retries.joined(1, PATIENCE, at(3_000));
        assert!(!retries.has(1) && retries.has(2));
        let all = answers(&mut retries, 6_000);
        assert_eq!(all, [(3_200, 2), (3_600, 2), (4_000, 2), (4_800, 2)]);
        retries.remove(2);
        assert_eq!((retries.wake(), retries.take_due(at(90_000))), (None, None));
    }
}
