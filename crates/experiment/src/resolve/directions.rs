//! The two directions of a link.

use crate::file::{Channel, Impairment, Link};
use crate::read::{Named, Sink};
use link::ChannelWait;
use std::path::Path;

/// Checks and converts one direction of a link on `channel`.
pub(crate) fn direction(
    asked: &Impairment,
    channel: Option<&Channel>,
    up: bool,
    base: &Path,
    sink: &mut Sink,
) -> link::Impairment {
    asked.check(channel_wait(channel, up), sink);
    asked.resolve(base, sink)
}

/// The directions with impairments: group, impairment, and whether it is up.
pub(super) fn directions(
    links: Option<&Named<Link>>,
) -> impl Iterator<Item = (&str, &Impairment, bool)> {
    links.into_iter().flat_map(Named::iter).flat_map(|(group, _, link)| {
        let directions = [(link.up.as_ref(), true), (link.down.as_ref(), false)];
        directions.into_iter().filter_map(move |(way, up)| Some((group, way?, up)))
    })
}

/// What frames of a direction wait for.
pub(super) fn channel_wait(channel: Option<&Channel>, up: bool) -> ChannelWait {
    match channel {
        Some(Channel::Shared(_) | Channel::Csma(_) | Channel::Wifi(_)) if up => ChannelWait::Shared,
        Some(Channel::Cell(_)) => ChannelWait::Cell,
        _ => ChannelWait::No,
    }
}
