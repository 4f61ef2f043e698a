//! File format: metrics of programs.

use crate::program_metric::Stream;
use crate::read::{At, Fields, Read, Sink};
use crate::scalar::{Word, word};
use crate::tree::Node;
use schemars::JsonSchema;

/// Values in the output of a program. Needs `json` or `match`.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Metric {
    /// Path of keys in the JSON that the program prints, such as `end.sum.bits_per_second`. `*`
    /// stands for all keys or items, a number for an item.
    pub json: Option<At<String>>,
    /// Regular expression for each line of the output. Its group `value`, or else its first group,
    /// is the value; without a group, each match counts as 1.
    #[schemars(rename = "match")]
    pub pattern: Option<At<String>>,
    /// Unit of the values. Values with a group `unit` are converted to it.
    pub unit: Option<At<String>>,
    /// Output to search: `stdout` or `stderr`. Default: `stdout`.
    pub from: Option<At<Stream>>,
    /// Whether a program may print no value. Default: false; then the run is `failed`.
    pub optional: Option<At<bool>>,
}

impl Read for Metric {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a metric", sink)?;
        let metric = Self {
            json: fields.optional("json"),
            pattern: fields.optional("match"),
            unit: fields.optional("unit"),
            from: fields.optional("from"),
            optional: fields.optional("optional"),
        };
        fields.finish();
        Some(metric)
    }
}

impl Word for Stream {
    const WHAT: &'static str = "an output of a program";
    const WORDS: &'static [(&'static str, Self)] =
        &[("stdout", Self::Stdout), ("stderr", Self::Stderr)];
}

impl Read for Stream {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}
