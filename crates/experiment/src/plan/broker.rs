//! The MQTT broker of a network.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Name by which programs reach the broker of a network.
pub const BROKER_NAME: &str = "mqtt-broker";
/// TCP port of MQTT (OASIS MQTT 5.0, section 4.2).
pub const MQTT_PORT: u16 = 1883;

/// The MQTT broker that Thingbed runs for a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedBroker {
    /// Kind.
    pub broker: BrokerKind,
    /// Its node; with gateways, that of the hub's.
    pub on: String,
    /// Nodes with a gateway each; none with Mosquitto.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
}

impl PlannedBroker {
    /// Whether the node runs the broker, or a gateway.
    pub fn runs_on(&self, node: &str) -> bool {
        self.on == node || self.devices.iter().any(|device| device == node)
    }
}

/// Kinds of broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BrokerKind {
    /// Mosquitto on one node.
    Mosquitto,
    /// The director's gateway on each node.
    Gateway,
}

impl fmt::Display for BrokerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mosquitto => f.write_str("Mosquitto"),
            Self::Gateway => f.write_str("the director's gateways"),
        }
    }
}
