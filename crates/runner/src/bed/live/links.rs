//! The link API: shows and changes links of a running lab.

use super::inventory::{Inventory, Shared};
use super::requests::has_gone;
use super::{LinkTraffic, Links, Reply, Request, Shown};
use crate::bed::some;
use engine::{Change, Remote};
use experiment::{RunningLink, link_change};
use link::{Direction, Impairment, Keys};
use measure::Accounting;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use units::Instant;

/// A change by hand, for the run's record.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ManualChange {
    #[serde(skip)]
    pub at: Instant,
    pub request: Request,
}

/// Answers link requests of control clients.
pub(super) struct LinkApi {
    pub inventory: Shared,
    pub remote: Remote<Accounting>,
    made: Arc<Mutex<Vec<ManualChange>>>,
}

impl LinkApi {
    /// The link API of this lab.
    pub(super) fn new(
        inventory: Shared,
        remote: Remote<Accounting>,
        made: Arc<Mutex<Vec<ManualChange>>>,
    ) -> Self {
        Self { inventory, remote, made }
    }

    /// Records a change.
    pub(super) fn record(&self, request: Request) {
        let made = ManualChange { at: clock::now(), request };
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(made);
    }

    /// Writes a change into captures.
    fn note(&self, request: &Request, nodes: &[String]) {
        let does = match request {
            Request::Down { down: true, .. } => "down",
            Request::Down { .. } => "up",
            _ => "changed",
        };
        let text = format!("links of {} {does} by hand", some(nodes));
        self.remote.with_observer(move |accounting: &mut Accounting| accounting.note(&text));
    }

    /// Executes a link request, unless its client has disconnected.
    ///
    /// # Errors
    /// Why the request is refused.
    pub(super) fn answer(&self, request: Request, client: &UnixStream) -> Result<Reply, String> {
        // Locked to the end: the engine's states have the links of this inventory.
        let inventory = self.inventory.lock();
        // The lock can take long, while many nodes are added.
        if has_gone(client) {
            return Err("the client has disconnected".to_owned());
        }
        let mut ended = BTreeMap::new();
        let silent = || "the forwarding thread does not answer".to_owned();
        let states = || self.remote.states().ok_or_else(silent);
        let nodes = match &request {
            Request::Show { nodes } => nodes.clone(),
            Request::Set { links, set, over } => {
                // Read before the change, to report gradual changes that this one ends.
                let before = states()?;
                let found = find(&inventory, links)?;
                refuse_netem(&inventory, &found)?;
                // Both the current settings and the target of a change in progress.
                let running = found.iter().flat_map(|(segment, end, way)| {
                    let network = &inventory.plan.networks[*segment];
                    let state = &before[*segment][*end][*way as usize];
                    let running = |configured| RunningLink {
                        channel: &network.channel,
                        mtu: network.mtu,
                        way: *way,
                        configured,
                    };
                    std::iter::once(&state.now).chain(&state.target).map(running)
                });
                // All changes or none.
                let overlay = match link_change(set, &running.collect::<Vec<_>>()) {
                    Ok(overlay) => overlay,
                    Err(errors) => return Ok(Reply::Wrong(errors.to_string())),
                };
                for (segment, end, way) in &found {
                    let state = &before[*segment][*end][*way as usize];
                    let keys = state.target.as_ref().map(|t| ended_keys(&state.now, t, &overlay));
                    ended.insert((*segment, *end, *way as usize), keys.unwrap_or_default());
                }
                for (segment, links) in by_segment(&found) {
                    let (set, over) = (overlay.clone(), *over);
                    self.remote.change(segment, Change::Set { links, set, over });
                }
                links.nodes.clone()
            }
            Request::Down { links, down } => {
                for (segment, links) in by_segment(&find(&inventory, links)?) {
                    self.remote.change(segment, Change::Down { links, down: *down });
                }
                links.nodes.clone()
            }
            _ => return Err("this request is not for links".to_owned()),
        };
        if !matches!(request, Request::Show { .. }) {
            self.note(&request, &nodes);
            self.record(request);
        }
        let selection = match nodes.is_empty() {
            true => inventory.present().collect::<Vec<_>>(),
            false => inventory.find(&nodes)?,
        };
        let all = states()?;
        let own: Vec<_> = inventory.links().filter(|(node, ..)| selection.contains(node)).collect();
        let mut both = |(node, segment, end): &(usize, usize, usize)| {
            [Direction::Up, Direction::Down].map(|way| {
                let state = &all[*segment][*end][way as usize];
                let fixed = inventory.fixed.get(&(*segment, *end)).map(|ways| &ways[way as usize]);
                Shown {
                    node: inventory.plan.nodes[*node].name.clone(),
                    network: inventory.plan.networks[*segment].name.clone(),
                    way,
                    now: fixed.unwrap_or(&state.now).clone(),
                    target: state.target.clone(),
                    ended: ended.remove(&(*segment, *end, way as usize)).unwrap_or_default(),
                    down: state.down,
                    rejected: state.totals.rejected,
                    traffic: LinkTraffic::of(&state.totals),
                }
            })
        };
        Ok(Reply::Links(own.iter().flat_map(&mut both).collect()))
    }
}

