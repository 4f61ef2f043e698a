//! The inventory of a running lab's nodes and links, which may grow.

use crate::bed::topology::Topology;
use engine::Place;
use experiment::{Backend, Plan};
use link::Impairment;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The nodes and links of a lab, by the numbers that lab and medium use.
#[derive(Debug)]
pub(crate) struct Inventory {
    pub plan: Plan,
    /// The node at each endpoint of each segment.
    pub owners: Vec<Vec<usize>>,
    /// The `node:interface` at each endpoint.
    pub names: Vec<Vec<String>>,
    /// The configuration of links that netem impairs, which cannot change.
    pub fixed: HashMap<(usize, usize), [Impairment; 2]>,
    /// Nodes that were destroyed or have ended. They keep their index in `plan`, because lab and
    /// medium number nodes by it.
    pub gone: HashSet<usize>,
}

/// An inventory shared by the control socket and the lab's own thread.
#[derive(Debug, Clone)]
pub(crate) struct Shared(Arc<Mutex<Inventory>>);

impl Inventory {
    /// The inventory of a lab at its start.
    pub(crate) fn of(plan: &Plan, topology: &Topology) -> Shared {
        let (owners, names) = (topology.owners.clone(), topology.names.clone());
        let inventory = Self {
            plan: plan.clone(),
            owners,
            names,
            fixed: fixed(plan, topology),
            gone: HashSet::new(),
        };
        Shared(Arc::new(Mutex::new(inventory)))
    }

    /// All links: node, segment, endpoint.
    pub(crate) fn links(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        self.owners.iter().enumerate().flat_map(|(segment, owners)| {
            let owners = owners.iter().enumerate();
            owners.map(move |(endpoint, node)| (*node, segment, endpoint))
        })
    }

    /// The links of a node.
    pub(crate) fn places(&self, node: usize) -> Vec<Place> {
        let own = self.links().filter(|(owner, ..)| *owner == node);
        own.map(|(_, segment, endpoint)| Place { segment, endpoint }).collect()
    }

    /// The nodes that exist now.
    pub(crate) fn present(&self) -> impl Iterator<Item = usize> {
        (0..self.plan.nodes.len()).filter(|node| !self.gone.contains(node))
    }

    /// The nodes that names, groups and patterns select, each once. A node's name selects that
    /// node, even if it was cloned and the name is also a group's. Groups skip nodes that are gone;
    /// the name of such a node is an error, because a command must not be silently ignored.
    pub(crate) fn find(&self, which: &[String]) -> Result<Vec<usize>, String> {
        let nodes = || self.plan.nodes.iter().enumerate();
        let mut found = Vec::new();
        for text in which {
            let pattern = glob::Pattern::new(text)
                .map_err(|error| format!("`{text}` is not a pattern: {error}"))?;
            let mut selected: Vec<usize> = match nodes().find(|(_, node)| node.name == *text) {
                Some((index, _)) => vec![index],
                None => nodes()
                    .filter(|(_, node)| node.group == *text || pattern.matches(&node.name))
                    .map(|(index, _)| index)
                    .collect(),
            };
            if selected.is_empty() {
                return Err(self.unknown(text));
            }
            let known = selected.len();
            selected.retain(|index| !self.gone.contains(index));
            if selected.is_empty() {
                return Err(match known {
                    1 => format!("the node `{text}` was destroyed or has ended"),
                    _ => format!("all {known} nodes of `{text}` were destroyed or have ended"),
                });
            }
            for index in selected {
                if !found.contains(&index) {
                    found.push(index);
                }
            }
        }
        Ok(found)
    }

    fn unknown(&self, text: &str) -> String {
        let mut groups: Vec<&str> = Vec::new();
        for node in &self.plan.nodes {
            if !groups.contains(&node.group.as_str()) {
                groups.push(&node.group);
            }
        }
        let some: Vec<_> = groups.iter().take(8).copied().collect();
        let more = if groups.len() > some.len() { ", ..." } else { "" };
        format!(
            "no node and no group has the name `{text}`; the groups are {}{more}",
            some.join(", ")
        )
    }
}

impl Shared {
    /// Locks the inventory until the guard is dropped.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inventory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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

#[cfg(test)]
#[path = "inventory_tests.rs"]
mod tests;
