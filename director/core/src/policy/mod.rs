//! Model selection: which model serves a session best, and whether a change pays off.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
mod bad;
mod cost;
mod decision;
mod judge;
#[cfg(test)]
mod tests;

pub use self::bad::Bad;
pub use self::decision::{Choice, Decision, Reason};

use crate::conditions::Conditions;
use crate::map::{Figures, PerformanceMap, Quantiles};
use crate::model::{ModelId, Models};
use crate::properties::{Preference, TransportProperties};
use crate::targets::{Pattern, QosTargets};
use crate::{Instant, Span};

/// Thresholds for a model change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Minimum gain, as a share of the current cost, 0 to 1.
    pub gain: f64,
    /// Cost of a change in ms of delay, spread over the minimum dwell time.
    pub switch_ms: f64,
    /// Number of consecutive decisions in which a model must be better.
    pub sustained: u32,
    /// Messages of the model in use that must have been observed, unless another is far better:
    /// before that, predictions are compared with predictions.
    pub observed: u32,
    /// Minimum time between two changes.
    pub dwell: Span,
    /// Maximum share of the bottleneck rate that a model may use, 0 to 1.
    pub most_load: f64,
    /// Distance in doublings by which conditions must move for new predictions.
    pub moved: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // A change costs something and predictions are rough: 15 %, three times in a row, and a
            // dwell time (decision 32). Two observed messages: decision 101.
            gain: 0.15,
            switch_ms: 1.0,
            sustained: 3,
            observed: 2,
            dwell: Span::from_s(5),
            most_load: 0.85,
            moved: 0.25,
        }
    }
}

/// The model that is near the best one in most networks. A session that measures the path begins with it, and
/// leaves it for a very large gain only, because predictions for a path that is hardly known are rough
/// (decisions 168 and 197).
const WIDE: ModelId = ModelId::MulticastFec;
/// Minimum gain for that, as a share of its cost.
const WIDE_GAIN: f64 = 0.8;
/// A message has failed after this multiple of the expected delay.
const TIMEOUT_FACTOR: f64 = 3.0;
/// Minimum of that timeout.
pub(crate) const MIN_TIMEOUT: Span = Span::from_ms(100);
/// Learning rate of the correction for all models. It is common to all because a cause such as
/// a wrongly assumed network slows down every model.
const LEARN: f64 = 0.1;
/// Learning rate of the correction for the model in use alone.
const LEARN_OWN: f64 = 0.03;
/// Penalty for a failure, as a logarithm: if some members are missing, and if all are; and the
/// maximum penalty.
const FAILURE: [f64; 2] = [0.15, 1.0];
const MAX_FAILED: f64 = 2.0;
/// Weight of a message in the smoothed delay of the model in use, and messages from which this is
/// known.
const RECENT: f64 = 0.25;
const ENOUGH: u32 = 4;
/// Limit of the corrections, as a logarithm.
const MAX_OFF: f64 = 1.5;
/// Time constant with which corrections of unused models decay, in ns.
const FORGET: f64 = 60e9;

/// Model selection for one session.
#[derive(Debug, Clone)]
pub struct Policy {
    pattern: Pattern,
    properties: TransportProperties,
    targets: QosTargets,
    settings: Settings,
    /// The models that suit the session.
    candidates: Vec<Candidate>,
    current: ModelId,
    since: Instant,
    /// Messages of the model in use whose delay is known, and their smoothed delay in ms.
    observed: u32,
    measured: f64,
    challenger: Option<(ModelId, u32)>,
    /// Conditions of the last predictions: expected, with the worst-case loss, and of bad members.
    at: Option<(Conditions, Conditions, Option<Bad>)>,
    /// Whether models that do not measure the path are the last choice.
    needs_measuring: bool,
    /// Lifetime of messages in ms.
    lifetime_ms: f64,
    /// Worst-case frame loss.
    worst_loss: f64,
    /// Members that lose far more than the others.
    bad: Option<Bad>,
    /// Whether multicast reaches no member.
    no_multicast: bool,
    /// Whether IP fragments are longer than the path permits.
    no_fragments: bool,
    /// Whether the next decision excludes unreliable models.
    fall_back: bool,
    /// Whether it excludes the model in use.
    refused: bool,
    /// Models that all members have.
    member_models: Models,
    /// Logarithm of measured over predicted delay, common to all models.
    common_correction: f64,
    decided_at: Instant,
}

#[derive(Debug, Clone)]
struct Candidate {
    model: ModelId,
    predicted: Option<(Figures, f64)>,
    /// Delay at members that lose far more, and at the others.
    apart: Option<[Quantiles; 2]>,
    /// Minimum bytes per message: some models send more where there is capacity.
    needs: f64,
    /// Worst-case share of messages that another model would have to send again.
    risk: f64,
    /// Logarithm of measured over predicted delay for this model, on top of the common one.
    correction: f64,
    score: i32,
}

