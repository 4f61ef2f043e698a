//! What is asked of one direction of a link, in tc-netem's words.

use serde::{Deserialize, Serialize};
use units::{Bytes, Rate, Ratio, Span};

/// The shape of the delay's variation round its mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Evenly between `delay - jitter` and `delay + jitter`.
    #[default]
    Uniform,
    /// Normal, with `jitter` as its standard deviation.
    Normal,
}

/// What shares one fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossUnit {
    /// Each frame is lost by itself.
    #[default]
    Frame,
    /// All fragments of one IP datagram, or back-to-back segments of one TCP
    /// flow up to 64 KiB, are lost together: what a shaper sees behind
    /// segmentation offload.
    Train,
}

/// What one direction of a link does to its frames.
///
/// The order is that of a wire: queue, serialisation, loss, propagation. A lost
/// frame has used its share of the rate (tc-netem decides loss first).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Impairment {
    /// Mean time from the end of serialisation to delivery.
    pub delay: Span,
    /// Variation of the delay; see [`Distribution`]. A delay is never below 0.
    pub jitter: Span,
    /// Shape of the variation.
    pub distribution: Distribution,
    /// Whether a frame waits for those sent before it. Without it jitter
    /// reorders frames, as in tc-netem.
    pub keep_order: bool,
    /// Share of frames (or trains) lost, drawn independently.
    pub loss: Ratio,
    /// What is lost as one.
    pub loss_unit: LossUnit,
    /// Data rate of the link, header included; none means unlimited.
    pub rate: Option<Rate>,
    /// Bytes that an idle link lets through at once (a token bucket's depth);
    /// 0 makes the rate a pure serialisation time.
    pub burst: Bytes,
    /// Frames that may wait for the rate; more are dropped. tc-netem's default.
    pub queue: u32,
}

impl Default for Impairment {
    fn default() -> Self {
        Self {
            delay: Span::ZERO,
            jitter: Span::ZERO,
            distribution: Distribution::Uniform,
            keep_order: false,
            loss: Ratio::default(),
            loss_unit: LossUnit::Frame,
            rate: None,
            burst: Bytes::new(0),
            queue: 1000,
        }
    }
}

impl Impairment {
    /// Whether frames pass untouched.
    pub fn is_none(&self) -> bool {
        self.delay == Span::ZERO
            && self.jitter == Span::ZERO
            && self.loss.fraction() == 0.0
            && self.rate.is_none()
    }
}
