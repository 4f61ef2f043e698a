//! Impairments of one direction of a link, with the parameter names of tc-netem.

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

/// Impairments of one direction of a link.
///
/// They apply in the order of a wire: outage, duplication, queue, serialisation, loss,
/// corruption, propagation, slot. A lost frame has used its share of the rate (tc-netem
/// decides loss first).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Impairment {
    /// Mean time from the end of serialisation to delivery.
    pub delay: Span,
    /// Variation of the delay; see [`Distribution`]. A delay is never below 0.
    pub jitter: Span,
    /// Correlation of a frame's delay variation with that of the previous frame.
    #[serde(skip_serializing_if = "none")]
    pub correlation: Ratio,
    /// Distribution of the delay variation.
    pub distribution: Distribution,
    /// Whether frames keep their order. If not, jitter reorders frames, as in tc-netem.
    pub keep_order: bool,
    /// Share of frames (or other units) lost at random.
    pub loss: Ratio,
    /// Correlation of successive loss decisions.
    #[serde(skip_serializing_if = "none")]
    pub loss_correlation: Ratio,
    /// Unit of loss: frame, datagram or train.
    pub loss_unit: LossUnit,
    /// Two-state loss model, instead of `loss`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliott>,
    /// Four-state loss model, instead of `loss`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markov: Option<Markov>,
    /// Share of frames with one flipped bit.
    #[serde(skip_serializing_if = "none")]
    pub corrupt: Ratio,
    /// Correlation of successive corruption decisions.
    #[serde(skip_serializing_if = "none")]
    pub corrupt_correlation: Ratio,
    /// Share of frames duplicated.
    #[serde(skip_serializing_if = "none")]
    pub duplicate: Ratio,
    /// Correlation of successive duplication decisions.
    #[serde(skip_serializing_if = "none")]
    pub duplicate_correlation: Ratio,
    /// Share of frames that are not delayed, and so overtake others.
    #[serde(skip_serializing_if = "none")]
    pub reorder: Ratio,
    /// Correlation of successive reordering decisions.
    #[serde(skip_serializing_if = "none")]
    pub reorder_correlation: Ratio,
    /// Every `gap`-th frame may overtake; 1 allows any.
    #[serde(skip_serializing_if = "is_one")]
    pub gap: u32,
    /// Data rate of the link, including the link header; `None` means unlimited.
    pub rate: Option<Rate>,
    /// Token bucket depth: bytes that an idle link sends at once. 0 makes the rate a pure
    /// serialisation time.
    pub burst: Bytes,
    /// Bytes per frame on the link in addition to its length; negative values reduce it.
    #[serde(skip_serializing_if = "is_zero")]
    pub overhead: i32,
    /// Cells into which the link cuts frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    /// Delivery opportunities of a recorded link, instead of `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Grants of a cellular network, instead of `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantSpec>,
    /// Queue limit in front of the rate; excess frames are dropped.
    pub queue: Limit,
    /// CoDel: drops by queueing delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codel: Option<Codel>,
    /// RED: drops by mean queue length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub red: Option<Red>,
    /// Slots in which gathered frames leave together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// Times without any forwarding.
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
    /// Whether frames pass without impairment.
    pub fn is_none(&self) -> bool {
        // Ignore the settings that have no effect by themselves.
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

    /// Whether frames may have to queue on the link.
    pub fn is_rated(&self) -> bool {
        self.rate.is_some() || self.trace.is_some() || self.grant.is_some()
    }

    /// Whether any decision about a frame is random.
    pub fn is_random(&self) -> bool {
        self.jitter != Span::ZERO
            || self.mean_loss() > 0.0
            || [self.corrupt, self.duplicate, self.reorder].iter().any(|share| !none(share))
    }

    /// Overhead and cells of frames on the link's wire.
    pub fn framing(&self) -> Framing {
        Framing { overhead: self.overhead, cell: self.cell }
    }

    /// Long-term share of frames lost, for any loss model.
    pub fn mean_loss(&self) -> f64 {
        match (self.gilbert_elliott, self.markov) {
            (Some(model), _) => model.mean(),
            (None, Some(model)) => model.mean(),
            (None, None) => self.loss.fraction(),
        }
    }

    /// Minimum delay of any frame, in ns.
    pub(crate) fn least_delay_ns(&self) -> u64 {
        match none(&self.reorder) {
            true => self.delay_ns(self.distribution.least()),
            // A frame that overtakes is not delayed.
            false => 0,
        }
    }

    /// The delay in ns that deviates from the mean by `jitters`.
    pub(crate) fn delay_ns(&self, jitters: f64) -> u64 {
        let offset = jitters * self.jitter.as_ns() as f64;
        (self.delay.as_ns() as f64 + offset).max(0.0) as u64
    }

    /// Long-term mean delay in ns: includes reordering and the mean of the variation. It is
    /// higher than this if the variation is truncated at a delay of 0.
    pub fn mean_delay_ns(&self) -> f64 {
        // After `gap - 1` delayed frames, each frame overtakes with that probability.
        let reorder = self.reorder.fraction();
        let delayed = 1.0 - reorder / (1.0 + f64::from(self.gap.max(1) - 1) * reorder);
        let mean = self.distribution.mean() * self.jitter.as_ns() as f64;
        delayed * (self.delay.as_ns() as f64 + mean)
    }
}
