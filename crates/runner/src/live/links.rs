//! Links that are looked at and changed while a lab runs.

use super::nodes::find;
use super::{Links, Reply, Request, Shown};
use crate::topology::Topology;
use experiment::{Backend, Plan};
use medium::{Change, Impairment, Place, Remote, Way, monotonic_now};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
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
    plan: Plan,
    /// Node, segment, endpoint.
    links: Vec<(usize, usize, usize)>,
    /// What is asked of links whose impairments are netem's and cannot change.
    fixed: HashMap<(usize, usize), [Impairment; 2]>,
    remote: Remote,
    made: Arc<Mutex<Vec<Made>>>,
}

impl Keeper {
    /// Who answers for this lab.
    pub(super) fn new(
        plan: &Plan,
        topology: &Topology,
        remote: Remote,
        made: Arc<Mutex<Vec<Made>>>,
    ) -> Self {
        let segments = topology.owners.iter().enumerate();
        let links = segments
            .flat_map(|(segment, owners)| {
                let owners = owners.iter().enumerate();
                owners.map(move |(endpoint, node)| (*node, segment, endpoint))
            })
            .collect();
        Self { plan: plan.clone(), links, fixed: fixed(plan, topology), remote, made }
    }

    pub(super) fn answer(&self, request: Request) -> Result<Reply, String> {
        let asked = || self.remote.asked().ok_or("the medium does not answer".to_owned());
        let nodes = match &request {
            Request::Show { nodes } => nodes.clone(),
            Request::Set { links, set, over } => {
                let before = asked()?;
                let found = self.find(links)?;
                if let Some((segment, ..)) = found
                    .iter()
                    .find(|(segment, end, _)| self.fixed.contains_key(&(*segment, *end)))
                {
                    return Err(format!(
                        "the network `{}` has `backend: netem`, which cannot change while it runs; \
                         name another with --network, or take the links down and up",
                        self.plan.networks[*segment].name
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
                for (segment, links) in by_segment(&self.find(links)?) {
                    self.remote.change(segment, Change::Down { links, down: *down });
                }
                links.nodes.clone()
            }
            _ => return Err("not asked of links".to_owned()),
        };
        if !matches!(request, Request::Show { .. }) {
            let made = Made { at_ns: monotonic_now(), request };
            self.made.lock().unwrap_or_else(PoisonError::into_inner).push(made);
        }
        let wanted = match nodes.is_empty() {
            true => (0..self.plan.nodes.len()).collect(),
            false => find(&self.plan, &nodes)?,
        };
        let all = asked()?;
        let own = self.links.iter().filter(|(node, ..)| wanted.contains(node));
        let both = |(node, segment, end): &(usize, usize, usize)| {
            [Way::Up, Way::Down].map(|way| Shown {
                node: self.plan.nodes[*node].name.clone(),
                network: self.plan.networks[*segment].name.clone(),
                way,
                asked: match self.fixed.get(&(*segment, *end)) {
                    Some(ways) => ways[way as usize].clone(),
                    None => all[*segment][*end][way as usize].clone(),
                },
            })
        };
        Ok(Reply::Links(own.flat_map(both).collect()))
    }

    /// The directions that are meant.
    fn find(&self, wanted: &Links) -> Result<Vec<Direction>, String> {
        let nodes = find(&self.plan, &wanted.nodes)?;
        let on = |segment: usize| {
            let network = &self.plan.networks[segment].name;
            wanted.network.as_ref().is_none_or(|want| want == network)
        };
        let mut found = Vec::new();
        for node in nodes {
            let own = self.links.iter().filter(|(owner, ..)| *owner == node);
            let (meant, others): (Vec<_>, Vec<_>) = own.partition(|(_, segment, _)| on(*segment));
            if let (true, Some(network)) = (meant.is_empty(), &wanted.network) {
                let others = others.iter().map(|(_, segment, _)| *segment);
                let others: Vec<_> =
                    others.map(|segment| self.plan.networks[segment].name.as_str()).collect();
                let name = &self.plan.nodes[node].name;
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
}

/// What is asked of links whose impairments are netem's.
fn fixed(plan: &Plan, topology: &Topology) -> HashMap<(usize, usize), [Impairment; 2]> {
    let links = plan.nodes.iter().flat_map(|node| &node.links).zip(&topology.places);
    let by_netem = |place: &Place| plan.networks[place.segment].backend == Backend::Netem;
    links
        .filter(|(_, place)| by_netem(place))
        .map(|(link, place)| {
            ((place.segment, place.endpoint), [link.up.clone(), link.down.clone()])
        })
        .collect()
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
