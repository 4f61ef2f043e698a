//! Checks the impairments of a link for contradictions.

use crate::file::{Codel, Impairment, Markov, Outage, Red, Slot};
use crate::plan::PlannedChannel;
use crate::problem::Problem;
use crate::read::{At, Sink};
use crate::source::Place;
use medium::Limit;
use units::{Bytes, Span};

/// What frames of a direction wait for, in addition to the link's own rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelWait {
    /// Nothing.
    No,
    /// A shared channel, which sets the rate.
    Shared,
    /// A shared channel, after the link's own rate.
    Cell,
}

impl ChannelWait {
    /// What frames wait for on a network with this channel.
    pub fn of(channel: &PlannedChannel, up: bool) -> Self {
        match channel {
            PlannedChannel::Shared(_) | PlannedChannel::Csma(_) if up => Self::Shared,
            PlannedChannel::Cell { .. } => Self::Cell,
            _ => Self::No,
        }
    }
}

/// Adds a problem at `place`.
fn report(sink: &mut Sink, place: Place, text: impl Into<String>, label: impl Into<String>) {
    sink.add(Problem::new(text).at(place).label(label));
}

fn some<T: Copy>(at: &Option<At<T>>) -> Option<T> {
    at.as_ref().map(|at| at.value)
}

/// Reports contradictions in one direction.
pub(super) fn check(impairment: &Impairment, wait: ChannelWait, sink: &mut Sink) {
    check_delay(impairment, sink);
    check_loss(impairment, sink);
    check_rate(impairment, wait, sink);
    let pairs = [
        (&impairment.corrupt_correlation, impairment.corrupt.is_some(), "corrupt"),
        (&impairment.duplicate_correlation, impairment.duplicate.is_some(), "duplicate"),
        (&impairment.reorder_correlation, impairment.reorder.is_some(), "reorder"),
        (&impairment.loss_correlation, impairment.loss.is_some(), "loss"),
        (&impairment.correlation, impairment.jitter.is_some(), "jitter"),
    ];
    for (key, has, of) in pairs {
        if let Some(at) = key.as_ref().filter(|_| !has) {
            let text = format!("a correlation of `{of}` without `{of}`");
            report(sink, at.place, text, format!("add `{of}`, or remove this"));
        }
    }
    if let Some(slot) = &impairment.slot {
        check_slot(&slot.value, slot.place, sink);
    }
    for outage in impairment.outage.iter().flat_map(|at| &at.value.0) {
        check_outage(&outage.value, outage.place, sink);
    }
}

fn check_delay(impairment: &Impairment, sink: &mut Sink) {
    let delay = some(&impairment.delay).unwrap_or(Span::ZERO);
    if let Some(jitter) = &impairment.jitter
        && jitter.value > delay
        && !some(&impairment.clip).unwrap_or(false)
    {
        let text = format!(
            "a jitter of {} above the delay of {} makes delays negative",
            jitter.value,
            if delay == Span::ZERO { "0 ms".to_owned() } else { delay.to_string() }
        );
        let label = "write `clip: true` to set negative delays to 0, which makes the mean longer";
        report(sink, jitter.place, text, label);
    }
    if let Some(shape) = impairment.distribution.as_ref().filter(|_| impairment.jitter.is_none()) {
        let label = "add a `jitter`, or remove this";
        report(sink, shape.place, "a distribution of the `jitter` without a `jitter`", label);
    }
    if let Some(reorder) = impairment.reorder.as_ref().filter(|_| delay == Span::ZERO) {
        let text = "`reorder` needs a `delay`: reordered frames are those without delay";
        report(sink, reorder.place, text, "add a `delay`");
    }
    if let Some(gap) = &impairment.gap {
        if gap.value == 0 {
            report(sink, gap.place, "a gap of 0 frames", "use 1 or more; 1 reorders any frame");
        }
        if impairment.reorder.is_none() {
            let label = "add `reorder`, or remove this";
            report(sink, gap.place, "a `gap` of `reorder` without `reorder`", label);
        }
    }
}

