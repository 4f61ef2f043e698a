//! The choice: which model serves a session best, and whether a change is worth it.

mod cost;
mod decision;
#[cfg(test)]
mod tests;

pub use self::decision::{Choice, Decision, Why};

use self::cost::patience;
use crate::Nanos;
use crate::conditions::Conditions;
use crate::map::{Figures, PerformanceMap};
use crate::model::{ModelId, Models};
use crate::properties::{Preference, TransportProperties};
use crate::targets::{Pattern, QosTargets};

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
            let usual = figures.delay_ms.p50.max(1e-3);
            let off = (ms.max(1e-3) / usual).ln().clamp(-3.0, 3.0);
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
}
