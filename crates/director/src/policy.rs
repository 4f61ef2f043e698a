//! The choice: which model serves a session best, and whether a change is worth it.

use crate::Nanos;
use crate::analytic;
use crate::conditions::Conditions;
use crate::map::{Figures, Near, PerformanceMap, Quantiles};
use crate::model::{ModelId, Models};
use crate::properties::{Preference, TransportProperties};
use crate::targets::{Pattern, QosTargets};
use std::fmt;

/// When a change is worth it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The least gain, as a share of the present cost.
    pub gain: f64,
    /// What a change costs, in ms of delay, spread over the least dwell.
    pub switch_ms: f64,
    /// So often in a row a model has to be better.
    pub sustained: u32,
    /// The least time between two changes.
    pub dwell_ns: Nanos,
    /// The share of the narrowest part that a model may fill, 0 to 1.
    pub most_load: f64,
    /// Predictions are made anew when conditions have moved so far, in doublings.
    pub moved: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            gain: 0.15,
            switch_ms: 1.0,
            sustained: 3,
            dwell_ns: 5_000_000_000,
            most_load: 0.85,
            moved: 0.25,
        }
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The model stays.
    Stay,
    /// It changes to this one.
    Change(ModelId),
}

/// A choice and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What is to be done.
    pub choice: Choice,
    /// The model that is best now, whether it is worth a change or not.
    pub best: Option<ModelId>,
    /// What the present model costs, and what the best would, in ms of delay or what is
    /// as bad; nothing where the map does not say.
    pub costs: (Option<f64>, Option<f64>),
    /// What each model would cost that may be chosen, the cheapest first.
    pub all: Vec<(ModelId, f64)>,
    /// Why nothing changes, or why now.
    pub why: Why,
}

/// Why a decision is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The present model is the best.
    Best,
    /// Another is better, but not by enough.
    SmallGain,
    /// Another is better, but has not been for long enough.
    NotSustained,
    /// Another is better, but the last change was a moment ago.
    Dwelling,
    /// Another is better by enough, and has been for a while.
    Gain,
    /// A deadline was missed, or nothing came through, and another is better.
    Urgent,
    /// Nothing that is known of would do.
    Nothing,
}

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
/// How fast what is seen corrects what the map says: of all models, since what makes one
/// slower than the map says (a network that is not as it is thought to be) makes others slower.
const LEARN: f64 = 0.1;
/// How fast it corrects what is said of the model in use beside the others.
const LEARN_OWN: f64 = 0.03;
/// By how much a failure makes a model dearer, as a logarithm: when some are lacking, and when
/// all are; and how dear it may get.
const FAILURE: [f64; 2] = [0.15, 1.0];
const MOST_FAILED: f64 = 2.0;
/// Further off than this, as a logarithm, the map is not held to be.
const MOST_OFF: f64 = 1.5;
/// A message that takes so many times as long as expected has failed.
const FAILED: f64 = 3.0;
/// And nothing has sooner than this, in ms.
const LEAST_PATIENCE: f64 = 100.0;
/// What is known against a model that is not in use is forgotten at this pace, in ns.
const FORGET: f64 = 60e9;

/// Chooses for one session.
#[derive(Debug, Clone)]
pub struct Policy {
    pattern: Pattern,
    asked: TransportProperties,
    targets: QosTargets,
    settings: Settings,
    /// What suits the session at all.
    candidates: Vec<Candidate>,
    current: ModelId,
    since: Nanos,
    challenger: Option<(ModelId, u32)>,
    /// Where the predictions were made, and with what loss at worst.
    at: Option<(Conditions, Conditions)>,
    /// The share of frames that may be lost at worst.
    most_loss: f64,
    /// Whether multicast gets through to nobody.
    no_multicast: bool,
    /// Whether only what sends again will do for now.
    rescue: bool,
    /// What all members have.
    had: Models,
    /// The logarithm of what is seen over what the map says, of the delay, whatever the model.
    common: f64,
    decided_at: Nanos,
}

#[derive(Debug, Clone)]
struct Candidate {
    model: ModelId,
    predicted: Option<(Figures, f64)>,
    /// Bytes a message that it cannot do without: some send more where there is room.
    needs: f64,
    /// The share of messages that at worst would have to be sent again by another model.
    risk: f64,
    /// The same of this model beside the others.
    own: f64,
    score: i32,
}