fn check_loss(impairment: &Impairment, sink: &mut Sink) {
    let models = [
        ("loss", impairment.loss.as_ref().map(|at| at.place)),
        ("gilbert_elliott", impairment.gilbert_elliott.as_ref().map(|at| at.place)),
        ("markov", impairment.markov.as_ref().map(|at| at.place)),
    ];
    let given: Vec<_> = models.iter().filter_map(|(key, at)| at.map(|at| (*key, at))).collect();
    if let [(first, _), (second, place), ..] = given[..] {
        let text = format!("`{second}` and `{first}` together: a link has only one loss model");
        report(sink, place, text, "remove one of them");
    }
    if let (Some(unit), None, true) = (&impairment.loss_unit, &impairment.loss, given.len() == 1)
        && unit.value != medium::LossUnit::Frame
    {
        let label = "remove this, or use `loss`";
        report(sink, unit.place, "Markov loss models lose single frames only", label);
    }
    if let Some(At { value: Markov { p13, p31, p32, p14, .. }, .. }) = &impairment.markov {
        for (one, other, names) in [(p13, p14, "p13 and p14"), (p31, p32, "p31 and p32")] {
            if let (Some(one), Some(other)) = (one, other)
                && one.value.fraction() + other.value.fraction() > 1.0 + 1e-9
            {
                let text = format!("{names} exceed 100 % together");
                report(sink, other.place, text, "both are transitions from the same state");
            }
        }
    }
}

fn check_rate(impairment: &Impairment, wait: ChannelWait, sink: &mut Sink) {
    let own = [
        ("rate", impairment.rate.as_ref().map(|at| at.place)),
        ("trace", impairment.trace.as_ref().map(|at| at.place)),
        ("grant", impairment.grant.as_ref().map(|at| at.place)),
    ];
    let given: Vec<_> = own.iter().filter_map(|(key, at)| at.map(|at| (*key, at))).collect();
    if let [(first, _), (second, place), ..] = given[..] {
        let text = format!("`{second}` and `{first}` together: only one can schedule the link");
        report(sink, place, text, "remove one of them");
    }
    for (_, place) in given.iter().filter(|_| wait == ChannelWait::Shared) {
        let text = "the rate of a shared channel applies to frames going up";
        report(sink, *place, text, "remove this");
    }
    let rated = !given.is_empty();
    if let Some(burst) = impairment.burst.as_ref().filter(|_| impairment.rate.is_none()) {
        needs_rate("burst", burst.place, sink);
    }
    let waiting = [
        ("overhead", impairment.overhead.as_ref().map(|at| at.place)),
        ("cell", impairment.cell.as_ref().map(|at| at.place)),
        ("queue", impairment.queue.as_ref().map(|at| at.place)),
        ("codel", impairment.codel.as_ref().map(|at| at.place)),
        ("red", impairment.red.as_ref().map(|at| at.place)),
    ];
    for (key, place) in waiting {
        // Frames queue for a channel as they do for a rate.
        if let Some(place) = place.filter(|_| !rated && wait == ChannelWait::No) {
            needs_rate(key, place, sink);
        }
    }
    for (key, place) in &waiting[3..] {
        if let Some(place) = place.filter(|_| impairment.grant.is_some()) {
            let text =
                format!("`{key}` together with `grant`, which sets the send times of frames");
            report(sink, place, text, "remove it; `queue` limits the queue length");
        }
    }
    if let Some(queue) = &impairment.queue
        && matches!(queue.value, Limit::Frames(0) | Limit::Bytes(Bytes::ZERO))
    {
        report(sink, queue.place, "a queue of 0 frames drops all frames", "use 1 or more");
    }
    if let Some(cell) = impairment.cell.as_ref().and_then(|cell| cell.value.size.as_ref())
        && cell.value.get() == 0
    {
        report(sink, cell.place, "cells of 0 B have no room for data", "ATM uses `48 B`");
    }
    check_discipline(impairment, sink);
}

