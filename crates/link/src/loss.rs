//! Loss: random, and in bursts from Markov chains.

mod chains;
mod flow;

use crate::Trains;
use crate::correlated::Correlated;
use crate::decisions::{Arrival, Decision};
use crate::keys::{Contradictions, Key, Keys, Kind, Quantity, share_text};
use crate::stage::{ChannelWait, Stage};
pub use chains::{GilbertElliott, Markov};
pub(crate) use flow::LossFlow;
use serde::{Deserialize, Serialize};
use units::{Draw, Purpose, Ratio};

/// Loss of a link: one of the models.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Units with the same probability; with a share of 0, no loss.
    Random(RandomLoss),
    /// Bursts from two states.
    GilbertElliott(GilbertElliott),
    /// Bursts from four states.
    Markov(Markov),
}

/// Random loss.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RandomLoss {
    /// Share of units lost.
    pub share: Ratio,
    /// Correlation of successive decisions.
    pub correlation: Ratio,
    /// What is lost as a whole.
    pub unit: LossUnit,
}

/// The unit of one loss decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossUnit {
    /// Each frame separately.
    #[default]
    Frame,
    /// All fragments of one IP datagram.
    Datagram,
    /// As `Datagram`, and back-to-back segments of one TCP flow up to 64 KiB: what a shaper
    /// sees behind segmentation offload.
    Train,
}

impl Default for Loss {
    fn default() -> Self {
        Self::Random(RandomLoss::default())
    }
}

impl From<Ratio> for Loss {
    /// Independent losses of single frames.
    fn from(share: Ratio) -> Self {
        Self::Random(RandomLoss { share, ..RandomLoss::default() })
    }
}

impl RandomLoss {
    fn takes(&self, flow: &mut LossFlow, draw: Draw, unit: u64) -> bool {
        if self.share.fraction() == 0.0 {
            return false;
        }
        // One decision for all frames of a unit.
        let known = flow.last.filter(|(last, _)| self.unit != LossUnit::Frame && *last == unit);
        if let Some((_, lost)) = known {
            return lost;
        }
        let lost = flow.draws.next(draw.of(Purpose::Loss), unit) < self.share.fraction();
        flow.last = Some((unit, lost));
        lost
    }
}

impl Loss {
    /// Whether the frame `index` of its flow, in the loss unit `unit`, is lost. Call this in
    /// frame order.
    fn takes(&self, flow: &mut LossFlow, draw: Draw, index: u64, unit: u64) -> bool {
        match self {
            Self::Random(random) => random.takes(flow, draw, unit),
            Self::GilbertElliott(model) => model.takes(flow, draw, index),
            Self::Markov(model) => model.takes(flow, draw, index),
        }
    }

    fn unit(&self) -> LossUnit {
        match self {
            Self::Random(random) => random.unit,
            _ => LossUnit::Frame,
        }
    }
}

