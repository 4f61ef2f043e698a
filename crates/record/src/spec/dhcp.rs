//! The spec of a DHCPv6 client, on nodes with `address: dhcp`.

use super::Spec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Spec of the DHCPv6 client of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DhcpSpec {
    /// Name of the interface.
    pub interface: String,
    /// Its Ethernet address, by which the server knows the node.
    pub mac: [u8; 6],
}

impl Spec for DhcpSpec {
    const PROGRAM: &'static str = "dhcp";

    fn check(&self) -> Result<(), String> {
        if self.interface.is_empty() { Err("the spec has no interface".to_owned()) } else { Ok(()) }
    }
}
