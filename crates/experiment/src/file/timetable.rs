//! File format: changes on a network during a run.

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
pub(crate) struct Change {
    /// Time of the change, from the start of the impairments.
    #[schemars(required)]
    pub at: Option<At<Span>>,
    /// Links to change. Required with `set`. Values: group or node, or a list of these.
    pub links: Option<At<Names>>,
    /// Direction of the links. Default: `both`.
    pub way: Option<At<Directions>>,
    /// New values of impairments; other keys stay as they are.
    pub set: Option<Impairment>,
    /// Ramp: quantities change linearly from `at` for this time. Default: at once.
    pub over: Option<At<Span>>,
    /// Links that carry nothing. Values: group or node, or a list of these.
    pub down: Option<At<Names>>,
    /// Parts of the network; frames pass only within a part. All nodes that are not listed form
    /// another part. Values: list of parts; a part is a group, a node or a list of these.
    pub partition: Option<At<Vec<At<Names>>>>,
    /// Whether the network forwards multicast. `false` drops it, like a switch or an access point
    /// that blocks it; link-local groups (224.0.0.0/24) and broadcast still pass. Default: true.
    pub multicast: Option<At<bool>>,
    /// Duration of `down`, `partition` or `multicast: false`. Default: to the end.
    pub lasts: Option<At<Span>>,
}

impl Read for Change {
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

/// One direction of a link, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directions {
    Up,
    Down,
    Both,
}

impl Word for Directions {
    const WHAT: &'static str = "a direction";
    const WORDS: &'static [(&'static str, Self)] =
        &[("up", Self::Up), ("down", Self::Down), ("both", Self::Both)];
}

impl Read for Directions {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}
