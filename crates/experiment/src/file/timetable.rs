//! What changes on a network while it runs, as typed.

use crate::file::Impairment;
use crate::read::{At, Fields, OneOrMore, Read, Sink};
use crate::scalar::{Word, word};
use crate::tree::Node;
use schemars::JsonSchema;
use units::Span;

/// Groups or nodes.
pub(crate) type Names = OneOrMore<At<String>>;

/// One change: `set` with `links`, or `down`, `partition` or `multicast`.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Change")]
pub(crate) struct Entry {
    /// When, from the start of the impairments.
    #[schemars(required)]
    pub at: Option<At<Span>>,
    /// Groups or nodes whose links change.
    pub links: Option<At<Names>>,
    /// Which way; both unless given.
    pub way: Option<At<Ways>>,
    /// What is different from then on; keys that are not named stay.
    pub set: Option<Impairment>,
    /// From `at` until the change is whole, on a straight line; at once unless
    /// given.
    pub over: Option<At<Span>>,
    /// Groups or nodes whose links carry nothing.
    pub down: Option<At<Names>>,
    /// Parts, each a list of groups and nodes: frames pass within a part only. All
    /// that are not named are one more part.
    pub partition: Option<At<Vec<At<Names>>>>,
    /// Whether multicast is passed on: `false` holds it back.
    pub multicast: Option<At<bool>>,
    /// How long `down`, `partition` or `multicast: false` lasts; to the end unless given.
    pub lasts: Option<At<Span>>,
}

impl Read for Entry {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a change", sink)?;
        let entry = Self {
            at: fields.required("at"),
            links: fields.optional("links"),
            way: fields.optional("way"),
            set: fields.optional("set"),
            over: fields.optional("over"),
            down: fields.optional("down"),
            partition: fields.optional("partition"),
            multicast: fields.optional("multicast"),
            lasts: fields.optional("lasts"),
        };
        fields.finish();
        Some(entry)
    }
}

/// One way of a link, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ways {
    Up,
    Down,
    Both,
}

impl Word for Ways {
    const WHAT: &'static str = "a way";
    const WORDS: &'static [(&'static str, Self)] =
        &[("up", Self::Up), ("down", Self::Down), ("both", Self::Both)];
}

impl Read for Ways {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}
