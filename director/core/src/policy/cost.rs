//! Cost of the models.

use super::{Bad, Candidate, ENOUGH, Policy, timeout};
use crate::conditions::Conditions;
use crate::envelope::DATA_OVERHEAD;
use crate::map::{Figures, Near, PerformanceMap, Quantiles};
use crate::model::ModelId;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::targets::Pattern;

/// Weight of a delivery shortfall: 1 % below the target doubles the cost.
const SHORTFALL: f64 = 100.0;
/// Weight of a missed deadline.
const LATENESS: f64 = 4.0;
/// Weight of an overloaded network: a model that overloads it is a choice only where all others are
/// far worse, or do too. The estimated rate can be wrong.
const OVERLOAD: f64 = 10.0;
/// Discount per satisfied preference.
const PREFERENCE_DISCOUNT: f64 = 0.05;
/// Surcharge per doubling of distance to the nearest measurement.
const DISTANCE_SURCHARGE: f64 = 0.1;
/// Assumed distance of a purely analytic prediction, in doublings.
const ANALYTIC_DISTANCE: f64 = 2.0;

/// Bytes of IPv4 and UDP headers and of the envelope around a plain datagram.
const WHOLE_OVERHEAD: f64 = 28.0 + DATA_OVERHEAD as f64;

impl Policy {
    /// Updates the predictions if conditions have moved.
    pub(super) fn predict(&mut self, here: &Conditions, map: &PerformanceMap) {
        let worst = Conditions { loss: here.loss.max(self.worst_loss), ..*here };
        let near = |known: &Conditions, now| known.distance(now) < self.settings.moved;
        let same = |other: Option<Bad>| match (self.bad, other) {
            (Some(now), Some(then)) => now.is_near(&then, here, self.settings.moved),
            (now, then) => now == then,
        };
        let is_same = |(at, most, bad): (Conditions, Conditions, Option<Bad>)| {
            near(&at, here) && near(&most, &worst) && same(bad)
        };
        if self.at.is_some_and(is_same) {
            return;
        }
        self.at = Some((*here, worst, self.bad));
        let parts = self.bad.map(|bad| {
            let [own, others] = bad.conditions(here);
            [(own, map.near(&own), bad.share), (others, map.near(&others), 1.0 - bad.share)]
        });
        let (pattern, may_fall_back) = (self.pattern, self.may_fall_back());
        // Maps cover answered messages; analytic predictions cover the others.
        let no_multicast = self.no_multicast;
        let predict = |model: ModelId, (here, near): (&Conditions, &Near)| {
            let fits = model.fits(here);
            let model = if no_multicast { sent_singly(model) } else { model };
            let measured = || pattern.is_answered().then(|| map.predict(model, near)).flatten();
            let guessed = || guess(model, pattern, (here, near), map);
            fits.then(|| measured().or_else(guessed)).flatten()
        };
        let loses = |model: ModelId| may_fall_back && !model.features().reliable;
        let (mean, bad) = match self.candidates.iter().any(|other| loses(other.model)) {
            true => {
                let [mean, bad] = map.near_both(here, worst.loss);
                (mean, Some(bad))
            }
            false => (map.near(here), None),
        };
        for candidate in &mut self.candidates {
            candidate.predicted = predict(candidate.model, (here, &mean));
            // A message is complete when the last member has answered.
            if let Some((figures, _)) = &mut candidate.predicted {
                figures.delay_ms = figures.delay_ms.last_of(here.group);
            }
            candidate.apart = parts.as_ref().and_then(|parts| {
                let [bad, others] = parts.each_ref().map(|(at, near, share)| {
                    let (figures, _) = predict(candidate.model, (at, near))?;
                    Some(figures.delay_ms.last_of(here.group * share))
                });
                Some([bad?, others?])
            });
            let used = candidate.predicted.as_ref().map_or(0.0, |(figures, _)| figures.bytes);
            let spends = candidate.model.repairs_ahead();
            let model = if no_multicast { sent_singly(candidate.model) } else { candidate.model };
            let least = spends.then(|| model.predict(pattern, here)).flatten();
            candidate.needs = least.map_or(used, |least| used.min(least.bytes));
            let bad = bad.as_ref().filter(|_| loses(candidate.model));
            let at_worst = bad.and_then(|bad| predict(candidate.model, (&worst, bad)));
            candidate.risk = at_worst.map_or(0.0, |(figures, _)| 1.0 - figures.delivery);
        }
    }

