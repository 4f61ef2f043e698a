//! Losses of links with the same configuration, together.

use crate::links::LinkRow;
use crate::tolerance::{Deviation, Tolerances, chain, has_clear_loss};
use link::Impairment;
use std::collections::HashMap;
use std::sync::Arc;

/// Groups of links with the same configuration, network and direction, interval by interval. Their
/// total loss shows deviations that single intervals of a few frames cannot show. Loss models with
/// states are left out, because their intervals depend on each other.
#[derive(Debug, Default)]
pub struct LossGroups {
    /// The sum over each group, with the names of its first link, and its number of intervals.
    groups: Vec<(LinkRow, u64)>,
    /// The group of a configuration, by its place in memory, which remains its own because it is
    /// kept alive here.
    places: HashMap<usize, Vec<Place>>,
}

#[derive(Debug)]
struct Place {
    network: String,
    direction: &'static str,
    group: usize,
    _configured: Arc<Impairment>,
}

impl LossGroups {
    /// Adds an interval.
    pub fn add(&mut self, row: &LinkRow) {
        if row.changing || !has_clear_loss(row) || chain(&row.configured).is_some() {
            return;
        }
        let group = self.group(row);
        let (sum, parts) = &mut self.groups[group];
        sum.measured.frames += row.measured.frames;
        sum.measured.bytes += row.measured.bytes;
        sum.measured.passed += row.measured.passed;
        sum.measured.lost += row.measured.lost;
        sum.start_s = sum.start_s.min(row.start_s);
        sum.end_s = sum.end_s.max(row.end_s);
        *parts += 1;
    }

    fn group(&mut self, row: &LinkRow) -> usize {
        let key = Arc::as_ptr(&row.configured) as usize;
        let own =
            |place: &&Place| (&place.network, place.direction) == (&row.network, row.direction);
        if let Some(place) = self.places.get(&key).and_then(|places| places.iter().find(own)) {
            return place.group;
        }
        // The same configuration may exist in several places in memory.
        let same = |(first, _): &(LinkRow, u64)| {
            (&first.network, first.direction) == (&row.network, row.direction)
                && first.configured == row.configured
        };
        let group = self.groups.iter().position(same).unwrap_or_else(|| {
            self.groups.push((LinkRow { measured: link::Totals::default(), ..row.clone() }, 0));
            self.groups.len() - 1
        });
        let (network, direction) = (row.network.clone(), row.direction);
        let place = Place { network, direction, group, _configured: row.configured.clone() };
        self.places.entry(key).or_default().push(place);
        group
    }

    /// The groups of several intervals whose total loss deviates more than chance allows.
    pub fn deviations(&self, tolerances: &Tolerances) -> Vec<Deviation> {
        // A group of one interval was tested as that interval already.
        let several = self.groups.iter().filter(|(_, parts)| *parts > 1);
        let off = several.filter(|(sum, _)| !tolerances.is_likely_loss(sum));
        off.map(|(sum, _)| Deviation {
            link: format!(
                "all links of {} configured as {} {}",
                sum.network, sum.node, sum.direction
            ),
            from_s: sum.start_s,
            to_s: sum.end_s,
            quantity: "loss",
            configured: sum.loss_configured_pct(),
            measured: sum.loss_measured_pct(),
            tolerance: tolerances.loss_pct(sum),
            unit: "%",
        })
        .collect()
    }
}

impl Tolerances {
    /// The deviations of groups of links.
    pub fn group_deviations(&self, intervals: &[LinkRow]) -> Vec<Deviation> {
        let mut groups = LossGroups::default();
        intervals.iter().for_each(|row| groups.add(row));
        groups.deviations(self)
    }
}
