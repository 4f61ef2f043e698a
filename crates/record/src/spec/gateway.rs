//! The spec of a gateway for MQTT clients, on the nodes of a network with `mqtt`.

use super::Spec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// UDP port of gateways.
pub const GATEWAY_PORT: u16 = 5700;
/// Minimum length of a pre-shared key, in bytes.
const MIN_KEY: usize = 16;

/// Spec of one gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatewaySpec {
    /// Pre-shared key of all gateways, 16 bytes or more.
    pub key: String,
    /// UDP address of this gateway.
    pub local: SocketAddr,
    /// UDP address of the hub's gateway; none at the hub.
    #[serde(default)]
    pub hub: Option<SocketAddr>,
    /// UDP addresses of the devices' gateways, at the hub.
    #[serde(default)]
    pub devices: Vec<SocketAddr>,
}

impl Spec for GatewaySpec {
    const PROGRAM: &'static str = "gateway";

    fn check(&self) -> Result<(), String> {
        if self.key.len() < MIN_KEY {
            return Err(format!("key has {} bytes; use {MIN_KEY} or more", self.key.len()));
        }
        if self.hub.is_some() != self.devices.is_empty() {
            return Err("give either `hub`, at a device, or `devices`, at the hub".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::error_with;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_gateway_is_that_of_the_hub_or_of_a_device() {
        let hub = json!({"key": "0123456789abcdef", "local": "10.0.0.1:5700", "devices": ["[fd00::2]:5700"]});
        let spec = GatewaySpec::parse(&hub.to_string()).unwrap();
        assert_eq!((spec.hub, spec.devices.len()), (None, 1));
        for (key, value, word) in [
            ("key", json!("short"), "16 or more"),
            ("hub", json!("10.0.0.1:5700"), "either `hub`"),
            ("devices", json!([]), "either `hub`"),
            ("local", json!("hub"), "socket address"),
        ] {
            let error = error_with::<GatewaySpec>(hub.clone(), key, value);
            assert!(error.contains(word), "{key}: {error}");
        }
    }
}
