//! The spec of a DHCPv6 client, on nodes with `address: dhcp`.

use super::Spec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// Spec of the DHCPv6 client of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DhcpSpec {
    /// Name of the interface.
    pub interface: String,
    /// Its Ethernet address, by which the server knows the node.
    pub mac: [u8; 6],
    /// Address that the kernel makes of router advertisements: the client only waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertised: Option<Ipv6Addr>,
    /// How long it asks for an address, and then waits for a router advertisement: a number of seconds.
    pub patience_s: u32,
}

impl Spec for DhcpSpec {
    const PROGRAM: &'static str = "dhcp";

    fn check(&self) -> Result<(), String> {
        if self.interface.is_empty() { Err("the spec has no interface".to_owned()) } else { Ok(()) }
    }
}
