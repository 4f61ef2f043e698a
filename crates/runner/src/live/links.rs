//! Links that are looked at and changed while a lab runs.

use super::roll::{Roll, Shared};
use super::{Links, Reply, Request, Shown};
use crate::capture::some;
use measure::Accounting;
use medium::{Change, Remote, Way, monotonic_now};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A change that was made, for the run's record.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Made {
    #[serde(skip)]
    pub at_ns: u64,
    pub request: Request,
}

/// Who answers at the door.
pub(super) struct Keeper {
    pub roll: Shared,
    pub remote: Remote<Accounting>,
    made: Arc<Mutex<Vec<Made>>>,
}

impl Keeper {
    /// Who answers for this lab.
    pub(super) fn new(
        roll: Shared,
        remote: Remote<Accounting>,
        made: Arc<Mutex<Vec<Made>>>,
    ) -> Self {
        Self { roll, remote, made }
    }

    pub(super) fn answer(&self, request: Request) -> Result<Reply, String> {
        let roll = self.roll.lock();
        let asked = || self.remote.asked().ok_or("the medium does not answer".to_owned());
        let nodes = match &request {
            Request::Show { nodes } => nodes.clone(),
            Request::Set { links, set, over } => {
                let before = asked()?;
                let found = find(&roll, links)?;
                if let Some((segment, ..)) = found
                    .iter()
                    .find(|(segment, end, _)| roll.fixed.contains_key(&(*segment, *end)))
                {
                    return Err(format!(
                        "the network `{}` has `backend: netem`, which cannot change while it runs; \
                         name another with --network, or take the links down and up",
                        roll.plan.networks[*segment].name
                    ));
                }
                // All of them or none.
                for (segment, end, way) in &found {
                    set.on(&before[*segment][*end][*way as usize])?;
                }
                for (segment, links) in by_segment(&found) {
                    let (set, over) = (set.clone(), *over);
                    self.remote.change(segment, Change::Set { links, set, over });
                }
                links.nodes.clone()
            }
            Request::Down { links, down } => {
                for (segment, links) in by_segment(&find(&roll, links)?) {
                    self.remote.change(segment, Change::Down { links, down: *down });
                }
                links.nodes.clone()
            }
            _ => return Err("not asked of links".to_owned()),
        };
        if !matches!(request, Request::Show { .. }) {
            let does = match &request {
                Request::Down { down: true, .. } => "down",
                Request::Down { .. } => "up",
                _ => "changed",
            };
            let text = format!("links of {} {does} by hand", some(&nodes));
            self.remote.with_observer(move |accounting: &mut Accounting| accounting.note(&text));
            let made = Made { at_ns: monotonic_now(), request };
            self.made.lock().unwrap_or_else(PoisonError::into_inner).push(made);
        }
        let wanted = match nodes.is_empty() {
            true => (0..roll.plan.nodes.len()).collect(),
            false => roll.find(&nodes)?,
        };
        let all = asked()?;
        let own: Vec<_> = roll.links().filter(|(node, ..)| wanted.contains(node)).collect();
        let both = |(node, segment, end): &(usize, usize, usize)| {
            [Way::Up, Way::Down].map(|way| Shown {
                node: roll.plan.nodes[*node].name.clone(),
                network: roll.plan.networks[*segment].name.clone(),
                way,
                asked: match roll.fixed.get(&(*segment, *end)) {
                    Some(ways) => ways[way as usize].clone(),
                    None => all[*segment][*end][way as usize].clone(),
                },
            })
        };
        Ok(Reply::Links(own.iter().flat_map(both).collect()))
    }
}

/// The directions that are meant.
fn find(roll: &Roll, wanted: &Links) -> Result<Vec<Direction>, String> {
    let on = |segment: usize| {
        let network = &roll.plan.networks[segment].name;
        wanted.network.as_ref().is_none_or(|want| want == network)
    };
    let mut found = Vec::new();
    for node in roll.find(&wanted.nodes)? {
        let own = roll.links().filter(|(owner, ..)| *owner == node);
        let (meant, others): (Vec<_>, Vec<_>) = own.partition(|(_, segment, _)| on(*segment));
        if let (true, Some(network)) = (meant.is_empty(), &wanted.network) {
            let others = others.iter().map(|(_, segment, _)| *segment);
            let others: Vec<_> =
                others.map(|segment| roll.plan.networks[segment].name.as_str()).collect();
            let name = &roll.plan.nodes[node].name;
            return Err(format!(
                "`{name}` is not on a network `{network}`; it is on {}",
                if others.is_empty() { "none".to_owned() } else { others.join(", ") }
            ));
        }
        for (_, segment, end) in meant {
            let ways = [Way::Up, Way::Down].into_iter();
            let ways = ways.filter(|way| wanted.way.is_none_or(|want| want == *way));
            found.extend(ways.map(|way| (segment, end, way)));
        }
    }
    Ok(found)
}

/// A direction: segment, endpoint, way.
type Direction = (usize, usize, Way);

fn by_segment(found: &[Direction]) -> BTreeMap<usize, Vec<(usize, Way)>> {
    let mut by: BTreeMap<usize, Vec<(usize, Way)>> = BTreeMap::new();
    for (segment, end, way) in found {
        by.entry(*segment).or_default().push((*end, *way));
    }
    by
}