impl Policy {
    /// A policy for a session that starts with `current`, among `available`.
    pub fn new(
        pattern: Pattern,
        properties: TransportProperties,
        targets: QosTargets,
        available: &[ModelId],
        current: ModelId,
        settings: Settings,
    ) -> Self {
        let candidates = available
            .iter()
            .filter(|model| model.suits(pattern, &properties).is_ok())
            .map(|model| Candidate {
                model: *model,
                predicted: None,
                apart: None,
                needs: 0.0,
                risk: 0.0,
                correction: 0.0,
                score: model.score(&properties),
            })
            .collect();
        Self {
            pattern,
            properties,
            targets,
            settings,
            candidates,
            current,
            since: Instant::START,
            observed: 0,
            measured: 0.0,
            challenger: None,
            at: None,
            needs_measuring: false,
            lifetime_ms: f64::INFINITY,
            worst_loss: 0.0,
            bad: None,
            no_multicast: false,
            no_fragments: false,
            fall_back: false,
            refused: false,
            member_models: Models::ALL,
            common_correction: 0.0,
            decided_at: Instant::START,
        }
    }

    /// Sets which share of the members loses far more than the others.
    pub fn set_bad(&mut self, bad: Option<Bad>) {
        self.bad = bad;
    }

    /// Sets whether the path must be measured: no rate is configured, and the application has not listed
    /// models. Then those that do not measure are chosen only where no other works (decision 146).
    pub fn needs_measuring(&mut self, needs: bool) {
        self.needs_measuring = needs;
    }