impl Policy {
    /// A policy for a session that begins with `current`, among `available`.
    pub fn new(
        pattern: Pattern,
        asked: TransportProperties,
        targets: QosTargets,
        available: &[ModelId],
        current: ModelId,
        settings: Settings,
    ) -> Self {
        let candidates = available
            .iter()
            .filter(|model| model.suits(pattern, &asked).is_ok())
            .map(|model| Candidate {
                model: *model,
                predicted: None,
                needs: 0.0,
                risk: 0.0,
                own: 0.0,
                score: model.score(&asked),
            })
            .collect();
        Self {
            pattern,
            asked,
            targets,
            settings,
            candidates,
            current,
            since: 0,
            challenger: None,
            at: None,
            most_loss: 0.0,
            no_multicast: false,
            rescue: false,
            had: Models::ALL,
            common: 0.0,
            decided_at: 0,
        }
    }

    /// Something is lacking that a model which sends nothing again will never bring: the next
    /// decision is for one that does, unless that is not wished for.
    pub fn rescue(&mut self) {
        self.rescue = self.rescues();
    }

    fn rescues(&self) -> bool {
        !matches!(self.asked.reliability, Preference::Avoid | Preference::Prohibit)
    }

    /// So many frames may be lost at worst, from 0 to 1.
    pub fn may_lose(&mut self, most: f64) {
        self.most_loss = most;
    }

    /// What all members have: other models are out. Whether the one in use is in.
    pub fn members_have(&mut self, models: Models) -> bool {
        self.had = models;
        models.has(self.current)
    }

    /// Whether all have a model, as far as is known.
    pub fn has(&self, model: ModelId) -> bool {
        self.had.has(model) && self.candidates.iter().any(|candidate| candidate.model == model)
    }

    /// The model in use has not taken a message: all are looked at anew.
    pub fn refused(&mut self) {
        self.at = None;
    }

    /// Multicast gets through to nobody, or does again: models that need it are out, or in.
    pub fn multicast(&mut self, gets_through: bool) {
        self.no_multicast = !gets_through;
        // That they failed was the network's fault.
        let others = self.candidates.iter_mut().filter(|c| c.model.features().multicast);
        others.for_each(|candidate| candidate.own = candidate.own.min(0.0));
    }

    /// The model that is in use.
    pub fn current(&self) -> ModelId {
        self.current
    }

    /// What is best where a session begins; it is the model in use from now on.
    pub fn begin(&mut self, here: &Conditions, map: &PerformanceMap) -> ModelId {
        self.predict(here, map);
        if let Some((model, _)) = self.costs(here).first() {
            self.current = *model;
        }
        self.current
    }

    /// What each model costs that may be chosen, the cheapest first.
    fn costs(&self, here: &Conditions) -> Vec<(ModelId, f64)> {
        let cost = |candidate: &Candidate| Some((candidate.model, self.cost(candidate, here)?));
        let mut costs: Vec<(ModelId, f64)> = self.candidates.iter().filter_map(cost).collect();
        costs.sort_by(|a, b| a.1.total_cmp(&b.1));
        costs
    }

    /// Somebody else has chosen.
    pub fn follow(&mut self, model: ModelId, now: Nanos) {
        self.current = model;
        self.since = now;
        self.challenger = None;
    }

