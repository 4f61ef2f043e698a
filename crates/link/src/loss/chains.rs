//! Loss in bursts: Markov chains of two and of four states.

use super::flow::LossFlow;
use crate::keys::{Key, Keys, Kind, Model};
use serde::Serialize;
use units::{Draw, Purpose, Ratio};

/// Gilbert-Elliott model: a good and a bad state with separate loss probabilities (E. O.
/// Elliott, BSTJ 42, 1963). The letters are those of tc-netem.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GilbertElliott {
    /// Transition probability from good to bad, per frame.
    pub p: Ratio,
    /// Transition probability from bad to good, per frame.
    pub r: Ratio,
    /// Loss probability in the bad state.
    #[serde(rename = "1-h")]
    pub loss_bad: Ratio,
    /// Loss probability in the good state.
    #[serde(rename = "1-k")]
    pub loss_good: Ratio,
}

/// tc-netem's four states: 1 received, 2 received within a burst, 3 lost within a burst, 4
/// isolated loss (S. Salsano and others, "Definition of a general and intuitive loss model
/// for packet networks", 2012). `pij` is the transition probability from state i to state j
/// per frame; state 4 always returns to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Markov {
    /// Start of a loss burst.
    pub p13: Ratio,
    /// End of a loss burst.
    pub p31: Ratio,
    /// From loss to reception within a burst.
    pub p32: Ratio,
    /// From reception back to loss within a burst.
    pub p23: Ratio,
    /// Isolated loss.
    pub p14: Ratio,
}

pub(super) const GILBERT_ELLIOTT: Model = Model {
    name: "Gilbert",
    what: "a Gilbert-Elliott model",
    doc: "Gilbert-Elliott loss: a good and a bad state, with tc-netem's letters and defaults.",
    keys: &[
        Key::new("p", Kind::Share, "Probability per frame of good to bad.").required(),
        Key::new("r", Kind::Share, "Probability per frame of bad to good. Default: 1-p."),
        Key::new("1-h", Kind::Share, "Loss in the bad state. Default: 100 %."),
        Key::new("1-k", Kind::Share, "Loss in the good state. Default: 0 %."),
    ],
};
pub(super) const MARKOV: Model = Model {
    name: "Markov",
    what: "a four-state model",
    doc: "Four-state Markov loss: 1 received, 2 received within a burst, 3 lost within a burst, \
          4\nisolated loss. Defaults are tc-netem's.",
    keys: &[
        Key::new("p13", Kind::Share, "Probability of entering a burst of losses.").required(),
        Key::new("p31", Kind::Share, "Probability of leaving it. Default: 1-p13."),
        Key::new(
            "p32",
            Kind::Share,
            "Probability of a reception within the burst after a loss. Default: 0 %.",
        ),
        Key::new(
            "p23",
            Kind::Share,
            "Probability of a loss after such a reception. Default: 100 %.",
        ),
        Key::new("p14", Kind::Share, "Probability of an isolated loss. Default: 0 %."),
    ],
};
/// The index of the random number for the state before the first frame.
const BEFORE: u64 = u64::MAX;

/// The index of the random number for the state at a change of the model, before frame `index`.
fn at_change(index: u64) -> u64 {
    BEFORE - 1 - index
}

/// The state, from 0, with which a flow in `state` goes on under a model with long-term shares `now`
/// after one with shares `before`; `u` is uniform in [0, 1). Flows that were in states by their
/// shares are so afterwards (a maximal coupling): the tolerance of the next interval relies on it.
/// And as few as possible change their state, so that a ramp of settings does not break bursts.
fn carried(state: usize, before: &[f64; 4], now: &[f64; 4], u: f64) -> usize {
    let keep = if before[state] > 0.0 { (now[state] / before[state]).min(1.0) } else { 0.0 };
    if u < keep {
        return state;
    }
    let gain = |other: usize| match before[state] > 0.0 {
        true => (now[other] - before[other]).max(0.0),
        // A state that the model before only passed through once.
        false => now[other],
    };
    let all: f64 = (0..4).map(gain).sum();
    let mut rest = (u - keep) / (1.0 - keep) * all;
    let reached = |other: &usize| {
        rest -= gain(*other);
        rest < 0.0
    };
    (0..4).find(reached).unwrap_or(state)
}

fn rest(share: Ratio) -> Ratio {
    Ratio::from_fraction((1.0 - share.fraction()).clamp(0.0, 1.0)).unwrap_or_default()
}

impl GilbertElliott {
    pub(super) fn read(keys: &Keys) -> Result<Self, String> {
        let p = keys.require("p")?;
        Ok(Self {
            p,
            r: keys.read("r")?.unwrap_or(rest(p)),
            loss_bad: keys.read("1-h")?.unwrap_or(rest(Ratio::default())),
            loss_good: keys.read_or_default("1-k")?,
        })
    }

    /// Long-term share of frames in the bad state; 0 if there are no transitions. A flow begins in
    /// that state with this probability.
    pub fn bad(&self) -> f64 {
        let (p, r) = (self.p.fraction(), self.r.fraction());
        if p + r == 0.0 { 0.0 } else { p / (p + r) }
    }

    /// Long-term shares of the good and the bad state.
    pub(super) fn shares(&self) -> [f64; 4] {
        [1.0 - self.bad(), self.bad(), 0.0, 0.0]
    }