    /// With the lifetime of messages, if they have one.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Option<Span>) -> Self {
        self.lifetime_ms = lifetime.map_or(f64::INFINITY, Span::as_ms);
        self
    }

    /// Messages are missing that an unreliable model never retransmits: the next decision
    /// selects a reliable one, unless the application avoids reliability.
    pub fn fall_back(&mut self) {
        self.fall_back = self.may_fall_back();
    }

    fn may_fall_back(&self) -> bool {
        !matches!(self.properties.reliability, Preference::Avoid | Preference::Prohibit)
    }

    /// Sets the worst-case frame loss, 0 to 1.
    pub fn may_lose(&mut self, most: f64) {
        self.worst_loss = most;
    }

    /// Sets the models that all members have and excludes the others. Returns whether the model
    /// in use is still allowed.
    pub fn set_member_models(&mut self, models: Models) -> bool {
        self.member_models = models;
        models.has(self.current)
    }

    /// Whether all members have a model, as far as known.
    pub fn has(&self, model: ModelId) -> bool {
        self.member_models.has(model)
            && self.candidates.iter().any(|candidate| candidate.model == model)
    }

    /// The model in use has refused a message: the next decision is for another one, whatever is predicted.
    pub fn refused(&mut self) {
        (self.at, self.refused) = (None, true);
    }

    /// Sets whether multicast works; without it, models that need it are excluded.
    pub fn multicast(&mut self, gets_through: bool) {
        self.no_multicast = !gets_through;
        self.at = None;
        // Their failures were the network's fault.
        let others = self.candidates.iter_mut().filter(|c| c.model.features().multicast);
        others.for_each(|candidate| candidate.correction = candidate.correction.min(0.0));
    }

    /// Sets whether IP fragments of the system's size vanish: then datagrams must fit into packets.
    pub fn fragments_vanish(&mut self, vanish: bool) {
        self.no_fragments = vanish;
        self.at = None;
    }

    /// The model in use.
    pub fn current(&self) -> ModelId {
        self.current
    }

    /// Selects the model at the start of a session, the best of the map, and makes it the model in use.
    pub fn begin(&mut self, here: &Conditions, map: &PerformanceMap) -> ModelId {
        self.predict(here, map);
        let costs = self.costs(here);
        if let Some((model, least)) = costs.first() {
            let wide = costs.iter().find(|(model, _)| *model == WIDE && self.needs_measuring);
            let wide = wide.filter(|(_, cost)| *least >= cost * (1.0 - WIDE_GAIN));
            self.current = wide.map_or(*model, |(wide, _)| *wide);
        }
        self.current
    }

    /// Minimum gain of a change, as a share of the present cost.
    fn least_gain(&self) -> f64 {
        if self.is_wide() { WIDE_GAIN } else { self.settings.gain }
    }

    /// Whether the session measures the path, and uses the model that it began with.
    fn is_wide(&self) -> bool {
        self.needs_measuring && self.current == WIDE
    }

    /// Cost of each eligible model, cheapest first.
    fn costs(&self, here: &Conditions) -> Vec<(ModelId, f64)> {
        let cost = |candidate: &Candidate| Some((candidate.model, self.cost(candidate, here)?));
        let mut costs: Vec<(ModelId, f64)> = self.candidates.iter().filter_map(cost).collect();
        let measures = |(model, _): &(ModelId, f64)| model.features().measures;
        // An application that avoids reliability has chosen what it sends.
        let needs = self.needs_measuring && self.may_fall_back();
        if needs && costs.iter().any(measures) {
            costs.retain(measures);
        }
        // Among equals the one in use.
        let other = |model: ModelId| model != self.current;
        costs.sort_by(|a, b| a.1.total_cmp(&b.1).then(other(a.0).cmp(&other(b.0))));
        costs
    }

    /// Takes over a model that the caller has selected.
    pub fn set_current(&mut self, model: ModelId, now: Instant) {
        self.current = model;
        self.since = now;
        self.observed = 0;
        self.challenger = None;
    }

    /// Checks whether a model suits the session.
    ///
    /// # Errors
    /// The reason why not.
    pub fn suits(&self, model: ModelId) -> Result<(), &'static str> {
        model.suits(self.pattern, &self.properties)
    }

    /// Records that a message of the model in use took `ms` until all answers arrived; corrects
    /// the predictions.
    pub fn record_delay(&mut self, ms: f64) {
        self.observed = self.observed.saturating_add(1);
        let weight = RECENT.max(1.0 / f64::from(self.observed));
        self.measured += weight * (ms - self.measured);
        let (current, common_correction) = (self.current, self.common_correction);
        let own = self.candidates.iter_mut().find(|candidate| candidate.model == current);
        if let Some(candidate) = own
            && let Some((figures, _)) = &candidate.predicted
        {
            // The median: compared with the 99th percentile, the model in use looked faster than it
            // is, since most answers are, and was kept too long (docs/results/adaptive.md, defects
            // found).
            let usual = figures.delay_ms.p50.max(1e-3);
            let off = (ms.max(1e-3) / usual).ln().clamp(-3.0, 3.0);
            let error = off - common_correction - candidate.correction;
            self.common_correction =
                (self.common_correction + LEARN * error).clamp(-MAX_OFF, MAX_OFF);
            candidate.correction =
                (candidate.correction + LEARN_OWN * error).clamp(-MAX_OFF, MAX_FAILED);
        }
    }

    /// Records that a message of the model in use is late; `wholly` if nothing arrived although
    /// the network works.
    pub fn record_failure(&mut self, wholly: bool) {
        let current = self.current;
        let own = self.candidates.iter_mut().find(|candidate| candidate.model == current);
        if let Some(candidate) = own {
            candidate.correction =
                (candidate.correction + FAILURE[usize::from(wholly)]).min(MAX_FAILED);
        }
    }

    /// Expected 99th percentile of the delay of the model in use, in ms; `None` if unknown.
    pub fn expected_ms(&self) -> Option<f64> {
        let current = self.current;
        let candidate = self.candidates.iter().find(|candidate| candidate.model == current)?;
        let (figures, _) = candidate.predicted.as_ref()?;
        Some(figures.delay_ms.p99 * (self.common_correction + candidate.correction).exp())
    }

    /// Timeout after which a message of the model in use counts as failed.
    pub fn timeout(&self, here: &Conditions) -> Span {
        Span::from_ns_f64(timeout(self.expected_ms().unwrap_or(1_000.0), here) * 1e6)
    }

    /// Decays the corrections of unused models.
    fn forget(&mut self, now: Instant) {
        let passed = now - core::mem::replace(&mut self.decided_at, now);
        let keep = (-(passed.as_ns_f64()) / FORGET).exp();
        let current = self.current;
        // Nothing is learnt of unused models: what was wrong with them may be over.
        let others = self.candidates.iter_mut().filter(|candidate| candidate.model != current);
        others.for_each(|candidate| candidate.correction *= keep);
    }

    /// Decides at `now` under the conditions `here`. `urgent`: a deadline was missed, or no
    /// messages arrive.
    pub fn decide(
        &mut self,
        now: Instant,
        here: &Conditions,
        map: &PerformanceMap,
        urgent: bool,
    ) -> Decision {
        self.predict(here, map);
        self.forget(now);
        let all = self.costs(here);
        let own = all.iter().find(|(model, _)| *model == self.current).map(|(_, cost)| *cost);
        // For one decision: each missing message sets it again.
        (self.fall_back, self.refused) = (false, false);
        let Some((model, cost)) = all.first().copied() else {
            self.challenger = None;
            let (choice, best, reason) = (Choice::Stay, None, Reason::Nothing);
            return Decision { choice, best, costs: (own, None), all, reason };
        };
        let reason = self.judge(now, model, cost, own, urgent);
        let changes = matches!(reason, Reason::Gain | Reason::Urgent);
        if changes {
            self.set_current(model, now);
        }
        Decision {
            choice: if changes { Choice::Change(model) } else { Choice::Stay },
            best: Some(model),
            costs: (own, Some(cost)),
            all,
            reason,
        }
    }
}

/// Timeout of a message with this expected delay, both in ms.
fn timeout(expected_ms: f64, here: &Conditions) -> f64 {
    TIMEOUT_FACTOR * expected_ms + 2.0 * here.rtt.as_ms() + MIN_TIMEOUT.as_ms()
}
