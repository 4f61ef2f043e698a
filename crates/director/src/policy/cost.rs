//! What models cost.

use super::{Candidate, Policy};
use crate::analytic;
use crate::conditions::Conditions;
use crate::map::{Figures, Near, PerformanceMap, Quantiles};
use crate::model::ModelId;
use crate::targets::Pattern;

/// How much a shortfall of delivery counts: one percent too little doubles the cost.
const SHORTFALL: f64 = 100.0;
/// How much being late counts.
const LATE: f64 = 4.0;
/// A wish that is met makes a model so much dearer that it may be.
const WISH: f64 = 0.05;
/// By how much a doubling of distance from what is known makes a prediction dearer.
const CAUTION: f64 = 0.1;
/// What arithmetic alone says is held to be so many doublings from what is known.
const GUESSED: f64 = 2.0;
/// A message that takes so many times as long as expected has failed.
const FAILED: f64 = 3.0;
/// And nothing has sooner than this, in ms.
const LEAST_PATIENCE: f64 = 100.0;

impl Policy {
    /// Asks the map again if the session has moved on it.
    pub(super) fn predict(&mut self, here: &Conditions, map: &PerformanceMap) {
        let worst = Conditions { loss: here.loss.max(self.most_loss), ..*here };
        let near = |known: &Conditions, now| known.distance(now) < self.settings.moved;
        if self.at.is_some_and(|(at, bad)| near(&at, here) && near(&bad, &worst)) {
            return;
        }
        self.at = Some((*here, worst));
        let (pattern, rescues) = (self.pattern, self.rescues());
        // Maps are of answered messages; arithmetic knows of others.
        let predict = |model: ModelId, (here, near): (&Conditions, &Near)| {
            let fits = model.fits(here);
            let measured = || pattern.is_answered().then(|| map.predict(model, near)).flatten();
            let guessed = || guess(model, pattern, (here, near), map);
            fits.then(|| measured().or_else(guessed)).flatten()
        };
        let loses = |model: ModelId| rescues && !model.features().reliable;
        let (mean, bad) = match self.candidates.iter().any(|other| loses(other.model)) {
            true => {
                let [mean, bad] = map.near_both(here, worst.loss);
                (mean, Some(bad))
            }
            false => (map.near(here), None),
        };
        for candidate in &mut self.candidates {
            candidate.predicted = predict(candidate.model, (here, &mean));
            // A message is over when the last of a group has answered.
            if let Some((figures, _)) = &mut candidate.predicted {
                figures.delay_ms = figures.delay_ms.last_of(here.group);
            }
            let had = candidate.predicted.as_ref().map_or(0.0, |(figures, _)| figures.bytes);
            let spends = candidate.model == ModelId::MulticastFec;
            let least = spends.then(|| analytic::predict(candidate.model, pattern, here)).flatten();
            candidate.needs = least.map_or(had, |least| had.min(least.bytes));
            let bad = bad.as_ref().filter(|_| loses(candidate.model));
            let at_worst = bad.and_then(|bad| predict(candidate.model, (&worst, bad)));
            candidate.risk = at_worst.map_or(0.0, |(figures, _)| 1.0 - figures.delivery);
        }
    }

    /// What a model costs, cautiously: nothing where it would fill the network, or the map
    /// does not know it.
    pub(super) fn cost(&self, candidate: &Candidate, here: &Conditions) -> Option<f64> {
        let unheard = self.no_multicast && candidate.model.features().multicast;
        let loses = self.rescue && !candidate.model.features().reliable;
        if unheard || loses || !self.had.has(candidate.model) {
            return None;
        }
        let (figures, distance) = candidate.predicted.as_ref()?;
        let messages_s = here.messages_s * here.group.max(1.0);
        let load = candidate.needs * 8.0 * messages_s / here.rate_bit_s.max(1.0);
        if load > self.settings.most_load {
            return None;
        }
        let unsure = (self.common + candidate.own + CAUTION * distance).exp();
        let Quantiles { p50, p90, p99 } = figures.delay_ms;
        // Close to the mean, with more weight on what is slow. What does not arrive is as bad
        // as if all came later by that share.
        let mut cost = unsure * (p50 + p90 + p99) / 3.0 / figures.delivery.max(1e-3);
        // What is lost, and not wished to be, goes again by another model, when it is missed.
        cost += candidate.risk * (patience(unsure * p99, here) + cost);
        if let Some(ratio) = self.targets.delivery_ratio {
            cost *= 1.0 + SHORTFALL * (ratio - figures.delivery).max(0.0);
        }
        if let Some(deadline) = self.targets.deadline_ns {
            let late = unsure * p99 / (deadline as f64 / 1e6).max(1e-6);
            cost *= 1.0 + LATE * (late - 1.0).max(0.0);
        }
        for (had, budget) in
            [(figures.bytes, self.targets.data_budget), (figures.energy, self.targets.energy)]
        {
            let over = budget.map_or(1.0, |budget| (had / budget.max(1e-12)).max(1.0));
            cost *= over * over;
        }
        Some(cost * (1.0 - WISH).powi(candidate.score))
    }
}

/// How long a message may take that is expected to take so many ms, in ms.
pub(super) fn patience(expected_ms: f64, here: &Conditions) -> f64 {
    FAILED * expected_ms + 2.0 * here.rtt_ns as f64 / 1e6 + LEAST_PATIENCE
}

/// What arithmetic says of a model that nobody has measured, and how far that is from what is
/// known. Where one that works alike was measured it is off by as much: otherwise it would seem
/// better than those of which the truth is known.
fn guess(
    model: ModelId,
    pattern: Pattern,
    (here, near): (&Conditions, &Near),
    map: &PerformanceMap,
) -> Option<(Figures, f64)> {
    let mut guess = analytic::predict(model, pattern, here)?;
    let kin = model.kin().filter(|_| pattern.is_answered());
    let seen = kin.and_then(|kin| map.predict(kin, near));
    let said = kin.and_then(|kin| analytic::predict(kin, pattern, here));
    let (Some((seen, distance)), Some(said)) = (seen, said) else { return Some((guess, GUESSED)) };
    let off = |guess: &mut f64, seen: f64, said: f64| *guess *= seen / said.max(1e-9);
    off(&mut guess.delay_ms.p50, seen.delay_ms.p50, said.delay_ms.p50);
    off(&mut guess.delay_ms.p90, seen.delay_ms.p90, said.delay_ms.p90);
    off(&mut guess.delay_ms.p99, seen.delay_ms.p99, said.delay_ms.p99);
    off(&mut guess.bytes, seen.bytes, said.bytes);
    guess.delivery = guess.delivery.min(seen.delivery);
    Some((guess, distance + GUESSED))
}
