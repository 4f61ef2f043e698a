//! Members that lose far more than the others. They say nothing of the network of the others, and
//! get more than these by unicast.

use crate::estimate::wilson;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::MemberId;
use alloc::collections::BTreeMap;

/// Memory of a member's average, in frames: a frame this old counts 1/e.
const MEMORY: f64 = 60.0;
/// A member is apart if it certainly loses more than this multiple of the median, and this share
/// (decision 103).
const FACTOR: f64 = 1.5;
const MORE: f64 = 0.1;
/// If more than one of this many members would be apart, it is the network that loses: with a queue
/// that drops, shares differ by chance.
const FEW: usize = 4;
/// The quantile of the normal distribution for 99.9 %: with many members, one of twenty would be
/// beyond the usual 95 % by chance. With 95 %, up to 16 of 50 were apart in networks with bursts of
/// losses (decision 103).
const Z: f64 = 3.290_527;

/// Received and lost frames of a member, with weights.
#[derive(Debug, Clone, Copy, Default)]
struct Frames {
    lost: f64,
    weight: f64,
}

impl Frames {
    fn add(&mut self, received: u32, lost: u32) {
        let new = f64::from(received) + f64::from(lost);
        let keep = (-new / MEMORY).exp();
        self.lost = self.lost * keep + f64::from(lost);
        self.weight = self.weight * keep + new;
    }

    fn share(self) -> f64 {
        if self.weight > 0.0 { self.lost / self.weight } else { 0.0 }
    }

    /// Lower limit of the loss: Wilson's interval (1927). Frames that are lost `burst` in a row are
    /// one observation.
    fn least(self, burst: f64) -> f64 {
        let each = burst.max(1.0);
        wilson(self.lost / each, self.weight / each, Z).low
    }
}

/// The losses of members, and who is apart.
#[derive(Debug, Default)]
pub(super) struct Apart {
    frames: BTreeMap<MemberId, Frames>,
    apart: BTreeMap<MemberId, f64>,
    /// The same, however many they are.
    bad: BTreeMap<MemberId, f64>,
}

impl Apart {
    /// Records received and lost frames of a member.
    pub fn frames(&mut self, member: MemberId, received: u32, lost: u32) {
        self.frames.entry(member).or_default().add(received, lost);
    }

    /// Finds out who is apart: few members, or none. `burst` is the mean number of frames that the
    /// others lose in a row.
    pub fn update(&mut self, burst: f64) {
        let mut shares: Vec<f64> = self.frames.values().map(|frames| frames.share()).collect();
        let middle = shares.len().saturating_sub(1) / 2;
        if shares.is_empty() {
            return;
        }
        let (_, median, _) = shares.select_nth_unstable_by(middle, f64::total_cmp);
        let limit = *median * FACTOR + MORE;
        let was = core::mem::take(&mut self.bad);
        self.apart.clear();
        let is = |member: &MemberId, frames: &Frames| {
            // Once apart, it must certainly be no better to stay.
            let loss = if was.contains_key(member) { frames.share() } else { frames.least(burst) };
            loss > limit
        };
        let apart = self.frames.iter().filter(|(member, frames)| is(member, frames));
        let apart: BTreeMap<_, _> =
            apart.map(|(member, frames)| (*member, frames.share())).collect();
        // Otherwise none is apart, not even those that were: it is the network that has changed.
        if apart.len() * FEW <= self.frames.len() {
            self.apart = apart.clone();
        }
        self.bad = apart;
    }

    /// Members that certainly lose far more than most, however many, as a share of all; their mean
    /// loss and that of the others. `None` if there are none.
    pub fn bad(&self) -> Option<(f64, f64, f64)> {
        let (count, all) = (self.bad.len() as f64, self.frames.len() as f64);
        if self.bad.is_empty() || count >= all {
            return None;
        }
        let bad: f64 = self.bad.values().sum();
        let good = self.frames.iter().filter(|(member, _)| !self.bad.contains_key(member));
        let good: f64 = good.map(|(_, frames)| frames.share()).sum();
        Some((count / all, bad / count, good / (all - count)))
    }

    /// The members that [`bad`](Self::bad) counts.
    pub fn bad_members(&self) -> impl Iterator<Item = &MemberId> {
        self.bad.keys()
    }

    /// The members that are apart, and their loss, 0 to 1.
    pub fn members(&self) -> &BTreeMap<MemberId, f64> {
        &self.apart
    }

    /// Whether a member is apart.
    pub fn has(&self, member: MemberId) -> bool {
        self.apart.contains_key(&member)
    }

    /// A member has left.
    pub fn remove(&mut self, member: MemberId) {
        self.frames.remove(&member);
        self.apart.remove(&member);
        self.bad.remove(&member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(losses: &[(u32, u32)]) -> Apart {
        let mut apart = Apart::default();
        for (member, (received, lost)) in (0..).zip(losses) {
            apart.frames(member, *received, *lost);
        }
        apart.update(1.0);
        apart
    }

    fn members(apart: &Apart) -> Vec<MemberId> {
        apart.members().keys().copied().collect()
    }

    #[test]
    fn one_that_certainly_loses_far_more_is_apart() {
        assert_eq!(members(&group(&[(20, 0), (20, 0), (20, 0), (10, 10)])), [3]);
        let few = [(20, 0), (20, 0), (20, 0), (2, 1)];
        assert!(members(&group(&few)).is_empty(), "too little was seen");
        let little = [(20, 0), (20, 0), (20, 0), (18, 2)];
        assert!(members(&group(&little)).is_empty(), "not far more");
    }

    #[test]
    fn if_many_are_bad_none_is_apart() {
        assert!(members(&group(&[(20, 0), (20, 0), (20, 0), (10, 10), (10, 10)])).is_empty());
    }

    #[test]
    fn losses_in_a_row_are_one_observation() {
        let mut apart = group(&[(20, 0), (20, 0), (20, 0), (10, 10)]);
        assert!(apart.has(3));
        apart = group(&[(20, 0), (20, 0), (20, 0), (10, 10)]);
        apart.apart.clear();
        apart.bad.clear();
        apart.update(6.0);
        assert!(!apart.has(3));
    }

    #[test]
    fn one_that_becomes_better_or_leaves_is_apart_no_longer() {
        let mut apart = group(&[(40, 0), (40, 0), (40, 0), (20, 20)]);
        apart.frames(3, 10, 3);
        apart.update(1.0);
        assert!(apart.has(3), "too soon to tell");
        apart.frames(3, 200, 2);
        apart.update(1.0);
        assert!(!apart.has(3));
        let mut apart = group(&[(40, 0), (40, 0), (40, 0), (20, 20)]);
        apart.remove(3);
        assert!(members(&apart).is_empty());
    }
}
