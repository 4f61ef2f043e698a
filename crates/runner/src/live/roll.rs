//! Who and what is in a lab that is up: it may grow.

use crate::topology::Topology;
use experiment::{Backend, Plan};
use medium::{Impairment, Place};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The nodes and links of a lab, by the numbers that lab and medium give them.
#[derive(Debug)]
pub(crate) struct Roll {
    pub plan: Plan,
    /// The node at each segment's endpoints.
    pub owners: Vec<Vec<usize>>,
    /// `node:interface` there.
    pub names: Vec<Vec<String>>,
    /// What is asked of links whose impairments are netem's and cannot change.
    pub fixed: HashMap<(usize, usize), [Impairment; 2]>,
    /// Nodes that were destroyed or have ended. They keep their place in `plan`, since lab
    /// and medium number nodes by it.
    pub gone: HashSet<usize>,
}

/// A roll that visitors' answers and the lab's own thread share.
#[derive(Debug, Clone)]
pub(crate) struct Shared(Arc<Mutex<Roll>>);

impl Roll {
    /// That of a lab at its start.
    pub(crate) fn of(plan: &Plan, topology: &Topology) -> Shared {
        let (owners, names) = (topology.owners.clone(), topology.names.clone());
        let roll = Self {
            plan: plan.clone(),
            owners,
            names,
            fixed: fixed(plan, topology),
            gone: HashSet::new(),
        };
        Shared(Arc::new(Mutex::new(roll)))
    }

    /// All links: node, segment, endpoint.
    pub(crate) fn links(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        self.owners.iter().enumerate().flat_map(|(segment, owners)| {
            let owners = owners.iter().enumerate();
            owners.map(move |(endpoint, node)| (*node, segment, endpoint))
        })
    }

    /// Where the links of a node are.
    pub(crate) fn places(&self, node: usize) -> Vec<Place> {
        let own = self.links().filter(|(owner, ..)| *owner == node);
        own.map(|(_, segment, endpoint)| Place { segment, endpoint }).collect()
    }

    /// The nodes that are there.
    pub(crate) fn present(&self) -> impl Iterator<Item = usize> {
        (0..self.plan.nodes.len()).filter(|node| !self.gone.contains(node))
    }

    /// The nodes that names, groups and patterns stand for, each once. A node's name
    /// is that node, also where it has been cloned and is a group's name, too. Nodes that
    /// are gone are in no group; by its name one is an error, not a command without effect.
    pub(crate) fn find(&self, which: &[String]) -> Result<Vec<usize>, String> {
        let nodes = || self.plan.nodes.iter().enumerate();
        let mut found = Vec::new();
        for text in which {
            let pattern = glob::Pattern::new(text)
                .map_err(|error| format!("`{text}` is not a pattern: {error}"))?;
            let mut meant: Vec<usize> = match nodes().find(|(_, node)| node.name == *text) {
                Some((index, _)) => vec![index],
                None => nodes()
                    .filter(|(_, node)| node.group == *text || pattern.matches(&node.name))
                    .map(|(index, _)| index)
                    .collect(),
            };
            if meant.is_empty() {
                return Err(self.unknown(text));
            }
            let known = meant.len();
            meant.retain(|index| !self.gone.contains(index));
            if meant.is_empty() {
                return Err(match known {
                    1 => format!("the node `{text}` was destroyed or has ended"),
                    _ => format!("all {known} nodes of `{text}` were destroyed or have ended"),
                });
            }
            for index in meant {
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
    /// The roll, held until the answer is dropped.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Roll> {
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
