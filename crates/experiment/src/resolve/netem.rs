//! Reports features that the kernel's netem does not support.

use crate::file::{Change, Channel, Link};
use crate::problem::Problem;
use crate::read::{At, Named, Sink};
use crate::resolve::directions::directions;
use crate::source::Place;

/// Reports what a network with `backend: netem` does not support.
pub(super) fn check<'e>(
    (name, entries): (&str, impl Iterator<Item = &'e Change>),
    channel: Option<&At<Channel>>,
    links: Option<&Named<Link>>,
    sink: &mut Sink,
) {
    let mut report = |place: Place, what: &str, why: &str| {
        let text = format!("netem does not support this on the network `{name}`: {what}");
        let label = format!("{why}, or remove `backend: netem`");
        sink.add(Problem::new(text).at(place).label(label));
    };
    if let Some(channel) = channel.filter(|at| !matches!(at.value, Channel::Switch)) {
        report(channel.place, "links that share a channel", "use `switch`");
    }
    for (_, _, link) in links.into_iter().flat_map(Named::iter) {
        if let Some(states) = &link.states {
            report(states.place, "a radio's states", "remove this");
        }
    }
    for (_, way, _) in directions(links) {
        for found in link::Impairment::check_netem(&way.keys).0 {
            report(way.place(&found.at), &found.text, &found.fix);
        }
    }
    for entry in entries {
        if let Some(at) = entry.at.as_ref().filter(|_| entry.set.is_some()) {
            // netem would lose the state of its loss model, and its counts before and after the
            // change could not be separated (decision 16).
            let fix = "use `down`, `partition` or `multicast`; remove `set`";
            report(at.place, "impairments that change during a run", fix);
        }
    }
}
