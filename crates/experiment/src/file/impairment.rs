//! What a link does to frames in one direction, as typed.

use crate::file::foreign::Foreign;
use crate::file::models::{Cells, Codel, Gilbert, Markov, Outage, Red, Shape, Slot};
use crate::read::{At, Fields, OneOrMore, Read, Sink};
use crate::scalar::{Signed, Word, word};
use crate::source::Place;
use crate::tree::Node;
use medium::{GrantSpec, Limit, LossUnit};
use schemars::JsonSchema;
use units::{Bytes, Rate, Ratio, Span};

/// The keys of an impairment: what is typed, read and laid over another.
macro_rules! impairment {
    ($($(#[$doc:meta])* $key:ident: $kind:ty,)*) => {
        /// What a link does to frames in one direction, in tc-netem's words.
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
            /// This one, with `base` where it says nothing.
            pub fn over(&self, base: &Self) -> Self {
                Self { $($key: self.$key.clone().or_else(|| base.$key.clone()),)* }
            }

            /// The keys that it has, with the places of their values.
            pub fn keys(&self) -> Vec<(&'static str, Place)> {
                let mut keys = Vec::new();
                $(keys.extend(self.$key.as_ref().map(|at| (stringify!($key), at.place)));)*
                keys
            }
        }
    };
}

impairment! {
    /// Mean time from the end of serialisation to delivery.
    delay: Span,
    /// Variation of the delay.
    jitter: Span,
    /// Correlation of a frame's variation with that of the one before.
    correlation: Ratio,
    /// Shape of the variation: `uniform` within the jitter (the default), or
    /// `normal`, `pareto`, `paretonormal` with it as their scale, or
    /// `{table: FILE}` in iproute2's format.
    distribution: Shape,
    /// Whether delays that would be below 0 are meant to be 0; without it a
    /// jitter above the delay is an error.
    clip: bool,
    /// Whether a frame waits for those before it; without it, jitter reorders.
    keep_order: bool,
    /// Share of frames (or other units) that are lost, at random.
    loss: Ratio,
    /// Correlation of the draw that decides on a loss with the one before.
    loss_correlation: Ratio,
    /// What is lost as one: a frame; all fragments of a datagram; or these and
    /// back-to-back segments of a flow; `frame` unless given.
    loss_unit: LossUnit,
    /// Loss in a good and a bad state, in place of `loss`.
    gilbert_elliott: Gilbert,
    /// Loss in four states, in place of `loss`.
    markov: Markov,
    /// Share of frames of which one bit is turned over.
    corrupt: Ratio,
    /// Correlation of the draw that decides on it with the one before.
    corrupt_correlation: Ratio,
    /// Share of frames that come twice.
    duplicate: Ratio,
    /// Correlation of the draw that decides on it with the one before.
    duplicate_correlation: Ratio,
    /// Share of frames that are not delayed, and so overtake others.
    reorder: Ratio,
    /// Correlation of the draw that decides on it with the one before.
    reorder_correlation: Ratio,
    /// Frames from one that may overtake to the next; 1 unless given.
    gap: u32,
    /// Data rate of the link, header included; unlimited unless given.
    rate: Rate,
    /// Bytes that an idle link lets through at once; 0 B unless given.
    burst: Bytes,
    /// Bytes that each frame takes on the link besides its own, such as `24 B`
    /// or `-14 B`.
    overhead: Signed,
    /// Cells that the link cuts frames into, as ATM does.
    cell: Cells,
    /// A file of delivery opportunities in Mahimahi's format, in place of `rate`.
    trace: String,
    /// A cellular network's grants, in place of `rate`: blocks of time that are
    /// asked for and given.
    grant: Foreign<GrantSpec>,
    /// What may wait for the rate: frames, or bytes with a unit; 1000 frames
    /// unless given.
    queue: Limit,
    /// Drops by how long frames waited (RFC 8289).
    codel: Codel,
    /// Drops by the mean length of the queue.
    red: Red,
    /// Frames are gathered and leave together.
    slot: Slot,
    /// Times in which nothing is carried: scheduled, or at random.
    outage: OneOrMore<At<Outage>>,
}

/// Models of loss, of which a link has one, and the keys that belong to each alone.
const LOSSES: [(&str, &[&str]); 3] =
    [("loss", &["loss_correlation", "loss_unit"]), ("gilbert_elliott", &[]), ("markov", &[])];

impl Impairment {
    /// The keys that a change to these takes away: of the models of loss that it does not
    /// name when it names another.
    pub fn replaced(&self) -> Vec<&'static str> {
        let named: Vec<&str> = self.keys().into_iter().map(|(key, _)| key).collect();
        if !LOSSES.iter().any(|(model, _)| named.contains(model)) {
            return Vec::new();
        }
        let others = LOSSES.iter().filter(|(model, _)| !named.contains(model));
        others.flat_map(|(model, own)| std::iter::once(*model).chain(own.iter().copied())).collect()
    }

    /// What a link does after a change to these, that does what `before` says.
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
