//! Configured and measured impairments of each link direction, as table rows.

use crate::bed::Topology;
use crate::bed::netem::Done;
use engine::{LinkInterval, Place};
use experiment::Plan;
use link::{Carried, Channel, Direction, Totals};
use measure::{Intervals, LinkRow};
use std::io;
use units::Instant;

/// The directions of all links.
pub(crate) struct LinkRows {
    /// The rows of the whole run, by segment, endpoint and direction.
    whole: Vec<Vec<[LinkRow; 2]>>,
    intervals: Intervals,
    /// Rows of links that netem impairs, in place of their intervals.
    by_netem: Vec<LinkRow>,
    start: Instant,
}

impl LinkRows {
    /// The rows of a run.
    ///
    /// # Errors
    /// When the intervals cannot be read.
    pub fn of(
        plan: &Plan,
        topology: &Topology,
        totals: &[Vec<[Totals; 2]>],
        intervals: Intervals,
        start: Instant,
    ) -> io::Result<Self> {
        let segments = topology.segments.iter().enumerate().map(|(segment, spec)| {
            // The loss of a packet in fragments is not that of its frames, either.
            let retries = match &spec.channel {
                Channel::Csma(csma) => csma.retries > 0 || csma.carries == Carried::Lowpan,
                Channel::Wifi(wifi) => wifi.retries > 0,
                _ => false,
            };
            let ends = spec.endpoints.iter().enumerate().map(|(endpoint, link)| {
                let name = &topology.names[segment][endpoint];
                let (node, interface) = name.split_once(':').unwrap_or((name, ""));
                [(0, &link.up, "up"), (1, &link.down, "down")].map(|(way, asked, direction)| {
                    LinkRow {
                        node: node.to_owned(),
                        interface: interface.to_owned(),
                        network: plan.networks[segment].name.clone(),
                        direction,
                        start_s: 0.0,
                        end_s: 0.0,
                        configured: asked.clone().into(),
                        changing: false,
                        measured: totals[segment][endpoint][way],
                        by_netem: false,
                        sends_again: direction == "up" && retries,
                    }
                })
            });
            ends.collect()
        });
        let whole = segments.collect();
        let mut rows = Self { whole, intervals, by_netem: Vec::new(), start };
        rows.span()?;
        Ok(rows)
    }

    /// Sets begin and end of each direction, and whether its configuration changed.
    fn span(&mut self) -> io::Result<()> {
        for part in self.intervals.iter() {
            let LinkInterval { place, direction, interval } = part?;
            let (from, to) = (self.since(interval.from), self.since(interval.to));
            let Some(row) = row_of(&mut self.whole, place, direction) else { continue };
            // The first interval of this direction: both are 0 until then.
            if row.end_s <= row.start_s {
                row.start_s = from;
            }
            row.end_s = to;
            row.changing |= interval.changing || *interval.configured != *row.configured;
        }
        Ok(())
    }

    fn since(&self, at: Instant) -> f64 {
        at.seconds_from(self.start)
    }

    /// The rows of the whole run.
    pub fn whole(&self) -> Vec<LinkRow> {
        self.whole.iter().flatten().flatten().cloned().collect()
    }

    /// A row for each interval, in order of time.
    pub fn intervals(&self) -> impl Iterator<Item = io::Result<LinkRow>> + '_ {
        let rows = self.intervals.iter().filter_map(|part| match part {
            Ok(part) => self.interval(&part).map(Ok),
            Err(error) => Some(Err(error)),
        });
        rows.chain(self.by_netem.iter().cloned().map(Ok))
    }

    fn interval(
        &self,
        LinkInterval { place, direction, interval }: &LinkInterval,
    ) -> Option<LinkRow> {
        let way = usize::from(*direction == Direction::Down);
        let row = &self.whole.get(place.segment)?.get(place.endpoint)?[way];
        (!row.by_netem).then(|| LinkRow {
            start_s: self.since(interval.from),
            end_s: self.since(interval.to),
            configured: interval.configured.clone(),
            changing: interval.changing,
            measured: interval.measured,
            ..row.clone()
        })
    }

    /// Replaces the rows of links that netem impairs, where the medium only forwards frames, by
    /// rows from netem's own counters for the whole run.
    pub fn with_netem(mut self, done: &[Done]) -> Self {
        for done in done {
            let direction = match done.way {
                lab::Direction::Up => Direction::Up,
                lab::Direction::Down => Direction::Down,
            };
            let Some(row) = row_of(&mut self.whole, done.place, direction) else { continue };
            let (passed, outage, rejected) =
                (done.passed, row.measured.outage, row.measured.rejected);
            // Netem does not separate random loss from overflow.
            let (lost, overflow) = match done.configured.mean_loss() > 0.0 {
                true => (passed.dropped, 0),
                false => (0, passed.dropped),
            };
            row.measured = Totals {
                frames: passed.frames + passed.dropped + outage,
                bytes: passed.bytes,
                passed: passed.frames,
                lost,
                overflow,
                outage,
                rejected,
                ..Totals::default()
            };
            row.configured = done.configured.clone();
            // Counters of super-frames cannot be compared with the configuration.
            row.changing = !done.counted;
            row.by_netem = true;
            self.by_netem.push(row.clone());
        }
        self
    }
}

fn row_of(
    whole: &mut [Vec<[LinkRow; 2]>],
    place: Place,
    direction: Direction,
) -> Option<&mut LinkRow> {
    let way = usize::from(direction == Direction::Down);
    whole.get_mut(place.segment)?.get_mut(place.endpoint)?.get_mut(way)
}

#[cfg(test)]
#[path = "link_rows_tests.rs"]
mod tests;
