//! Resolves the loss between the nodes of a radio channel: positions, and tables of losses.

use crate::file::{Channel, Group};
use crate::plan::PlannedServices;
use crate::problem::Problem;
use crate::read::{Named, Sink};
use crate::resolve::members::Members;
use crate::resolve::nodes::Nodes;
use crate::source::Place;
use link::{AlohaSpec, CsmaSpec, NodePosition, PairLoss};
use std::collections::HashSet;
use std::path::Path;
use units::Ratio;

/// Maximum number of nodes of a radio channel: the conditions between all pairs take 40 MB.
pub(crate) const MAX_STATIONS: u64 = 1_000;
/// A line of a table, to show in errors.
const EXAMPLE: &str = "write lines such as `meter-1,gateway,5 %`: sender, receiver, loss";

/// The network whose channel is checked.
pub(super) struct Radio<'r, 'f> {
    pub name: &'r str,
    /// Place of its channel in the file.
    pub place: Place,
    pub members: &'r Members<'f>,
    pub nodes: &'r Nodes<'f>,
    pub services: PlannedServices,
}

impl Radio<'_, '_> {
    /// Checks the network's channel against its nodes, and reads its table of losses, if it has one.
    /// `has_lora` as of [`Self::check_aloha`], `base` as of [`Self::pair_losses`].
    pub fn losses(
        &self,
        channel: &Channel,
        has_lora: &dyn Fn(&str) -> Option<bool>,
        base: &Path,
        sink: &mut Sink,
    ) -> Vec<PairLoss<String>> {
        match channel {
            Channel::Csma(csma) => return self.pair_losses(csma, base, sink),
            Channel::Aloha(aloha) => self.check_aloha(aloha, has_lora, sink),
            _ => {}
        }
        Vec::new()
    }

    /// Checks that the loss between any two nodes of the network is known, and reads its table, if it
    /// has one. Paths are relative to `base`.
    fn pair_losses(&self, csma: &CsmaSpec, base: &Path, sink: &mut Sink) -> Vec<PairLoss<String>> {
        if !csma.has_reception() {
            return Vec::new();
        }
        if !self.check_stations(sink) {
            return Vec::new();
        }
        if csma.path_loss.is_some() {
            self.check_positions(sink);
        }
        let Some(file) = &csma.pair_losses else { return Vec::new() };
        match input::read_to_string(&base.join(file), input::MAX_TEXT) {
            Ok(text) => self.parse(&text, &file.display().to_string(), sink),
            Err(error) => {
                let text = format!("the table of losses `{}`: {error}", file.display());
                let label = format!("{EXAMPLE}; paths are relative to this file");
                sink.add(Problem::new(text).at(self.place).label(label));
                Vec::new()
            }
        }
    }

    /// Checks that nodes of the network send with LoRa, and with `path_loss` that all have a position and
    /// some receive. `has_lora` says whether the entry of a group or node in the network's links has
    /// `lora`, if there is one.
    fn check_aloha(
        &self,
        aloha: &AlohaSpec,
        has_lora: &dyn Fn(&str) -> Option<bool>,
        sink: &mut Sink,
    ) {
        let is_device = |group: &str, index: u64| {
            let (_, names) = self.members.find(group, index)?;
            Some(names.iter().find_map(|name| has_lora(name)).unwrap_or_default())
        };
        let nodes = self.members.attached().flat_map(|(group, index)| {
            let all = 0..self.nodes.count(group).map_or(1, u64::from);
            let indices = index.map_or(all, |index| index..index + 1);
            indices.filter_map(move |index| is_device(group, index))
        });
        let (devices, gateways): (Vec<bool>, Vec<bool>) = nodes.partition(|is_device| *is_device);
        if devices.is_empty() {
            let text = format!("no link of `{}` has `lora`, so no packets can collide", self.name);
            let label = "give the links of devices `up: {lora: {spreading_factor: 7}}`, or the network \
                         `profile: lora-eu868`";
            sink.add(Problem::new(text).at(self.place).label(label));
        }
        if aloha.path_loss.is_none() || !self.check_stations(sink) {
            return;
        }
        self.check_positions(sink);
        if gateways.is_empty() {
            let text = format!("all links of `{}` have `lora`, so no node is a gateway", self.name);
            let label = "gateways are nodes without `lora`: write `GROUP: {profile: none}` in `links`, or \
                         remove `path_loss`";
            sink.add(Problem::new(text).at(self.place).label(label));
        }
    }

