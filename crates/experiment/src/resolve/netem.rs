//! Reports features that the kernel's netem does not support.

use crate::file::{Change, Channel, Impairment, Link};
use crate::problem::Problem;
use crate::read::{At, Named, Sink};
use crate::resolve::networks::directions;
use crate::source::Place;
use medium::{Limit, LossUnit};
use units::Span;

/// Maximum jitter; the kernel truncates larger values silently.
const MAX_JITTER: Span = Span::from_ns(i32::MAX as u64);
/// Minimum rate, bit/s: netem counts whole bytes per second.
const MIN_RATE: u64 = 8;

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
        for (place, what, fix) in unsupported(way) {
            report(place, what, fix);
        }
    }
    for entry in entries {
        if let Some(at) = entry.at.as_ref().filter(|_| entry.set.is_some()) {
            let fix = "use `down`, `partition` or `multicast`; remove `set`";
            report(at.place, "impairments that change during a run", fix);
        }
    }
}

/// Features that netem does not support in one direction: position, feature, fix.
fn unsupported(impairment: &Impairment) -> Vec<(Place, &'static str, &'static str)> {
    let mut found = Vec::new();
    let mut look = |place: Option<Place>, what, fix| {
        found.extend(place.map(|place| (place, what, fix)));
    };
    fn at<T>(impairment: &Option<At<T>>, is: impl Fn(&T) -> bool) -> Option<Place> {
        impairment.as_ref().filter(|at| is(&at.value)).map(|at| at.place)
    }
    let out = "remove this";
    let jitter = at(&impairment.jitter, |jitter| *jitter > MAX_JITTER);
    look(jitter, "a jitter above 2147 ms", "use a shorter one");
    look(at(&impairment.keep_order, |keep| *keep), "`keep_order` with jitter", out);
    let unit = at(&impairment.loss_unit, |unit| *unit != LossUnit::Frame);
    look(unit, "loss of more than single frames", "use `frame`");
    let rate = at(&impairment.rate, |rate| rate.bit_s() < MIN_RATE);
    look(rate, "a rate below 8 bit/s", "use a higher one");
    look(at(&impairment.burst, |burst| burst.get() > 0), "a burst above the rate", out);
    look(at(&impairment.trace, |_| true), "a recorded trace", out);
    look(at(&impairment.grant, |_| true), "grants", out);
    let bytes = at(&impairment.queue, |limit| matches!(limit, Limit::Bytes(_)));
    look(bytes, "a queue in bytes", "use a number of frames");
    look(at(&impairment.codel, |_| true), "CoDel", out);
    look(at(&impairment.red, |_| true), "RED", out);
    let outage = at(&impairment.outage, |_| true);
    look(outage, "outages of a link", "use a `timetable` with `down`");
    found
}
