//! File format: positions of nodes.

use crate::problem::Problem;
use crate::read::{At, Read, Sink};
use crate::tree::{Content, Node};
use link::NodePosition;
use units::Distance;

/// Positions of a group's nodes, in their order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Positions(pub Vec<NodePosition>);

impl Read for Positions {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let Content::List(items) = &node.content else {
            sink.expected("a position such as `[0 m, 30 m]`, or a list of positions", node);
            return None;
        };
        let is_one = items.iter().any(|item| matches!(item.content, Content::Scalar(_)));
        let nodes = if is_one { std::slice::from_ref(node) } else { items };
        let read: Vec<_> = nodes.iter().filter_map(|node| position(node, sink)).collect();
        (read.len() == nodes.len()).then_some(Self(read))
    }
}

fn position(node: &Node, sink: &mut Sink) -> Option<NodePosition> {
    let given = Vec::<At<Distance>>::read(node, sink)?;
    let is_whole = matches!(&node.content, Content::List(items) if items.len() == given.len());
    match given[..] {
        [At { value: x, .. }, At { value: y, .. }] => return Some(NodePosition { x, y }),
        // An unreadable coordinate was reported.
        _ if !is_whole => {}
        _ => {
            let text = format!("a position has 2 coordinates, not {}", given.len());
            sink.add(Problem::new(text).at(node.place).label("write for example `[0 m, 30 m]`"));
        }
    }
    None
}
