//! A message under some conditions, in frames and times.

use crate::conditions::Conditions;
use crate::map::{Figures, Quantiles};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::targets::Pattern;

/// Headers of Ethernet, IPv4 and UDP, in bytes.
pub const LINK_HEADERS: f64 = 42.0;
/// Headers of IPv4 and UDP, in bytes.
const HEADERS: f64 = 28.0;
/// Overhead of sealing and chunking per frame, in bytes.
pub const FRAME_OVERHEAD: f64 = 15.0;
/// Size of an acknowledgement datagram, in bytes.
pub const ACK: f64 = 30.0;
/// Maximum loss for the formulas.
const MAX_LOSS: f64 = 0.95;

/// A message to a group, and its answers.
#[derive(Debug)]
pub struct Case<'a> {
    /// The conditions.
    pub here: &'a Conditions,
    /// Frame loss, 0 to below 1.
    pub loss: f64,
    /// Number of members, 1 or more.
    pub group: f64,
    /// Bytes of a message that a frame has room for.
    pub room: f64,
    /// Frames of a message.
    pub chunks: f64,
    /// Size of such a frame above IPv4 and UDP, in bytes.
    pub datagram: f64,
    /// Time on air of such a frame, and of an acknowledgement, in ms.
    pub frame: f64,
    /// See `frame`.
    pub short: f64,
    /// Round trip without queueing, in ms.
    pub trip: f64,
    /// Frames of an answer; 0 without answers.
    pub back: f64,
    /// 2 with answers, else 1.
    pub ways: f64,
}

impl<'a> Case<'a> {
    /// A message of this pattern under these conditions.
    pub fn new(pattern: Pattern, here: &'a Conditions) -> Self {
        let room = (here.mtu - HEADERS - FRAME_OVERHEAD).max(1.0);
        let chunks = (here.payload / room).ceil().max(1.0);
        let datagram = (here.payload / chunks + FRAME_OVERHEAD).min(here.mtu - HEADERS);
        let back = if pattern.is_answered() { chunks } else { 0.0 };
        Self {
            here,
            loss: here.loss.clamp(0.0, MAX_LOSS),
            group: here.group.max(1.0),
            room,
            chunks,
            datagram,
            frame: airtime(here, datagram),
            short: airtime(here, ACK),
            trip: here.rtt.as_ms(),
            back,
            ways: if back > 0.0 { 2.0 } else { 1.0 },
        }
    }

    /// Whether members answer.
    pub fn is_answered(&self) -> bool {
        self.back > 0.0
    }

    /// Size of an answer in bytes; 0 without answers.
    pub fn answer(&self) -> f64 {
        if self.is_answered() { self.here.payload } else { 0.0 }
    }

    /// Time on air of a datagram of `bytes`, in ms.
    pub fn airtime(&self, bytes: f64) -> f64 {
        airtime(self.here, bytes)
    }

    /// Bytes on the wire of frames and of acknowledgements.
    pub fn wire(&self, frames: f64, shorts: f64) -> f64 {
        frames * (self.datagram + LINK_HEADERS) + shorts * (ACK + LINK_HEADERS)
    }

    /// The delay of a message that takes `fixed` ms by itself (at the 50th, 90th and 99th
    /// percentile) and `each` ms of the channel per member: half of the group's total time at the
    /// median, all of it at the 99th percentile.
    pub fn queued(&self, fixed: [f64; 3], each: f64) -> Quantiles {
        let all = each * self.group;
        Quantiles { p50: fixed[0] + all / 2.0, p90: fixed[1] + all * 0.9, p99: fixed[2] + all }
    }
}

fn airtime(here: &Conditions, bytes: f64) -> f64 {
    (bytes + LINK_HEADERS) * 8e3 / here.rate_bit_s.max(1.0)
}

/// Predicted performance of a model.
#[derive(Debug, Clone, Copy)]
pub struct Prediction {
    /// Delay in ms.
    pub delay_ms: Quantiles,
    /// Share of delivered messages, 0 to 1.
    pub delivery: f64,
    /// Bytes on the wire per message and member.
    pub bytes: f64,
}

impl From<Prediction> for Figures {
    fn from(prediction: Prediction) -> Self {
        let Prediction { delay_ms, delivery, bytes } = prediction;
        Self { delay_ms, delay_interval: None, delivery, bytes, energy: 0.0, messages: 0.0 }
    }
}

/// Transmission rounds until all of `chunks` have arrived with probability `chance`.
pub fn rounds(chunks: f64, loss: f64, chance: f64) -> f64 {
    if loss <= 1e-6 {
        return 1.0;
    }
    // (1 - p^r)^k = q.
    ((chunks / -chance.ln()).ln() / -loss.ln()).max(1.0)
}
