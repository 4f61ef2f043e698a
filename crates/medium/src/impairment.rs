//! What is asked of one direction of a link, in tc-netem's words.

use crate::codel::Codel;
use crate::distribution::Distribution;
use crate::grant::GrantSpec;
use crate::loss::{GilbertElliott, LossUnit, Markov};
use crate::outage::Outage;
use crate::queue::Limit;
use crate::red::Red;
use crate::serialiser::{Cell, Framing};
use crate::slot::Slot;
use crate::trace::Trace;
use serde::{Deserialize, Serialize};
use units::{Bytes, Rate, Ratio, Span};

/// What one direction of a link does to its frames.
///
/// The order is that of a wire: outage, duplication, queue, serialisation, loss,
/// corruption, propagation, slot. A lost frame has used its share of the rate
/// (tc-netem decides loss first).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Impairment {
    /// Mean time from the end of serialisation to delivery.
    pub delay: Span,
    /// Variation of the delay; see [`Distribution`]. A delay is never below 0.
    pub jitter: Span,
    /// Correlation of a frame's variation with the one before.
    #[serde(skip_serializing_if = "none")]
    pub correlation: Ratio,
    /// Shape of the variation.
    pub distribution: Distribution,
    /// Whether a frame waits for those sent before it. Without it jitter
    /// reorders frames, as in tc-netem.
    pub keep_order: bool,
    /// Share of frames (or other units) lost, at random.
    pub loss: Ratio,
    /// Correlation of the draw that decides on a loss with the one before.
    #[serde(skip_serializing_if = "none")]
    pub loss_correlation: Ratio,
    /// What is lost as one.
    pub loss_unit: LossUnit,
    /// Loss in two states, in place of `loss`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliott>,
    /// Loss in four states, in place of `loss`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markov: Option<Markov>,
    /// Share of frames of which one bit is turned over.
    #[serde(skip_serializing_if = "none")]
    pub corrupt: Ratio,
    /// Correlation of the draw that decides on it.
    #[serde(skip_serializing_if = "none")]
    pub corrupt_correlation: Ratio,
    /// Share of frames that come twice.
    #[serde(skip_serializing_if = "none")]
    pub duplicate: Ratio,
    /// Correlation of the draw that decides on it.
    #[serde(skip_serializing_if = "none")]
    pub duplicate_correlation: Ratio,
    /// Share of frames that are not delayed, and so overtake others.
    #[serde(skip_serializing_if = "none")]
    pub reorder: Ratio,
    /// Correlation of the draw that decides on it.
    #[serde(skip_serializing_if = "none")]
    pub reorder_correlation: Ratio,
    /// Frames from one that may overtake to the next; 1 lets any.
    #[serde(skip_serializing_if = "is_one")]
    pub gap: u32,
    /// Data rate of the link, header included; none means unlimited.
    pub rate: Option<Rate>,
    /// Bytes that an idle link lets through at once (a token bucket's depth);
    /// 0 makes the rate a pure serialisation time.
    pub burst: Bytes,
    /// Bytes that each frame takes more (or, below 0, less) than its length.
    #[serde(skip_serializing_if = "is_zero")]
    pub overhead: i32,
    /// The cells that frames are cut into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    /// A recorded link's times, in place of `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// A cellular network's grants, in place of `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantSpec>,
    /// What may wait for the rate; more is dropped.
    pub queue: Limit,
    /// Drops by how long frames waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codel: Option<Codel>,
    /// Drops by the queue's mean length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub red: Option<Red>,
    /// Frames are gathered and leave together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// Times in which nothing is carried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
}

fn none(ratio: &Ratio) -> bool {
    ratio.fraction() == 0.0
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl Default for Impairment {
    fn default() -> Self {
        let none = Ratio::default();
        Self {
            delay: Span::ZERO,
            jitter: Span::ZERO,
            correlation: none,
            distribution: Distribution::Uniform,
            keep_order: false,
            loss: none,
            loss_correlation: none,
            loss_unit: LossUnit::Frame,
            gilbert_elliott: None,
            markov: None,
            corrupt: none,
            corrupt_correlation: none,
            duplicate: none,
            duplicate_correlation: none,
            reorder: none,
            reorder_correlation: none,
            gap: 1,
            rate: None,
            burst: Bytes::new(0),
            overhead: 0,
            cell: None,
            trace: None,
            grant: None,
            queue: Limit::default(),
            codel: None,
            red: None,
            slot: None,
            outages: Vec::new(),
        }
    }
}

impl Impairment {
    /// Whether frames pass untouched.
    pub fn is_none(&self) -> bool {
        // Words that change nothing by themselves do not count.
        let bare = Self {
            correlation: Ratio::default(),
            distribution: Distribution::Uniform,
            keep_order: false,
            loss_correlation: Ratio::default(),
            loss_unit: LossUnit::Frame,
            corrupt_correlation: Ratio::default(),
            duplicate_correlation: Ratio::default(),
            reorder_correlation: Ratio::default(),
            gap: 1,
            burst: Bytes::new(0),
            overhead: 0,
            cell: None,
            queue: Limit::default(),
            codel: None,
            red: None,
            ..self.clone()
        };
        bare == Self::default()
    }

    /// Whether frames may have to wait for their turn on the link.
    pub fn is_rated(&self) -> bool {
        self.rate.is_some() || self.trace.is_some() || self.grant.is_some()
    }

    /// Whether chance decides anything about a frame.
    pub fn is_chancy(&self) -> bool {
        self.jitter != Span::ZERO
            || self.mean_loss() > 0.0
            || [self.corrupt, self.duplicate, self.reorder].iter().any(|share| !none(share))
    }

    /// What frames are on the link's wire.
    pub fn framing(&self) -> Framing {
        Framing { overhead: self.overhead, cell: self.cell }
    }

    /// The share of frames lost over a long time, whatever the model.
    pub fn mean_loss(&self) -> f64 {
        match (self.gilbert_elliott, self.markov) {
            (Some(model), _) => model.mean(),
            (None, Some(model)) => model.mean(),
            (None, None) => self.loss.fraction(),
        }
    }

    /// The delay in ns that no frame goes below.
    pub(crate) fn least_delay_ns(&self) -> u64 {
        match none(&self.reorder) {
            true => self.delay_ns(self.distribution.least()),
            // What overtakes is not delayed.
            false => 0,
        }
    }

    /// The delay in ns that lies so many jitters from the mean.
    pub(crate) fn delay_ns(&self, jitters: f64) -> u64 {
        let offset = jitters * self.jitter.as_ns() as f64;
        (self.delay.as_ns() as f64 + offset).max(0.0) as u64
    }

    /// The mean delay in ns over a long time: without what is reordered, with the
    /// mean of the variation. Where the variation goes below a delay of 0 it is
    /// more than this.
    pub fn mean_delay_ns(&self) -> f64 {
        // After `gap - 1` delayed frames each overtakes with that probability.
        let reorder = self.reorder.fraction();
        let delayed = 1.0 - reorder / (1.0 + f64::from(self.gap.max(1) - 1) * reorder);
        let mean = self.distribution.mean() * self.jitter.as_ns() as f64;
        delayed * (self.delay.as_ns() as f64 + mean)
    }
}
