//! File format: impairments of a link in one direction.

use crate::file::foreign::Foreign;
use crate::file::models::{Cells, Codel, Gilbert, Markov, Outage, Red, Shape, Slot};
use crate::read::{At, Fields, OneOrMore, Read, Sink};
use crate::scalar::{Signed, Word, word};
use crate::source::Place;
use crate::tree::Node;
use medium::{GrantSpec, Limit, LossUnit};
use schemars::JsonSchema;
use units::{Bytes, Rate, Ratio, Span};

/// Declares the keys of an impairment, their reader and their merge.
macro_rules! impairment {
    ($($(#[$doc:meta])* $key:ident: $kind:ty,)*) => {
        /// Impairments of a link in one direction, in tc-netem's terms.
        #[derive(Debug, Clone, Default, JsonSchema)]
        #[schemars(deny_unknown_fields)]
        pub(crate) struct Impairment {
            $($(#[$doc])* pub $key: Option<At<$kind>>,)*
        }

        impl Read for Impairment {
            fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
                let mut fields = Fields::of(node, "an impairment", sink)?;
                let impairment = Self { $($key: fields.optional(stringify!($key)),)* };
                fields.finish();
                Some(impairment)
            }
        }

        impl Impairment {
            /// Returns these keys, with those of `base` where they are missing.
            pub fn over(&self, base: &Self) -> Self {
                Self { $($key: self.$key.clone().or_else(|| base.$key.clone()),)* }
            }

            /// The keys that are set, with the positions of their values.
            pub fn keys(&self) -> Vec<(&'static str, Place)> {
                let mut keys = Vec::new();
                $(keys.extend(self.$key.as_ref().map(|at| (stringify!($key), at.place)));)*
                keys
            }
        }
    };
}

impairment! {
    /// Mean delay from the end of serialisation to delivery.
    delay: Span,
    /// Jitter: variation of the delay.
    jitter: Span,
    /// Correlation of a frame's jitter with the previous frame's.
    correlation: Ratio,
    /// Distribution of the jitter: `uniform` within the jitter (default); `normal`, `pareto` or
    /// `paretonormal`, scaled by the jitter; or `{table: FILE}` in iproute2's format.
    distribution: Shape,
    /// Whether negative delays are clipped to 0. Without it, a jitter above the delay is an error.
    clip: bool,
    /// Whether frames keep their order. Without it, jitter reorders frames.
    keep_order: bool,
    /// Random loss: share of frames (or other units).
    loss: Ratio,
    /// Correlation of a loss decision with the previous one.
    loss_correlation: Ratio,
    /// Unit of loss: `frame`; `datagram`, all its fragments; or `train`, a datagram or back-to-back
    /// segments of a flow. Default: `frame`.
    loss_unit: LossUnit,
    /// Loss in a good and a bad state, in place of `loss`.
    gilbert_elliott: Gilbert,
    /// Loss in four states, in place of `loss`.
    markov: Markov,
    /// Share of frames with one flipped bit.
    corrupt: Ratio,
    /// Correlation of a corruption decision with the previous one.
    corrupt_correlation: Ratio,
    /// Share of frames that are duplicated.
    duplicate: Ratio,
    /// Correlation of a duplication decision with the previous one.
    duplicate_correlation: Ratio,
    /// Share of frames that are not delayed, and so overtake others.
    reorder: Ratio,
    /// Correlation of a reordering decision with the previous one.
    reorder_correlation: Ratio,
    /// Distance in frames between candidates for reordering. Default: 1.
    gap: u32,
    /// Data rate of the link, headers included. Default: unlimited.
    rate: Rate,
    /// Burst that an idle link passes at once, B. Default: 0 B.
    burst: Bytes,
    /// Overhead of each frame on the link, B, such as `24 B` or `-14 B`.
    overhead: Signed,
    /// Cells that the link splits frames into, as ATM does.
    cell: Cells,
    /// A file of delivery opportunities in Mahimahi's format, in place of `rate`.
    trace: String,
    /// Uplink grants of a cellular network, in place of `rate`: transport blocks that are requested
    /// and granted.
    grant: Foreign<GrantSpec>,
    /// Queue limit in front of the rate: frames, or bytes with a unit. Default: 1000 frames.
    queue: Limit,
    /// CoDel: drops by the frames' waiting time (RFC 8289).
    codel: Codel,
    /// RED: drops by the mean queue length.
    red: Red,
    /// Slots: frames are collected and sent together.
    slot: Slot,
    /// Outages: times without any transmission, scheduled or random.
    outage: OneOrMore<At<Outage>>,
}

/// Loss models, of which a link has one, and the keys that belong to only one of them.
const LOSSES: [(&str, &[&str]); 3] =
    [("loss", &["loss_correlation", "loss_unit"]), ("gilbert_elliott", &[]), ("markov", &[])];

impl Impairment {
    /// The keys that these keys remove from a link when applied as a change: those of the loss
    /// models that they do not name, if they name another one.
    pub fn replaced(&self) -> Vec<&'static str> {
        let named: Vec<&str> = self.keys().into_iter().map(|(key, _)| key).collect();
        if !LOSSES.iter().any(|(model, _)| named.contains(model)) {
            return Vec::new();
        }
        let others = LOSSES.iter().filter(|(model, _)| !named.contains(model));
        others.flat_map(|(model, own)| std::iter::once(*model).chain(own.iter().copied())).collect()
    }

    /// The impairments of a link after these keys change `before`.
    pub fn after(&self, before: &Self) -> Self {
        let mut before = before.clone();
        for key in self.replaced() {
            match key {
                "loss" => before.loss = None,
                "loss_correlation" => before.loss_correlation = None,
                "loss_unit" => before.loss_unit = None,
                "gilbert_elliott" => before.gilbert_elliott = None,
                _ => before.markov = None,
            }
        }
        self.over(&before)
    }
}

impl Word for LossUnit {
    const WHAT: &'static str = "a unit of loss";
    const WORDS: &'static [(&'static str, Self)] =
        &[("frame", Self::Frame), ("datagram", Self::Datagram), ("train", Self::Train)];
}

impl Read for LossUnit {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}
