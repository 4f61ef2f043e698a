//! File format: routes of a group of nodes.

use crate::read::{At, Named, Read, Sink};
use crate::scalar::scalar_is;
use crate::tree::Node;

/// Routes of a group's nodes.
#[derive(Debug, Clone)]
pub(crate) enum Routes {
    /// No routes, except those of the node's interfaces.
    None,
    /// Next hops by destination, in addition to the plan's routes.
    Via(Named<At<String>>),
}

impl PartialEq for Routes {
    /// Next hops by destination are never compared.
    fn eq(&self, other: &Self) -> bool {
        matches!((self, other), (Self::None, Self::None))
    }
}

impl Read for Routes {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        match scalar_is(node, "none") {
            true => Some(Self::None),
            false => Named::read(node, sink).map(Self::Via),
        }
    }
}