impl Stage for Loss {
    const KEYS: &'static [Key] = &[
        Key::new(
            "loss",
            Kind::Share,
            "Random loss: share of frames, or of other units (`loss_unit`). Default: 0 %.",
        ),
        Key::new(
            "loss_correlation",
            Kind::Share,
            "Correlation of successive random loss decisions. The loss share does not change. \
             Default: 0 %.",
        ),
        Key::new(
            "loss_unit",
            Kind::Word("a unit of loss", &["frame", "datagram", "train"]),
            "Unit of loss: `frame`; `datagram`, all fragments of an IP datagram; or `train`, \
             these and back-to-back segments of one TCP flow up to 64 KiB. Default: `frame`.",
        ),
        Key::new(
            "gilbert_elliott",
            Kind::Map(&chains::GILBERT_ELLIOTT),
            "Burst loss in two states, good and bad, in place of `loss`.",
        ),
        Key::new(
            "markov",
            Kind::Map(&chains::MARKOV),
            "Burst loss in place of `loss`: tc-netem's four-state model.",
        ),
    ];
    const ORDER: u8 = 4;
    const MODELS: &'static [&'static [&'static str]] =
        &[&["loss", "loss_correlation", "loss_unit"], &["gilbert_elliott"], &["markov"]];
    type Flow = LossFlow;

    fn read(keys: &Keys) -> Result<Self, String> {
        if let Some(model) = keys.read("gilbert_elliott")? {
            return GilbertElliott::read(&model).map(Self::GilbertElliott);
        }
        if let Some(model) = keys.read("markov")? {
            return Markov::read(&model).map(Self::Markov);
        }
        Ok(Self::Random(RandomLoss {
            share: keys.read_or_default("loss")?,
            correlation: keys.read_or_default("loss_correlation")?,
            unit: keys.read_or_default("loss_unit")?,
        }))
    }

    fn write(&self, keys: &mut Keys) {
        match self {
            Self::Random(random) => {
                keys.put("loss", &random.share);
                keys.put("loss_correlation", &random.correlation);
                keys.put("loss_unit", &random.unit);
            }
            Self::GilbertElliott(model) => keys.insert("gilbert_elliott", model),
            Self::Markov(model) => keys.insert("markov", model),
        }
    }

    fn check(keys: &Keys, _: ChannelWait, found: &mut Contradictions) {
        let models = ["loss", "gilbert_elliott", "markov"];
        found.add_second(keys, &models, "a link has only one loss model");
        let unit = keys.get::<LossUnit>("loss_unit").unwrap_or_default();
        let given = models.iter().filter(|model| keys.has(model)).count();
        if unit != LossUnit::Frame && given == 1 && !keys.has("loss") {
            let text = "Markov loss models lose single frames only";
            found.add("loss_unit", text, "remove this, or use `loss`");
        }
        let text = "a correlation of `loss` without `loss`";
        found.add_without(keys, "loss_correlation", "loss", text);
        let Some(markov) = keys.get::<Keys>("markov") else { return };
        for (one, other) in [("p13", "p14"), ("p31", "p32")] {
            // A little more than 1: sums of decimal shares such as 90 % and 10 % are rounded.
            let [a, b] = [one, other].map(|key| markov.get::<Ratio>(key).unwrap_or_default());
            if markov.has(one) && markov.has(other) && a.fraction() + b.fraction() > 1.0 + 1e-9 {
                let text = format!("{one} and {other} exceed 100 % together");
                let fix = "both are transitions from the same state";
                found.add(format!("markov.{other}"), text, fix);
            }
        }
    }

    fn check_netem(keys: &Keys, found: &mut Contradictions) {
        if keys.get::<LossUnit>("loss_unit").unwrap_or_default() != LossUnit::Frame {
            found.add("loss_unit", "loss of more than single frames", "use `frame`");
        }
    }

    fn text(&self, _is_scheduled: bool) -> Option<String> {
        Some(match self {
            Self::Random(random) => {
                let unit = match random.unit {
                    LossUnit::Frame => "frame",
                    LossUnit::Datagram => "datagram",
                    LossUnit::Train => "train",
                };
                format!("{} per {unit}", share_text("loss", random.share, random.correlation)?)
            }
            Self::GilbertElliott(model) => format!(
                "Gilbert-Elliott loss: p {}, r {}, 1-h {}, 1-k {}",
                model.p, model.r, model.loss_bad, model.loss_good
            ),
            Self::Markov(model) => format!(
                "four-state loss: p13 {}, p31 {}, p32 {}, p23 {}, p14 {}",
                model.p13, model.p31, model.p32, model.p23, model.p14
            ),
        })
    }

    fn is_none(&self) -> bool {
        matches!(self, Self::Random(random) if random.share.fraction() == 0.0)
    }

    fn quantity(&mut self, key: &str) -> Option<Quantity<'_>> {
        match self {
            Self::Random(random) if key == "loss" => Some(Quantity::Share(&mut random.share)),
            _ => None,
        }
    }

    fn mean_loss(&self) -> f64 {
        match self {
            Self::Random(random) => random.share.fraction(),
            Self::GilbertElliott(model) => model.mean(),
            Self::Markov(model) => model.mean(),
        }
    }

    fn is_random(&self) -> bool {
        self.mean_loss() > 0.0
    }

    fn has_state(&self) -> bool {
        match self {
            Self::Random(random) => {
                random.unit != LossUnit::Frame || random.correlation.fraction() > 0.0
            }
            _ => true,
        }
    }

    fn flow(&self) -> LossFlow {
        let correlation = match self {
            Self::Random(random) => random.correlation,
            _ => Ratio::default(),
        };
        let trains = match self.unit() {
            LossUnit::Frame => None,
            LossUnit::Datagram => Some(Box::new(Trains::of_datagrams())),
            LossUnit::Train => Some(Box::default()),
        };
        LossFlow { draws: Correlated::new(correlation), trains, ..LossFlow::default() }
    }

    fn change_flow(&self, flow: &mut LossFlow, before: &Self) {
        let fresh = self.flow();
        if self.unit() != before.unit() {
            flow.trains = fresh.trains;
        }
        match (before, self) {
            (Self::Random(before), Self::Random(now)) if before.correlation == now.correlation => {}
            (Self::GilbertElliott(before), Self::GilbertElliott(_)) => {
                flow.before = Some(Box::new(before.shares()));
            }
            (Self::Markov(before), Self::Markov(_)) => {
                flow.before = Some(Box::new(before.stationary()));
            }
            _ => *flow = LossFlow { trains: flow.trains.take(), ..fresh },
        }
    }

    fn decide(&self, flow: &mut LossFlow, frame: &Arrival<'_>, decision: &mut Decision) {
        let index = frame.index;
        let unit = flow.trains.as_mut();
        let unit = unit.map_or(index, |trains| trains.number(frame.frame, frame.now));
        decision.lost |= self.takes(flow, frame.draw, index, unit);
    }

    fn decide_copy(&self, draw: Draw, index: u64, decision: &mut Decision) {
        // By the long-term share: a copy must not move the state of its flow's model.
        decision.lost |= draw.uniform(Purpose::Loss, index) < self.mean_loss();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: u64 = 1_000_000;

    fn share(percent: f64) -> Ratio {
        Ratio::from_fraction(percent / 100.0).unwrap()
    }

    fn losses(loss: Loss) -> Vec<bool> {
        let (draw, mut flow) = (Draw::new(7, 1, 0), loss.flow());
        (0..FRAMES).map(|index| loss.takes(&mut flow, draw, index, index)).collect()
    }

    fn random(percent: f64, correlation: f64, unit: LossUnit) -> Loss {
        let (share, correlation) = (share(percent), share(correlation));
        Loss::Random(RandomLoss { share, correlation, unit })
    }

    fn mean(losses: &[bool]) -> f64 {
        losses.iter().filter(|lost| **lost).count() as f64 / losses.len() as f64
    }

    /// Lengths of loss runs.
    fn runs(losses: &[bool]) -> Vec<f64> {
        losses.chunk_by(|a, b| a == b).filter(|run| run[0]).map(|run| run.len() as f64).collect()
    }

    #[test]
    fn correlation_makes_runs_and_leaves_the_share() {
        let independent = losses(random(30.0, 0.0, LossUnit::Frame));
        let correlated = losses(random(30.0, 75.0, LossUnit::Frame));
        let length = |losses: &[bool]| {
            let runs = runs(losses);
            runs.iter().sum::<f64>() / runs.len() as f64
        };
        // With independent losses, a run continues with probability 0.3: mean length 1/0.7.
        assert!((length(&independent) - 1.0 / 0.7).abs() < 0.01, "{}", length(&independent));
        assert!(length(&correlated) > 2.0, "{}", length(&correlated));
        assert!((mean(&correlated) - 0.3).abs() < 0.005, "{}", mean(&correlated));
    }

    #[test]
    fn a_unit_is_lost_whole() {
        let loss = random(50.0, 0.0, LossUnit::Train);
        let (draw, mut flow) = (Draw::new(7, 1, 0), loss.flow());
        let losses: Vec<_> = (0..1000).map(|i| loss.takes(&mut flow, draw, i, i / 10)).collect();
        assert!(losses.chunks(10).all(|unit| unit.iter().all(|lost| *lost == unit[0])));
        assert!(mean(&losses) > 0.3 && mean(&losses) < 0.7);
    }

    #[test]
    fn bursts_of_gilbert_are_geometric() {
        // Simple Gilbert model: the bad state loses everything, the good state nothing.
        let config = GilbertElliott {
            p: share(2.0),
            r: share(25.0),
            loss_bad: share(100.0),
            loss_good: share(0.0),
        };
        let losses = losses(Loss::GilbertElliott(config));
        assert!((config.mean() - 2.0 / 27.0).abs() < 1e-12);
        let error = 4.0 * (config.mean() * config.dispersion() / FRAMES as f64).sqrt();
        assert!((mean(&losses) - config.mean()).abs() < error, "{}", mean(&losses));
        let runs = runs(&losses);
        for length in 1..8 {
            let longer = runs.iter().filter(|run| **run > length as f64).count() as f64;
            let want = 0.75f64.powi(length);
            let error = 4.0 * (want * (1.0 - want) / runs.len() as f64).sqrt();
            assert!((longer / runs.len() as f64 - want).abs() < error, "runs over {length}");
        }
    }

    #[test]
    fn dispersion_is_the_variance_over_many_runs() {
        let config = GilbertElliott {
            p: share(2.0),
            r: share(25.0),
            loss_bad: share(30.0),
            loss_good: share(1.0),
        };
        let losses = losses(Loss::GilbertElliott(config));
        let shares: Vec<f64> = losses.chunks(1000).map(mean).collect();
        let variance =
            shares.iter().map(|s| (s - config.mean()).powi(2)).sum::<f64>() / shares.len() as f64;
        let independent = config.mean() * (1.0 - config.mean()) / 1000.0;
        let ratio = variance / independent / config.dispersion();
        // A variance of 1,000 samples has a standard error of 4.5 %.
        assert!((ratio - 1.0).abs() < 0.18, "{ratio}, dispersion {}", config.dispersion());
    }

    #[test]
    fn four_states_lose_as_their_balance_says() {
        let config = Markov {
            p13: share(1.0),
            p31: share(20.0),
            p32: share(30.0),
            p23: share(40.0),
            p14: share(0.5),
        };
        let losses = losses(Loss::Markov(config));
        // Bursts make the share vary more than independent losses; 0.004 is 4 standard
        // errors for a dispersion of 12.
        assert!(
            (mean(&losses) - config.mean()).abs() < 0.004,
            "{} {}",
            mean(&losses),
            config.mean()
        );
        let runs = runs(&losses);
        let single = runs.iter().filter(|run| **run == 1.0).count() as f64 / runs.len() as f64;
        assert!(single > 0.5, "half of the stays in 3 are of one frame, and all in 4: {single}");
    }

    /// The share of 20,000 flows whose first frame after a change is lost, if the flows were in
    /// their long-term distribution before it.
    fn lost_after_change(before: Loss, now: Loss) -> f64 {
        let lost = (0..20_000_u64).filter(|flow| {
            let (draw, mut state) = (Draw::new(7, 1, 0).of_flow(*flow), before.flow());
            before.takes(&mut state, draw, 0, 0);
            now.change_flow(&mut state, &before);
            now.takes(&mut state, draw, 1, 1)
        });
        lost.count() as f64 / 20_000.0
    }

    /// What failed: flows kept their states, so that a link lost as much as before the change until
    /// they had all changed, which the tolerance reported as a fault of the machine.
    #[test]
    fn a_changed_model_with_states_loses_by_its_shares_from_the_first_frame() {
        let bursts = |p: f64, r: f64| {
            let (loss_bad, loss_good) = (share(100.0), share(0.0));
            Loss::GilbertElliott(GilbertElliott { p: share(p), r: share(r), loss_bad, loss_good })
        };
        let four = |p13: f64, p31: f64| {
            let (p32, p23) = (share(0.05), share(0.1));
            Loss::Markov(Markov { p13: share(p13), p31: share(p31), p32, p23, p14: share(0.0) })
        };
        for (before, now) in [
            (bursts(0.1, 0.1), bursts(0.1, 0.9)),
            (bursts(0.1, 0.9), bursts(0.1, 0.1)),
            (bursts(0.0, 0.0), bursts(0.1, 0.3)),
            (bursts(0.1, 0.1), bursts(0.0, 0.0)),
            (four(0.1, 0.1), four(0.1, 0.9)),
            (four(0.1, 0.9), four(0.2, 0.1)),
        ] {
            let found = lost_after_change(before, now);
            // Four standard errors are at most 0.0142.
            let expected = now.mean_loss();
            assert!((found - expected).abs() < 0.0145, "{before:?} to {now:?}: {found}");
        }
    }

    /// A ramp changes the settings at each step: bursts last through it.
    #[test]
    fn a_change_moves_only_as_many_flows_as_it_must() {
        let bursts = |p: f64| {
            let (r, loss_bad, loss_good) = (share(0.01), share(100.0), share(0.0));
            Loss::GilbertElliott(GilbertElliott { p: share(p), r, loss_bad, loss_good })
        };
        let (draw, mut changes) = (Draw::new(7, 1, 0), 0);
        for flow in 0..1_000 {
            let (draw, mut state) = (draw.of_flow(flow), bursts(0.01).flow());
            let first = bursts(0.01).takes(&mut state, draw, 0, 0);
            for step in 1..100_u64 {
                let p = |step: u64| bursts(0.01 + step as f64 * 1e-6);
                p(step).change_flow(&mut state, &p(step - 1));
                changes += u32::from(p(step).takes(&mut state, draw, step, step) != first);
            }
        }
        // The chain itself leaves its state once in 10,000 frames: about 0.5 % of 99,000 frames are
        // in another state than the first one.
        assert!(changes < 2_000, "{changes} of 99,000 frames");
    }

    #[test]
    fn the_mean_of_an_endless_burst_is_known() {
        let stuck = Markov {
            p13: share(1.0),
            p31: share(0.0),
            p32: share(50.0),
            p23: share(50.0),
            p14: share(0.0),
        };
        assert_eq!(stuck.mean(), 0.5);
        assert_eq!(Markov { p32: share(0.0), p23: share(0.0), ..stuck }.mean(), 1.0);
        assert_eq!(Markov { p13: share(0.0), ..stuck }.mean(), 0.0);
    }
}