    /// Load that a model causes, as a multiple of the load that the path may have; at least 1.
    fn overload(&self, candidate: &Candidate, here: &Conditions) -> f64 {
        let messages_s = here.messages_s * here.group.max(1.0);
        let of = |candidate: &Candidate| {
            let load = candidate.needs * 8.0 * messages_s / here.rate_bit_s.max(1.0);
            (load / self.settings.most_load).max(1.0)
        };
        // While each message ends before the next one, the path carries at least the present load,
        // whatever the estimated rate.
        let in_time = self.observed >= ENOUGH && self.measured * here.messages_s < 1_000.0;
        let current = self.candidates.iter().find(|other| other.model == self.current);
        let carried = current.filter(|_| in_time).map_or(1.0, of);
        (of(candidate) / carried).max(1.0)
    }

    /// Cautious cost of a model; `None` if it cannot work here, or has no prediction.
    pub(super) fn cost(&self, candidate: &Candidate, here: &Conditions) -> Option<f64> {
        let blocked = self.no_multicast && !candidate.model.features().by_unicast;
        let loses = self.fall_back && !candidate.model.features().reliable;
        let refused = self.refused && candidate.model == self.current;
        // Only plain datagrams can be longer than a packet.
        let long = here.payload + WHOLE_OVERHEAD > here.mtu;
        let cut = self.no_fragments && long && candidate.model == ModelId::UdpRequestResponse;
        if blocked || cut || loses || refused || !self.member_models.has(candidate.model) {
            return None;
        }
        let (figures, distance) = candidate.predicted.as_ref()?;
        let overload = self.overload(candidate, here);
        let unsure =
            (self.common_correction + candidate.correction + DISTANCE_SURCHARGE * distance).exp();
        let parts = candidate.apart.zip(self.bad);
        let delay = parts.map_or(figures.delay_ms, |(parts, bad)| bad.mean(parts));
        let Quantiles { p50, p90, p99 } = delay;
        // Close to the mean delay, weighted towards the tail. Undelivered messages count as a
        // proportional delay.
        let mut cost = unsure * (p50 + p90 + p99) / 3.0 / figures.delivery.max(1e-3);
        if overload > 1.0 {
            cost *= OVERLOAD * overload * overload;
        }
        // Another model retransmits lost messages, after the timeout.
        cost += candidate.risk * (timeout(unsure * p99, here) + cost);
        if let Some(ratio) = self.targets.delivery_ratio {
            cost *= 1.0 + SHORTFALL * (ratio - figures.delivery).max(0.0);
        }
        if let Some(deadline) = self.targets.deadline {
            let late = unsure * p99 / (deadline.as_ms()).max(1e-6);
            cost *= 1.0 + LATENESS * (late - 1.0).max(0.0);
        }
        for (used, budget) in
            [(figures.bytes, self.targets.data_budget), (figures.energy, self.targets.energy)]
        {
            let over = budget.map_or(1.0, |budget| (used / budget.max(1e-12)).max(1.0));
            cost *= over * over;
        }
        Some(cost * (1.0 - PREFERENCE_DISCOUNT).powi(candidate.score))
    }
}

/// The model whose figures are those of a model without multicast.
fn sent_singly(model: ModelId) -> ModelId {
    let features = model.features();
    // No figures were measured; a message to each member, and timeouts, are those of `udp-arq`.
    if features.multicast && features.by_unicast { ModelId::UdpArq } else { model }
}

/// Analytic prediction for a model without measurements, and its distance to measurements. It is
/// corrected by the error at a similar, measured model: otherwise an uncorrected prediction would
/// look better than measured models.
fn guess(
    model: ModelId,
    pattern: Pattern,
    (here, near): (&Conditions, &Near),
    map: &PerformanceMap,
) -> Option<(Figures, f64)> {
    let mut guess = model.predict(pattern, here)?;
    let similar = model.similar().filter(|_| pattern.is_answered());
    let seen = similar.and_then(|similar| map.predict(similar, near));
    let predicted = similar.and_then(|similar| similar.predict(pattern, here));
    let (Some((seen, distance)), Some(predicted)) = (seen, predicted) else {
        return Some((guess, ANALYTIC_DISTANCE));
    };
    let scale = |guess: &mut f64, seen: f64, predicted: f64| *guess *= seen / predicted.max(1e-9);
    scale(&mut guess.delay_ms.p50, seen.delay_ms.p50, predicted.delay_ms.p50);
    scale(&mut guess.delay_ms.p90, seen.delay_ms.p90, predicted.delay_ms.p90);
    scale(&mut guess.delay_ms.p99, seen.delay_ms.p99, predicted.delay_ms.p99);
    scale(&mut guess.bytes, seen.bytes, predicted.bytes);
    guess.delivery = guess.delivery.min(seen.delivery);
    Some((guess, distance + ANALYTIC_DISTANCE))
}
