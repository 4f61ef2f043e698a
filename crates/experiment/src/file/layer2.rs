//! File format: bridges of nodes and VLANs of networks.

use crate::read::{At, Read, Sink};
use crate::scalar::scalar_is;
use crate::tree::{Content, Node};

/// The networks that nodes join by a bridge.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bridge {
    /// None.
    Off,
    /// All that they are attached to.
    All,
    /// Some of these, by name.
    Of(Vec<At<String>>),
}

impl Read for Bridge {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        if let Content::List(_) = node.content {
            return Vec::read(node, sink).map(Self::Of);
        }
        if let Content::Scalar(text) = &node.content
            && text.parse::<bool>().is_err()
            && !["True", "TRUE", "False", "FALSE"].iter().any(|word| scalar_is(node, word))
        {
            sink.expected("`true`, or a list of networks such as `[left, right]`", node);
            return None;
        }
        bool::read(node, sink).map(|is_one| if is_one { Self::All } else { Self::Off })
    }
}

/// VLANs of a node on a network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Vlans {
    /// One, without tags.
    Access(At<u32>),
    /// Several, with tags.
    Trunk(Vec<At<u32>>),
}

impl Read for Vlans {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        match node.content {
            Content::List(_) => Vec::read(node, sink).map(Self::Trunk),
            Content::Scalar(_) => At::read(node, sink).map(Self::Access),
            _ => {
                sink.expected("a VLAN such as `10`, or the list of a trunk's VLANs", node);
                None
            }
        }
    }
}
