//! File format: edges, which are networks of two nodes.

use crate::file::impairment::Impairment;
use crate::file::timetable::Change;
use crate::problem::Problem;
use crate::read::{At, Fields, OneOrMore, Read, Sink};
use crate::subnet::Subnet;
use crate::tree::{Content, Node};
use schemars::JsonSchema;
use units::Bytes;

/// Point-to-point links from node to node, in a row.
#[derive(Debug)]
pub(crate) struct Edge;

/// An edge with more than its ends.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "`edges::expand` has made networks of them; here they are checked")]
pub(crate) struct EdgeKeys {
    /// The nodes at its ends. Each pair in a longer list, one after the other, is an edge. Values:
    /// list of nodes.
    #[schemars(required)]
    between: Option<Vec<At<String>>>,
    /// Impairments of both directions.
    both: Option<Impairment>,
    /// Impairments from the first node to the second; they replace keys of `both`. Default: those
    /// of `both`.
    up: Option<Impairment>,
    /// Impairments from the second node to the first; they replace keys of `both`. Default: those
    /// of `both`.
    down: Option<Impairment>,
    /// Link profile, with the first node as the device. Values: name, or path.
    profile: Option<At<String>>,
    /// MTU. Default: 1500 B.
    mtu: Option<At<Bytes>>,
    /// Subnet of an edge between two nodes. Values: subnet, or a list of one of each family.
    /// Default: the next free /30 of 172.31.0.0/16.
    subnet: Option<At<OneOrMore<At<Subnet>>>>,
    /// Changes during a run, such as `{at: 20 s, down: host}`.
    timetable: Option<Vec<Change>>,
}

impl Read for Edge {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        if let Content::List(_) = node.content {
            let ends: Option<Vec<At<String>>> = Read::read(node, sink);
            check_ends(node, ends.as_deref(), sink);
            return Some(Self);
        }
        let mut fields = Fields::of(node, "an edge: a list of nodes, or", sink)?;
        let keys = EdgeKeys {
            between: fields.required("between"),
            both: fields.optional("both"),
            up: fields.optional("up"),
            down: fields.optional("down"),
            profile: fields.optional("profile"),
            mtu: fields.optional("mtu"),
            subnet: fields.optional("subnet"),
            timetable: fields.optional("timetable"),
        };
        fields.finish();
        check_ends(node, keys.between.as_deref(), sink);
        let is_row = keys.between.as_ref().is_some_and(|ends| ends.len() > 2);
        if let Some(subnet) = keys.subnet.filter(|_| is_row) {
            let problem = Problem::new("one subnet for several edges").at(subnet.place);
            sink.add(problem.label("remove it, or write an edge for each pair"));
        }
        Some(Self)
    }
}

fn check_ends(node: &Node, ends: Option<&[At<String>]>, sink: &mut Sink) {
    let Some(ends) = ends else { return };
    if ends.len() < 2 {
        let problem = Problem::new("an edge has two ends").at(node.place);
        sink.add(problem.label("write for example `[gateway, router]`"));
    }
    for pair in ends.windows(2).filter(|pair| pair[0].value == pair[1].value) {
        let text = format!("an edge from `{}` to itself", pair[1].value);
        sink.add(Problem::new(text).at(pair[1].place).label("use another node"));
    }
}
