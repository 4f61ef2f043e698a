//! Checks the links of networks and profiles.

use crate::file::{Channel, Link};
use crate::read::{At, Named, Sink};
use crate::resolve::directions::{channel_wait, directions};
use crate::resolve::nodes::Nodes;
use std::path::Path;

/// Checks that links belong to existing groups, even in an unused profile: a typo would mean an
/// unimpaired link.
pub(super) fn check(
    channel: Option<&Channel>,
    links: Option<&Named<Link>>,
    nodes: &Nodes<'_>,
    base: &Path,
    sink: &mut Sink,
) {
    for (group, place, _) in links.into_iter().flat_map(Named::iter) {
        if !nodes.has(group) {
            let name = At { value: group.to_owned(), place };
            nodes.report_unknown(&name, sink);
        }
    }
    for (_, way, up) in directions(links) {
        way.check(channel_wait(channel, up), sink);
        way.resolve(base, sink);
    }
}
