//! Networks that are VLANs of another network's switch, as the file has them.

use crate::file::{File, Group, Network};
use crate::read::Named;

/// The switch of a VLAN, by its position, and the VLAN's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OnSwitch {
    pub(super) switch: usize,
    pub(super) number: u16,
}

/// Whether a network of the file is a VLAN of another one.
pub(super) fn is_vlan(network: &Network) -> bool {
    network.switch.is_some() || network.vlan.is_some()
}

/// Groups whose nodes have no interfaces of VLANs on a trunk: a bridge passes tags on, and other
/// kernels have interfaces that Thingbed does not make.
pub(super) fn without_interfaces<'f>(network: &Network, file: &'f File) -> Vec<&'f str> {
    if network.vlans.is_none() {
        return Vec::new();
    }
    let has_none = |group: &Group| {
        let bridge = group.bridge.as_ref();
        let is_bridge = bridge.is_some_and(|bridge| bridge.value != crate::file::Bridge::Off);
        is_bridge || group.external.is_some() || group.has_own_stack()
    };
    let groups = file.nodes.iter().flat_map(Named::iter);
    groups.filter(|(_, _, group)| has_none(group)).map(|(name, ..)| name).collect()
}
