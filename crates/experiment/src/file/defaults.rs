//! File format: default values of groups and links.

use crate::file::{Group, Link};
use crate::read::{Fields, Read, Sink};
use crate::tree::Node;
use schemars::JsonSchema;

/// Values for groups of nodes and links that lack them.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "`defaults::expand` has filled the values in; here they are checked")]
pub(crate) struct Defaults {
    /// Keys of a group. Each group without the key gets it, except real hardware (`external`); the
    /// entries of `limits`, `reserve`, `env` and `metrics` are filled in one by one.
    pub nodes: Option<Group>,
    /// Impairments of each link, in each direction, on networks without a profile.
    pub links: Option<Link>,
}

impl Read for Defaults {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "defaults", sink)?;
        let defaults = Self { nodes: fields.optional("nodes"), links: fields.optional("links") };
        fields.finish();
        Some(defaults)
    }
}