    /// Checks that all nodes can have a place, and that they are not too many.
    fn check_stations(&self, sink: &mut Sink) -> bool {
        if self.members.size > MAX_STATIONS {
            let text = format!("`{}` has {} nodes", self.name, self.members.size);
            let label = format!(
                "a network with `path_loss` or `pair_losses` can have {MAX_STATIONS}; use several networks"
            );
            sink.add(Problem::new(text).at(self.place).label(label));
            return false;
        }
        if self.services.any() {
            let text = format!("the node of the services of `{}` has no position", self.name);
            let label = "remove `nat`, `dhcp` and `dns`, or `path_loss` and `pair_losses`";
            sink.add(Problem::new(text).at(self.place).label(label));
        }
        true
    }

    fn check_positions(&self, sink: &mut Sink) {
        for group in self.members.groups() {
            let found = self.nodes.groups.and_then(|groups| groups.get(group));
            if found.is_some_and(|group| group.position.is_none()) {
                let text = format!("`{group}` has no `position`, which `path_loss` needs");
                let label = "add to the group for example `position: [0 m, 30 m]`";
                sink.add(Problem::new(text).at(self.place).label(label));
            }
        }
    }

    fn parse(&self, text: &str, file: &str, sink: &mut Sink) -> Vec<PairLoss<String>> {
        let (mut rows, mut known) = (Vec::new(), HashSet::new());
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match self.row(line) {
                Ok(row) if known.insert((row.from.clone(), row.to.clone())) => rows.push(row),
                other => {
                    let why = other.err().unwrap_or_else(|| format!("`{line}` is a second row"));
                    let text = format!("{file}, line {}: {why}", number + 1);
                    sink.add(Problem::new(text).at(self.place).label(EXAMPLE));
                    // A file of another kind has an error in each line.
                    return Vec::new();
                }
            }
        }
        if rows.is_empty() {
            let text = format!("{file} has no losses, so no node hears another");
            sink.add(Problem::new(text).at(self.place).label(EXAMPLE));
        }
        rows
    }

    fn row(&self, line: &str) -> Result<PairLoss<String>, String> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [from, to, loss] = fields[..] else {
            let start: String = line.chars().take(40).collect();
            return Err(format!("`{start}` is not a sender, a receiver and a loss"));
        };
        for name in [from, to] {
            let is_node = self.nodes.count(name) == Some(1) || self.nodes.place(name).is_some();
            if !is_node || !self.members.includes(name, self.nodes) {
                return Err(format!("`{name}` is not a node on the network `{}`", self.name));
            }
        }
        if from == to {
            return Err(format!("`{from}` is both sender and receiver"));
        }
        let loss = loss.parse::<Ratio>().map_err(|error| error.to_string())?;
        Ok(PairLoss { from: from.to_owned(), to: to.to_owned(), loss })
    }
}

/// Checks the number of positions of the groups.
pub(super) fn check_counts(groups: Option<&Named<Group>>, sink: &mut Sink) {
    for (name, _, group) in groups.into_iter().flat_map(Named::iter) {
        let Some(positions) = &group.position else { continue };
        let (given, count) =
            (positions.value.0.len(), group.count.as_ref().map_or(1, |at| at.value));
        if given as u64 != u64::from(count) {
            let text = format!("`{name}` has {count} nodes and {given} positions");
            let label = "give each node its position: `[[0 m, 0 m], [30 m, 0 m]]`";
            sink.add(Problem::new(text).at(positions.place).label(label));
        }
    }
}

/// Position of the node at `index` of a group.
pub(super) fn position(group: Option<&Group>, index: u64) -> Option<NodePosition> {
    group?.position.as_ref()?.value.0.get(index as usize).copied()
}
