//! Which nodes of a radio network hear each other.

use super::{Plan, PlannedNetwork, PlannedNode};
use link::{Channel, NodePosition, PairLoss, PathLoss, Reception};
use std::collections::HashMap;
use units::Draw;

/// First stream of random numbers of the shadowing of networks, behind those of links.
const SHADOWING: u64 = 1 << 60;

impl PlannedNetwork {
    /// Whether the loss between its nodes depends on their distance or on a table.
    pub fn has_reception(&self) -> bool {
        match &self.channel {
            Channel::Csma(csma) => csma.has_reception(),
            Channel::Aloha(aloha) => aloha.path_loss.is_some(),
            _ => false,
        }
    }
}

impl Plan {
    /// The nodes on a network, in the order of its endpoints.
    pub fn members<'p>(
        &'p self,
        network: &'p PlannedNetwork,
    ) -> impl Iterator<Item = &'p PlannedNode> + 'p {
        self.nodes.iter().flat_map(|node| {
            let on = node.links.iter().filter(|link| link.network == network.name);
            on.map(move |_| node)
        })
    }

    /// Which endpoints of a network hear each other, if that depends on their distance or on a table
    /// of losses.
    pub fn reception(&self, network: &PlannedNetwork) -> Option<Reception> {
        let members: Vec<&PlannedNode> = self.members(network).collect();
        let (path_loss, has_table) = match &network.channel {
            Channel::Csma(csma) => (csma.path_loss, csma.pair_losses.is_some()),
            Channel::Aloha(aloha) => (aloha.path_loss.map(PathLoss::from), false),
            _ => return None,
        };
        if let Some(path_loss) = &path_loss {
            // A checked plan has all positions.
            let place = |node: &&PlannedNode| node.position.unwrap_or_default();
            let places: Vec<NodePosition> = members.iter().map(place).collect();
            let place = self.networks.iter().position(|other| other.name == network.name);
            let draw = Draw::new(self.seed, SHADOWING + place.unwrap_or_default() as u64, 0);
            return Some(Reception::by_distance(path_loss, &places, draw));
        }
        has_table.then_some(())?;
        let numbers: HashMap<&str, usize> =
            members.iter().enumerate().map(|(number, node)| (node.name.as_str(), number)).collect();
        let row = |row: &PairLoss<String>| {
            let number = |name: &String| numbers.get(name.as_str()).copied();
            Some(PairLoss { from: number(&row.from)?, to: number(&row.to)?, loss: row.loss })
        };
        let rows: Vec<_> = network.pair_losses.iter().filter_map(row).collect();
        Some(Reception::by_table(members.len(), &rows))
    }
}