    /// Long-term share of frames lost; 1-k if no transition leads to the bad state.
    pub fn mean(&self) -> f64 {
        let bad = self.bad();
        bad * self.loss_bad.fraction() + (1.0 - bad) * self.loss_good.fraction()
    }

    /// Ratio of the variance of the loss share between runs to that of independent losses,
    /// over a long time. From the chain's autocorrelation (1-p-r)^n at lag n.
    pub fn dispersion(&self) -> f64 {
        let (p, r, mean) = (self.p.fraction(), self.r.fraction(), self.mean());
        let variance = mean * (1.0 - mean);
        if p + r == 0.0 || variance == 0.0 {
            return 1.0;
        }
        let gap = self.loss_bad.fraction() - self.loss_good.fraction();
        let states = p * r / (p + r).powi(2) * gap * gap;
        1.0 + 2.0 * states * (1.0 - p - r) / (p + r) / variance
    }
}

impl Markov {
    pub(super) fn read(keys: &Keys) -> Result<Self, String> {
        let p13 = keys.require("p13")?;
        Ok(Self {
            p13,
            p31: keys.read("p31")?.unwrap_or(rest(p13)),
            p32: keys.read_or_default("p32")?,
            p23: keys.read("p23")?.unwrap_or(rest(Ratio::default())),
            p14: keys.read_or_default("p14")?,
        })
    }

    /// Long-term share of frames lost, from the chain's stationary distribution.
    pub fn mean(&self) -> f64 {
        let [_, _, three, four] = self.stationary();
        three + four
    }

    /// Long-term share of frames in states 1 to 4. A flow begins in a state with this probability,
    /// and changes it before its first frame.
    pub fn stationary(&self) -> [f64; 4] {
        let [p13, p31, p32, p23, p14] =
            [self.p13, self.p31, self.p32, self.p23, self.p14].map(Ratio::fraction);
        if p23 == 0.0 && p32 > 0.0 && p13 > 0.0 {
            // State 2 is never left.
            return [0.0, 1.0, 0.0, 0.0];
        }
        if p31 == 0.0 && p13 > 0.0 {
            // The burst never ends: a chain of states 2 and 3.
            let lost = if p32 + p23 == 0.0 { 1.0 } else { p23 / (p32 + p23) };
            return [0.0, 1.0 - lost, lost, 0.0];
        }
        // Relative to state 1, from the balance of transitions.
        let three = if p13 == 0.0 { 0.0 } else { p13 / p31 };
        let two = if p23 == 0.0 { 0.0 } else { three * p32 / p23 };
        [1.0, two, three, p14].map(|share| share / (1.0 + two + three + p14))
    }

    /// The state in which a flow begins, for `u` uniform in [0, 1).
    fn first(&self, u: f64) -> u8 {
        let mut below = 0.0;
        let states = self.stationary().into_iter().zip(1..);
        let reached = |(share, state)| {
            below += share;
            (u < below).then_some(state)
        };
        states.filter_map(reached).next().unwrap_or(1)
    }
}

impl GilbertElliott {
    pub(super) fn takes(&self, flow: &mut LossFlow, draw: Draw, index: u64) -> bool {
        // A flow begins in the long-term distribution: short flows lose as many frames.
        let first = || draw.uniform(Purpose::State, BEFORE) < self.bad();
        let state = match (flow.bad, flow.before.take()) {
            (Some(bad), Some(before)) => {
                let u = draw.uniform(Purpose::State, at_change(index));
                carried(usize::from(bad), &before, &self.shares(), u) == 1
            }
            (bad, _) => bad.unwrap_or_else(first),
        };
        // The state before the transition decides about this frame, as in tc-netem's
        // `loss_gilb_ell`.
        let loss = if state { self.loss_bad } else { self.loss_good };
        let leave = if state { self.r } else { self.p };
        flow.bad = Some(state ^ (draw.uniform(Purpose::State, index) < leave.fraction()));
        // In most models a state loses nothing or everything, and needs no random number.
        match loss.fraction() {
            share if share <= 0.0 => false,
            share if share >= 1.0 => true,
            share => draw.uniform(Purpose::Loss, index) < share,
        }
    }
}

impl Markov {
    pub(super) fn takes(&self, flow: &mut LossFlow, draw: Draw, index: u64) -> bool {
        let first = || self.first(draw.uniform(Purpose::State, BEFORE));
        let before = match (flow.state, flow.before.take()) {
            (Some(state), Some(before)) => {
                let u = draw.uniform(Purpose::State, at_change(index));
                let place = usize::from(state - 1);
                carried(place, &before, &self.stationary(), u) as u8 + 1
            }
            (state, _) => state.unwrap_or_else(first),
        };
        // The state after the transition decides, as in tc-netem's `loss_4state`.
        let now = self.next(before, draw.uniform(Purpose::State, index));
        flow.state = Some(now);
        matches!(now, 3 | 4)
    }

    /// The state after `state`, for `u` uniform in [0, 1).
    fn next(&self, state: u8, u: f64) -> u8 {
        match state {
            1 if u < self.p14.fraction() => 4,
            1 if u < self.p14.fraction() + self.p13.fraction() => 3,
            2 if u < self.p23.fraction() => 3,
            2 => 2,
            3 if u < self.p32.fraction() => 2,
            3 if u < self.p32.fraction() + self.p31.fraction() => 1,
            3 => 3,
            _ => 1,
        }
    }
}
