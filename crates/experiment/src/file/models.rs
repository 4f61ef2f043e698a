//! File format: models of links with parameters.

use crate::read::{At, Fields, Read, Sink};
use crate::scalar::{Word, word};
use crate::tree::{Content, Node};
use schemars::JsonSchema;
use units::{Bytes, Ratio, Span};

/// Distribution of a delay's jitter.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(rename_all = "snake_case", rename = "Distribution")]
pub(crate) enum Shape {
    /// Uniform within delay ± jitter.
    Uniform,
    /// Normal, with the jitter as standard deviation.
    Normal,
    /// tc-netem's Pareto.
    Pareto,
    /// tc-netem's mixture of normal and Pareto.
    #[schemars(rename = "paretonormal")]
    ParetoNormal,
    /// A table from a file in iproute2's `.dist` format.
    Table(#[schemars(with = "String")] At<String>),
}

/// The distributions that are a single word.
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

/// Declares a map of keys, each optional or required, and its reader.
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
    /// Gilbert-Elliott loss: a good and a bad state, with tc-netem's letters and defaults.
    Gilbert, "a Gilbert-Elliott model",
    /// Probability per frame of good to bad.
    #[schemars(required)]
    required p as "p": Ratio,
    /// Probability per frame of bad to good. Default: 1-p.
    optional r as "r": Ratio,
    /// Loss in the bad state. Default: 100 %.
    optional loss_bad as "1-h": Ratio,
    /// Loss in the good state. Default: 0 %.
    optional loss_good as "1-k": Ratio,
}

model! {
    /// Four-state Markov loss: 1 received, 2 received within a burst, 3 lost within a burst, 4
    /// isolated loss. Defaults are tc-netem's.
    Markov, "a four-state model",
    /// Probability of entering a burst of losses.
    #[schemars(required)]
    required p13 as "p13": Ratio,
    /// Probability of leaving it. Default: 1-p13.
    optional p31 as "p31": Ratio,
    /// Probability of a reception within the burst after a loss. Default: 0 %.
    optional p32 as "p32": Ratio,
    /// Probability of a loss after such a reception. Default: 100 %.
    optional p23 as "p23": Ratio,
    /// Probability of an isolated loss. Default: 0 %.
    optional p14 as "p14": Ratio,
}

model! {
    /// Cells that a link splits frames into.
    Cells, "cells",
    /// Bytes of the frame in each cell; the last cell is padded.
    #[schemars(required)]
    required size as "size": Bytes,
    /// Bytes of each cell's header. Default: 0 B.
    optional overhead as "overhead": Bytes,
}

model! {
    /// CoDel queue management (RFC 8289).
    Codel, "CoDel",
    /// Acceptable standing delay. Default: 5 ms.
    optional target as "target": Span,
    /// Time above the target before drops start. Default: 100 ms.
    optional interval as "interval": Span,
}

model! {
    /// Random early detection.
    Red, "RED",
    /// Mean queue length from which frames are dropped.
    #[schemars(required)]
    required min as "min": Bytes,
    /// Mean queue length from which all frames are dropped.
    #[schemars(required)]
    required max as "max": Bytes,
    /// Drop probability just below `max`. Default: 2 %.
    optional probability as "probability": Ratio,
    /// Weight of the current queue length in the mean. Default: 0.2 %.
    optional weight as "weight": Ratio,
}

model! {
    /// Slots: frames are collected and sent together.
    Slot, "a slot",
    /// Minimum time from the first waiting frame to its slot.
    #[schemars(required)]
    required min as "min": Span,
    /// Maximum time. Default: `min`.
    optional max as "max": Span,
    /// Maximum frames per slot. Default: all.
    optional packets as "packets": u32,
    /// Maximum bytes per slot. Default: all.
    optional bytes as "bytes": Bytes,
}

model! {
    /// Outages: scheduled by `at` and `lasts`, repeated with `every` for a flapping link; or random
    /// by `mean_up` and `mean_down`.
    Outage, "an outage",
    /// Start of the outage, from the start of the impairments.
    optional at as "at": Span,
    /// Duration of the outage.
    optional lasts as "lasts": Span,
    /// Time from the start of one outage to the start of the next.
    optional every as "every": Span,
    /// Mean time to failure.
    optional mean_up as "mean_up": Span,
    /// Mean time to repair.
    optional mean_down as "mean_down": Span,
}