    /// Whether a model may be chosen at all, and if not, why.
    pub fn suits(&self, model: ModelId) -> Result<(), &'static str> {
        model.suits(self.pattern, &self.asked)
    }

    /// A message of the model in use was with all, and all answers back, after `ms`: what the
    /// map says is corrected by that.
    pub fn observed(&mut self, ms: f64) {
        let (current, common) = (self.current, self.common);
        let own = self.candidates.iter_mut().find(|candidate| candidate.model == current);
        if let Some(candidate) = own
            && let Some((figures, _)) = &candidate.predicted
        {
            // The last of a group is there when the slowest is.
            let off = (ms.max(1e-3) / figures.delay_ms.p99.max(1e-3)).ln().clamp(-3.0, 3.0);
            let error = off - common - candidate.own;
            self.common = (self.common + LEARN * error).clamp(-MOST_OFF, MOST_OFF);
            candidate.own = (candidate.own + LEARN_OWN * error).clamp(-MOST_OFF, MOST_FAILED);
        }
    }

    /// The model in use has not done what it should have done by now; `wholly` when it has
    /// done nothing, though the network carries something.
    pub fn failed(&mut self, wholly: bool) {
        let current = self.current;
        let own = self.candidates.iter_mut().find(|candidate| candidate.model == current);
        if let Some(candidate) = own {
            candidate.own = (candidate.own + FAILURE[usize::from(wholly)]).min(MOST_FAILED);
        }
    }

    /// How long a message of the model in use should take until all is back, in ms; nothing
    /// where nobody knows.
    pub fn expected_ms(&self) -> Option<f64> {
        let current = self.current;
        let candidate = self.candidates.iter().find(|candidate| candidate.model == current)?;
        let (figures, _) = candidate.predicted.as_ref()?;
        Some(figures.delay_ms.p99 * (self.common + candidate.own).exp())
    }

    /// How long a message of the model in use may take before it is held to have failed.
    pub fn patience(&self, here: &Conditions) -> Nanos {
        (patience(self.expected_ms().unwrap_or(1_000.0), here) * 1e6) as Nanos
    }

    /// What is held against models that are not in use is forgotten by and by.
    fn forget(&mut self, now: Nanos) {
        let passed = now.saturating_sub(std::mem::replace(&mut self.decided_at, now));
        let keep = (-(passed as f64) / FORGET).exp();
        let current = self.current;
        let others = self.candidates.iter_mut().filter(|candidate| candidate.model != current);
        others.for_each(|candidate| candidate.own *= keep);
    }

    /// What to do at `now`, where the network is like `here`. `urgent` says that a
    /// deadline was missed or that nothing comes through.
    pub fn decide(
        &mut self,
        now: Nanos,
        here: &Conditions,
        map: &PerformanceMap,
        urgent: bool,
    ) -> Decision {
        self.predict(here, map);
        self.forget(now);
        let all = self.costs(here);
        let own = all.iter().find(|(model, _)| *model == self.current).map(|(_, cost)| *cost);
        self.rescue = false;
        let Some((model, cost)) = all.first().copied() else {
            self.challenger = None;
            let (choice, best, why) = (Choice::Stay, None, Why::Nothing);
            return Decision { choice, best, costs: (own, None), all, why };
        };
        let why = self.judge(now, (model, cost), own, urgent);
        let changes = matches!(why, Why::Gain | Why::Urgent);
        if changes {
            self.current = model;
            self.since = now;
            self.challenger = None;
        }
        Decision {
            choice: if changes { Choice::Change(model) } else { Choice::Stay },
            best: Some(model),
            costs: (own, Some(cost)),
            all,
            why,
        }
    }

    fn judge(
        &mut self,
        now: Nanos,
        (model, cost): (ModelId, f64),
        own: Option<f64>,
        urgent: bool,
    ) -> Why {
        if model == self.current {
            self.challenger = None;
            return Why::Best;
        }
        if urgent {
            return Why::Urgent;
        }
        // What is in use and of no known cost has nothing to be held against.
        let enough =
            own.is_none_or(|own| cost + self.settings.switch_ms < own * (1.0 - self.settings.gain));
        if !enough {
            self.challenger = None;
            return Why::SmallGain;
        }
        let times = match self.challenger {
            Some((known, times)) if known == model => times + 1,
            _ => 1,
        };
        self.challenger = Some((model, times));
        if times < self.settings.sustained {
            Why::NotSustained
        } else if now < self.since.saturating_add(self.settings.dwell_ns) && self.since > 0 {
            Why::Dwelling
        } else {
            Why::Gain
        }
    }

    /// Asks the map again if the session has moved on it.
    fn predict(&mut self, here: &Conditions, map: &PerformanceMap) {
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
        let (mean, bad) = (map.near(here), map.near(&worst));
        for candidate in &mut self.candidates {
            candidate.predicted = predict(candidate.model, (here, &mean));
            let least = analytic::predict(candidate.model, pattern, here).map(|it| it.bytes);
            let spends = candidate.model == ModelId::MulticastFec;
            let had = candidate.predicted.as_ref().map_or(0.0, |(figures, _)| figures.bytes);
            candidate.needs = least.filter(|_| spends).map_or(had, |least| had.min(least));
            let loses = rescues && !candidate.model.features().reliable;
            let at_worst = loses.then(|| predict(candidate.model, (&worst, &bad))).flatten();
            candidate.risk = at_worst.map_or(0.0, |(figures, _)| 1.0 - figures.delivery);
        }
    }

    /// What a model costs, cautiously: nothing where it would fill the network, or the map
    /// does not know it.
    fn cost(&self, candidate: &Candidate, here: &Conditions) -> Option<f64> {
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
fn patience(expected_ms: f64, here: &Conditions) -> f64 {
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

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |cost: Option<f64>| match cost {
            Some(cost) => format!("{cost:.1} ms"),
            None => "an unknown cost".to_owned(),
        };
        let (own, best) = (ms(self.costs.0), ms(self.costs.1));
        let model = self.best.map_or("no model", ModelId::name);
        match self.why {
            Why::Best => write!(f, "the model in use is the best, at {own}"),
            Why::SmallGain => {
                write!(f, "{model} would cost {best} in place of {own}: too small a gain")
            }
            Why::NotSustained => {
                write!(f, "{model} would cost {best} in place of {own}, but only of late")
            }
            Why::Dwelling => {
                write!(f, "{model} would cost {best} in place of {own}, right after a change")
            }
            Why::Gain => write!(f, "{model}: it costs {best} in place of {own}"),
            Why::Urgent => {
                write!(f, "{model} at once: it costs {best}, and the model in use fails")
            }
            Why::Nothing => write!(f, "no model that suits is known to get through here"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Point;
    use crate::map::tests::figures;

    /// UDP is quick and loses, ARQ is slower and does not; which is best depends on what
    /// is asked and on the loss.
    fn map() -> PerformanceMap {
        let mut map = PerformanceMap::new();
        for (loss, udp, arq) in [(0.0, (1.0, 1.0), 4.0), (0.3, (1.0, 0.7), 3.0)] {
            let at = Conditions { loss, ..Conditions::default() };
            let point = |ms, delivery, bytes| Point { at, figures: figures(ms, delivery, bytes) };
            map.add(ModelId::UdpRequestResponse, point(udp.0, udp.1, 100.0));
            map.add(ModelId::UdpArq, point(arq, 1.0, 150.0));
            map.add(ModelId::Mqtt, point(20.0, 1.0, 400.0));
        }
        map
    }

    fn policy(targets: QosTargets) -> Policy {
        let all = [ModelId::UdpRequestResponse, ModelId::UdpArq];
        let asked = TransportProperties::default();
        let start = ModelId::UdpRequestResponse;
        Policy::new(Pattern::RequestResponse, asked, targets, &all, start, Settings::default())
    }

    fn at(loss: f64) -> Conditions {
        Conditions { loss, ..Conditions::default() }
    }

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn it_changes_for_a_gain_that_lasts_and_not_back_at_once() {
        let targets = QosTargets { delivery_ratio: Some(0.999), ..Default::default() };
        let (map, mut policy) = (map(), policy(targets));
        assert_eq!(policy.decide(SECOND, &at(0.0), &map, false).why, Why::Best);
        let whys: Vec<Why> = (10..13)
            .map(|second| policy.decide(second * SECOND, &at(0.3), &map, false).why)
            .collect();
        assert_eq!(whys, [Why::NotSustained, Why::NotSustained, Why::Gain]);
        assert_eq!(policy.current(), ModelId::UdpArq);
        let back: Vec<Why> = (13..20)
            .map(|second| policy.decide(second * SECOND, &at(0.0), &map, false).why)
            .collect();
        assert_eq!(back[..4], [Why::NotSustained, Why::NotSustained, Why::Dwelling, Why::Dwelling]);
        assert_eq!(back[4], Why::Gain);
    }

    #[test]
    fn while_little_is_known_what_sends_again_is_worth_its_price() {
        // What is lost is missed after 3 x 1 ms, two round trips and 100 ms more.
        let (map, mut policy) = (map(), policy(QosTargets::default()));
        policy.may_lose(0.1);
        assert_eq!(policy.begin(&at(0.0), &map), ModelId::UdpArq);
        policy.may_lose(0.0);
        assert_eq!(policy.begin(&at(0.0), &map), ModelId::UdpRequestResponse);
        // Who wants no reliability is not made to pay for it.
        policy.asked.reliability = Preference::Avoid;
        policy.may_lose(0.1);
        policy.at = None;
        assert_eq!(policy.begin(&at(0.0), &map), ModelId::UdpRequestResponse);
    }

    #[test]
    fn it_changes_at_once_when_the_model_fails() {
        let targets = QosTargets { delivery_ratio: Some(0.999), ..Default::default() };
        let (map, mut policy) = (map(), policy(targets));
        let decision = policy.decide(SECOND, &at(0.3), &map, true);
        assert_eq!(decision.choice, Choice::Change(ModelId::UdpArq));
        assert!(decision.to_string().contains("udp-arq at once"), "{decision}");
    }

    #[test]
    fn small_gains_change_nothing() {
        let (map, mut policy) = (map(), policy(QosTargets::default()));
        // What is lost may be lost.
        policy.asked.reliability = Preference::Avoid;
        policy.current = ModelId::UdpArq;
        for second in 1..50 {
            let decision = policy.decide(second * SECOND, &at(0.28), &map, false);
            assert_ne!(decision.why, Why::Urgent);
            if second > 3 {
                // Half the delay at 70 % of delivery: a gain.
                assert_eq!(policy.current(), ModelId::UdpRequestResponse, "{decision}");
            }
        }
        let mut near = self::policy(QosTargets::default());
        near.settings.gain = 0.9;
        near.current = ModelId::UdpArq;
        assert_eq!(near.decide(SECOND, &at(0.0), &map, false).why, Why::SmallGain);
    }

    #[test]
    fn what_would_fill_the_network_is_no_choice() {
        let (map, mut policy) = (map(), policy(QosTargets::default()));
        // 100 B a message are 80 % of this, 150 B too much.
        let here = Conditions { rate_bit_s: 1_000.0, messages_s: 1.0, ..at(0.0) };
        let mut reaching = PerformanceMap::new();
        for model in map.models() {
            let (figures, _) = map.predict(model, &map.near(&at(0.0))).unwrap();
            reaching.add(model, Point { at: here, figures });
        }
        let decision = policy.decide(SECOND, &here, &reaching, false);
        assert_eq!(decision.best, Some(ModelId::UdpRequestResponse));
        let fuller = Conditions { messages_s: 1.2, ..here };
        let decision = policy.decide(SECOND, &fuller, &reaching, false);
        assert_eq!((decision.best, decision.why), (None, Why::Nothing));
        assert_eq!(decision.choice, Choice::Stay);
    }

    #[test]
    fn what_is_seen_corrects_what_the_map_says_of_all() {
        let (map, mut policy) = (map(), policy(QosTargets::default()));
        policy.decide(SECOND, &at(0.0), &map, false);
        let before = policy.expected_ms().unwrap();
        // The network is slower than the map has it: that is no reason to take another model.
        (0..200).for_each(|_| policy.observed(3.0 * before));
        let expected = policy.expected_ms().unwrap();
        assert!((expected / before - 3.0).abs() < 0.2, "{before} {expected}");
        assert_eq!(policy.decide(2 * SECOND, &at(0.0), &map, true).why, Why::Best);
        // That the model fails is one, until it is forgotten.
        (0..2).for_each(|_| policy.failed(true));
        let decision = policy.decide(3 * SECOND, &at(0.0), &map, true);
        assert_eq!(decision.choice, Choice::Change(ModelId::UdpArq), "{decision}");
        let later = policy.decide(900 * SECOND, &at(0.0), &map, true);
        assert_eq!(later.choice, Choice::Change(ModelId::UdpRequestResponse), "{later}");
    }

    #[test]
    fn what_nobody_measured_is_no_better_than_what_is_like_it() {
        let all = PerformanceMap::shipped().to_json();
        let mut all: serde_json::Value = serde_json::from_str(&all).unwrap();
        let points = all["points"].as_object_mut().unwrap();
        points.retain(|name, _| !name.starts_with("quic"));
        let map = PerformanceMap::from_json(&all.to_string()).unwrap();
        for loss in [0.0, 0.1, 0.3] {
            for (rate_bit_s, payload) in [(250e3, 100.0), (2e6, 700.0), (100e6, 1_300.0)] {
                let here = Conditions { rate_bit_s, payload, rtt_ns: 20_000_000, ..at(loss) };
                let pairs = [
                    [ModelId::UdpArq, ModelId::QuicStreams],
                    [ModelId::UdpRequestResponse, ModelId::QuicDatagrams],
                    [ModelId::UdpArq, ModelId::TcpRouterDealer],
                    [ModelId::UdpArq, ModelId::Mqtt],
                ];
                for pair in pairs {
                    let (targets, settings) = (QosTargets::default(), Settings::default());
                    let asked = TransportProperties::default();
                    let one = Pattern::RequestResponse;
                    let mut policy = Policy::new(one, asked, targets, &pair, pair[1], settings);
                    assert_eq!(policy.begin(&here, &map), pair[0], "{here:?}");
                }
            }
        }
    }

    #[test]
    fn a_decision_looks_at_the_map_only_when_the_session_has_moved() {
        let (map, mut policy) = (map(), policy(QosTargets::default()));
        policy.decide(SECOND, &at(0.1), &map, false);
        let asked = policy.at;
        policy.decide(SECOND, &at(0.101), &map, false);
        assert_eq!(policy.at, asked);
        policy.decide(SECOND, &at(0.2), &map, false);
        assert_ne!(policy.at, asked);
    }
}
