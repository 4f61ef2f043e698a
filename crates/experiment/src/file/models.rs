//! Models of links that have parameters of their own, as typed.

use crate::read::{At, Fields, Read, Sink};
use crate::scalar::{Word, word};
use crate::tree::{Content, Node};
use schemars::JsonSchema;
use units::{Bytes, Ratio, Span};

/// The shape of a delay's variation.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(rename_all = "snake_case", rename = "Distribution")]
pub(crate) enum Shape {
    /// Evenly within delay +/- jitter.
    Uniform,
    /// Normal, the jitter its standard deviation.
    Normal,
    /// tc-netem's Pareto.
    Pareto,
    /// tc-netem's mixture of both.
    #[schemars(rename = "paretonormal")]
    ParetoNormal,
    /// A file in iproute2's `.dist` format.
    Table(#[schemars(with = "String")] At<String>),
}

/// The words among the shapes.
#[derive(Debug, Clone, Copy)]
enum ShapeWord {
    Uniform,
    Normal,
    Pareto,
    ParetoNormal,
}

impl Word for ShapeWord {
    const WHAT: &'static str = "a distribution";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("uniform", Self::Uniform),
        ("normal", Self::Normal),
        ("pareto", Self::Pareto),
        ("paretonormal", Self::ParetoNormal),
    ];
}

impl Read for Shape {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        if let Content::Map(_) = node.content {
            let mut fields = Fields::of(node, "a distribution", sink)?;
            let table = fields.required("table");
            fields.finish();
            return table.map(Self::Table);
        }
        Some(match word(node, sink)? {
            ShapeWord::Uniform => Self::Uniform,
            ShapeWord::Normal => Self::Normal,
            ShapeWord::Pareto => Self::Pareto,
            ShapeWord::ParetoNormal => Self::ParetoNormal,
        })
    }
}

/// A map of keys, each optional or required, and its reader.
macro_rules! model {
    (
        $(#[$meta:meta])* $name:ident, $what:literal,
        $($(#[$doc:meta])* $how:ident $key:ident as $word:literal: $kind:ty,)*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, JsonSchema)]
        #[schemars(deny_unknown_fields)]
        pub(crate) struct $name {
            $($(#[$doc])* #[schemars(rename = $word)] pub $key: Option<At<$kind>>,)*
        }

        impl Read for $name {
            fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
                let mut fields = Fields::of(node, $what, sink)?;
                let model = Self { $($key: fields.$how($word),)* };
                fields.finish();
                Some(model)
            }
        }
    };
}

pub(crate) use model;

model! {
    /// Loss in a good and a bad state, with tc-netem's letters and defaults.
    Gilbert, "a Gilbert-Elliott model",
    /// From good to bad, at each frame.
    #[schemars(required)]
    required p as "p": Ratio,
    /// From bad to good; 1-p unless given.
    optional r as "r": Ratio,
    /// Loss in the bad state; 100 % unless given.
    optional loss_bad as "1-h": Ratio,
    /// Loss in the good state; 0 % unless given.
    optional loss_good as "1-k": Ratio,
}

model! {
    /// Loss in four states: 1 received, 2 received within a burst, 3 lost within a
    /// burst, 4 lost by itself; tc-netem's defaults.
    Markov, "a four-state model",
    /// Into a burst of losses.
    #[schemars(required)]
    required p13 as "p13": Ratio,
    /// Out of it; 1-p13 unless given.
    optional p31 as "p31": Ratio,
    /// From loss to reception within the burst; 0 % unless given.
    optional p32 as "p32": Ratio,
    /// And back to loss; 100 % unless given.
    optional p23 as "p23": Ratio,
    /// A loss by itself; 0 % unless given.
    optional p14 as "p14": Ratio,
}

model! {
    /// Cells that a link cuts frames into.
    Cells, "cells",
    /// Bytes of the frame in each; the last is filled up.
    #[schemars(required)]
    required size as "size": Bytes,
    /// Bytes of each cell's own header; 0 B unless given.
    optional overhead as "overhead": Bytes,
}

model! {
    /// CoDel, RFC 8289.
    Codel, "CoDel",
    /// The standing delay that is borne; 5 ms unless given.
    optional target as "target": Span,
    /// For how long; 100 ms unless given.
    optional interval as "interval": Span,
}

model! {
    /// Random early detection.
    Red, "RED",
    /// Mean length from which frames are dropped.
    #[schemars(required)]
    required min as "min": Bytes,
    /// Mean length from which all are.
    #[schemars(required)]
    required max as "max": Bytes,
    /// Share dropped just below `max`; 2 % unless given.
    optional probability as "probability": Ratio,
    /// Weight of the present length in the mean; 0.2 % unless given.
    optional weight as "weight": Ratio,
}

model! {
    /// Frames are gathered and leave together.
    Slot, "a slot",
    /// The shortest time from a frame that finds no slot to its slot.
    #[schemars(required)]
    required min as "min": Span,
    /// The longest; `min` unless given.
    optional max as "max": Span,
    /// Frames that leave in one; all unless given.
    optional packets as "packets": u32,
    /// Bytes that leave in one; all unless given.
    optional bytes as "bytes": Bytes,
}

model! {
    /// Times in which nothing is carried: `at` and `lasts`, and `every` for a link
    /// that flaps; or, at random, `mean_up` and `mean_down`.
    Outage, "an outage",
    /// When it begins, from the start of the impairments.
    optional at as "at": Span,
    /// How long it lasts.
    optional lasts as "lasts": Span,
    /// From the beginning of one to that of the next.
    optional every as "every": Span,
    /// Mean time to failure.
    optional mean_up as "mean_up": Span,
    /// Mean time to repair.
    optional mean_down as "mean_down": Span,
}