fn check_discipline(impairment: &Impairment, sink: &mut Sink) {
    if let (Some(codel), Some(red)) = (&impairment.codel, &impairment.red) {
        let place = codel.place.max(red.place);
        report(
            sink,
            place,
            "`codel` and `red` together: a queue has only one discipline",
            "remove one of them",
        );
    }
    if let Some(Codel { interval: Some(interval), .. }) =
        impairment.codel.as_ref().map(|at| &at.value)
        && interval.value == Span::ZERO
    {
        let label = "use about the longest round trip; the default is `100 ms`";
        report(sink, interval.place, "an interval of 0", label);
    }
    if let Some(Red { min: Some(min), max: Some(max), weight, .. }) =
        impairment.red.as_ref().map(|at| &at.value)
    {
        if min.value >= max.value {
            let text = format!("`max` of {} is not above `min` of {}", max.value, min.value);
            report(sink, max.place, text, "RED drops frames between the two");
        }
        if let Some(weight) = weight.as_ref().filter(|w| w.value.fraction() == 0.0) {
            report(
                sink,
                weight.place,
                "with a weight of 0 % the mean never changes",
                "write for \
                                                                                  example `0.2 %`",
            );
        }
    }
}

fn check_slot(slot: &Slot, place: Place, sink: &mut Sink) {
    let (min, max) = (some(&slot.min).unwrap_or_default(), some(&slot.max));
    if let Some(at) = slot.max.as_ref().filter(|max| max.value < min) {
        let text = format!("`max` of {} is below `min` of {min}", at.value);
        report(sink, at.place, text, "it is the longest time to the next slot");
    } else if max.unwrap_or(min) == Span::ZERO {
        report(sink, place, "slots with no time between them", "use a `max` above 0");
    }
    if let Some(packets) = slot.packets.as_ref().filter(|packets| packets.value == 0) {
        report(sink, packets.place, "slots that carry no frame", "use 1 or more");
    }
    if let Some(bytes) = slot.bytes.as_ref().filter(|bytes| bytes.value.get() == 0) {
        report(sink, bytes.place, "slots that carry no byte", "write for example `1500 B`");
    }
}

fn check_outage(outage: &Outage, place: Place, sink: &mut Sink) {
    let Outage { at, lasts, every, mean_up, mean_down } = outage;
    let scheduled = [at, lasts, every].into_iter().flatten().next();
    let random = [mean_up, mean_down].into_iter().flatten().next();
    match (scheduled, random) {
        (Some(_), Some(random)) => {
            let text = "an outage is either scheduled or random";
            let label = "use `at`, `lasts` and `every`, or `mean_up` and `mean_down`";
            report(sink, random.place, text, label);
        }
        (None, Some(_)) if mean_up.is_none() || mean_down.is_none() => {
            let text = "a random outage needs both `mean_up` and `mean_down`";
            report(
                sink,
                place,
                text,
                "they are the mean time to failure and the mean time to repair",
            );
        }
        (Some(_), None) if lasts.is_none() || at.is_none() => {
            report(sink, place, "a scheduled outage needs `at` and `lasts`", "add the missing one");
        }
        (None, None) => {
            let label = "use `at` and `lasts`, or `mean_up` and `mean_down`";
            report(sink, place, "an outage without times", label);
        }
        _ => {}
    }
    if let (Some(lasts), Some(every)) = (lasts, every)
        && lasts.value >= every.value
    {
        let text = format!(
            "the outage lasts {} of every {}: the link is never up",
            lasts.value, every.value
        );
        report(sink, every.place, text, "`every` counts from one start to the next");
    }
    for span in [lasts, mean_up, mean_down].into_iter().flatten() {
        if span.value == Span::ZERO {
            report(sink, span.place, "a time of 0", "use more than 0 s");
        }
    }
}

/// Reports a `key` that has no effect without a rate.
fn needs_rate(key: &str, place: Place, sink: &mut Sink) {
    let text = format!("`{key}` without a `rate` has no effect");
    report(sink, place, text, format!("add a `rate`, or remove `{key}`"));
}

/// Reports contradictions in one direction after a change during a run.
pub(crate) fn check_change(complete: &Impairment, wait: ChannelWait, mtu: Bytes, sink: &mut Sink) {
    check(complete, wait, sink);
    check_queue(complete, mtu, sink);
}

/// Reports a queue limit below the longest frame: a packet of `mtu` with its Ethernet header.
pub(super) fn check_queue(impairment: &Impairment, mtu: Bytes, sink: &mut Sink) {
    let longest = mtu.get() + 14;
    if let Some(At { value: Limit::Bytes(bytes), place }) = &impairment.queue
        && (1..longest).contains(&bytes.get())
    {
        let text = format!("a frame of {longest} B does not fit into a queue of {bytes}");
        report(sink, *place, text, format!("use `{longest} B` or more, or a smaller `mtu`"));
    }
}
