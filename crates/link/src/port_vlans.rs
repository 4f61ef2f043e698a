//! VLANs of a port of a switch.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// VLAN of ports without one, and the native VLAN of trunks: the default of switches (IEEE 802.1Q,
/// table 9-2).
pub const DEFAULT_VLAN: u16 = 1;

/// Numbers that a VLAN may have; 0 and 4095 are reserved (IEEE 802.1Q, 9.6).
pub const VLANS: RangeInclusive<u16> = 1..=4094;

/// VLANs of a port of a switch (IEEE 802.1Q).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PortVlans {
    /// One VLAN, whose frames have no tag on the link.
    Access(u16),
    /// Several VLANs, whose frames have a tag on the link, and [`DEFAULT_VLAN`] without one.
    Trunk(Vec<u16>),
}

impl PortVlans {
    /// VLAN of frames that have no tag on the link.
    pub fn untagged(&self) -> u16 {
        match self {
            Self::Access(vlan) => *vlan,
            Self::Trunk(_) => DEFAULT_VLAN,
        }
    }

    /// Whether frames of `vlan` have a tag on the link.
    pub fn tags(&self, vlan: u16) -> bool {
        vlan != self.untagged() && matches!(self, Self::Trunk(all) if all.contains(&vlan))
    }

    /// Whether the port forwards frames of `vlan`.
    pub fn carries(&self, vlan: u16) -> bool {
        vlan == self.untagged() || self.tags(vlan)
    }
}