/// Refuses directions whose impairments are the kernel's.
fn refuse_netem(inventory: &Inventory, found: &[LinkDirection]) -> Result<(), String> {
    let fixed =
        |(segment, end, _): &&LinkDirection| inventory.fixed.contains_key(&(*segment, *end));
    let Some((segment, ..)) = found.iter().find(fixed) else { return Ok(()) };
    Err(format!(
        "the network `{}` has `backend: netem`, whose impairments cannot change during a run; \
         select another with --network, or use `link down` and `link up`",
        inventory.plan.networks[*segment].name
    ))
}

/// Keys of a gradual change from `now` to `target` that `set` replaces, with their targets.
fn ended_keys(now: &Impairment, target: &Impairment, set: &Keys) -> Vec<String> {
    let (now, target) = (now.keys(), target.keys());
    let changing = target.0.iter().filter(|(key, value)| now.0.get(*key) != Some(*value));
    let replaced = changing.filter(|(key, _)| set.has(key));
    replaced.map(|(key, value)| format!("{key} {}", value.as_str().unwrap_or_default())).collect()
}

/// The selected directions.
fn find(inventory: &Inventory, selection: &Links) -> Result<Vec<LinkDirection>, String> {
    let on = |segment: usize| {
        let network = &inventory.plan.networks[segment].name;
        selection.network.as_ref().is_none_or(|name| name == network)
    };
    // Of a group, some nodes may be on other networks.
    for name in selection.network.iter().flat_map(|_| &selection.nodes) {
        let nodes = inventory.find(std::slice::from_ref(name))?;
        let own = inventory.links().filter(|(owner, ..)| nodes.contains(owner));
        let segments: BTreeSet<usize> = own.map(|(_, segment, _)| segment).collect();
        if segments.iter().all(|segment| !on(*segment)) {
            let others = segments.iter().map(|at| inventory.plan.networks[*at].name.as_str());
            let others = others.collect::<Vec<_>>().join(", ");
            return Err(format!(
                "`{name}` is not attached to a network `{}`; it is attached to {}",
                selection.network.as_deref().unwrap_or_default(),
                if others.is_empty() { "none" } else { &others }
            ));
        }
    }
    let nodes = inventory.find(&selection.nodes)?;
    let selected =
        inventory.links().filter(|(node, segment, _)| nodes.contains(node) && on(*segment));
    let ways = [Direction::Up, Direction::Down].into_iter();
    let ways = ways.filter(|way| selection.way.is_none_or(|selected| selected == *way));
    let each =
        selected.flat_map(|(_, segment, end)| ways.clone().map(move |way| (segment, end, way)));
    Ok(each.collect())
}

/// A direction: segment, endpoint, uplink or downlink.
type LinkDirection = (usize, usize, Direction);

fn by_segment(found: &[LinkDirection]) -> BTreeMap<usize, Vec<(usize, Direction)>> {
    let mut by: BTreeMap<usize, Vec<(usize, Direction)>> = BTreeMap::new();
    for (segment, end, way) in found {
        by.entry(*segment).or_default().push((*end, *way));
    }
    by
}
