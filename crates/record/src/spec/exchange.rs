//! The spec of one side of an exchange workload.

use super::{Peer, Spec, TlsFiles};
use crate::{Connection, ExchangeProtocol, Opcua};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The side of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Starts each exchange.
    Drive,
    /// Answers.
    Serve,
}

/// Spec of one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExchangeSpec {
    /// The side.
    pub side: Side,
    /// Name of this node.
    pub node: String,
    /// Protocol, with its options.
    pub protocol: ExchangeProtocol,
    /// Lifetime of connections.
    pub connection: Connection,
    /// This node's address.
    pub address: IpAddr,
    /// Interface of that address; frames are counted there.
    pub interface: String,
    /// MTU of the link in bytes.
    pub mtu: u16,
    /// The other side: for a driver its servers, usually one; for a server all its drivers.
    pub peers: Vec<Peer>,
    /// The brokers; at most one for a driver.
    #[serde(default)]
    pub brokers: Vec<Peer>,
    /// UDP address of the hub's gateway, if MQTT goes through gateways in place of a broker: the frames
    /// of the exchanges are those from and to it.
    #[serde(default)]
    pub gateway: Option<SocketAddr>,
    /// Number of the workload; makes its topics unique.
    #[serde(default)]
    pub workload: usize,
    /// Port of the server or broker.
    pub port: u16,
    /// The exchanges of this pair in order: number, and payload size in bytes.
    #[serde(default)]
    pub exchanges: Vec<(u64, usize)>,
    /// All payload sizes of the workload, in bytes.
    pub sizes: Vec<usize>,
    /// Start of the first exchange, in ns from offset 0 of the schedule.
    #[serde(default)]
    pub offset_ns: u64,
    /// Interval between the starts of exchanges, in ns.
    pub every_ns: u64,
    /// Minimum time between the end of an exchange and the start of the next, in ns.
    pub pause_ns: u64,
    /// Timeout of an exchange, in ns.
    pub timeout_ns: u64,
    /// Seed of the payloads, the same on both sides.
    pub seed: u64,
    /// Certificates for TLS or DTLS: the server's certificate and key, and the driver's trusted
    /// CA.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// Whether TCP uses timestamps (RFC 7323), 12 bytes per segment; none keeps the kernel's
    /// setting.
    #[serde(default)]
    pub tcp_timestamps: Option<bool>,
    /// Output file of exchanges (driver) or received payloads (server).
    pub events: PathBuf,
    /// Output file of sections (driver).
    pub sections: PathBuf,
}

impl ExchangeSpec {
    /// The largest payload size, in bytes.
    pub fn longest(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// Name of the peer with this address, else the address.
    pub fn name_of(&self, address: IpAddr) -> String {
        let known = self.peers.iter().find(|peer| address == peer.address);
        known.map_or_else(|| address.to_string(), |peer| peer.name.clone())
    }
}

impl Spec for ExchangeSpec {
    const PROGRAM: &'static str = "exchange";

    fn check(&self) -> Result<(), String> {
        if self.port == 0 {
            return Err("port must be from 1 to 65535".into());
        }
        if self.peers.is_empty() {
            return Err("peers is empty; add at least one".into());
        }
        if self.timeout_ns == 0 {
            return Err("timeout_ns must be above 0".into());
        }
        if let ExchangeProtocol::Opcua(Opcua { variables, .. }) = &self.protocol
            && !Opcua::VARIABLES.contains(variables)
        {
            return Err(format!("variables is {variables}; it must be from 1 to 10"));
        }
        // A server of OPC UA has variables for these sizes only.
        if let Some((number, size)) =
            self.exchanges.iter().find(|(_, size)| !self.sizes.contains(size))
        {
            return Err(format!("exchange {number} has {size} bytes, which is missing in sizes"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::error_with;
    use super::*;
    use serde_json::{Value, json};

    fn example() -> Value {
        json!({"side": "drive", "node": "meter-1", "protocol": "tcp", "connection": "new",
            "address": "10.0.0.2", "interface": "eth0", "mtu": 1500,
            "peers": [{"name": "server", "address": "10.0.0.1"}], "port": 7000,
            "exchanges": [[0, 100], [3, 0]], "sizes": [0, 100], "every_ns": 10,
            "pause_ns": 1, "timeout_ns": 5, "seed": 1, "events": "/e", "sections": "/s"})
    }

    #[test]
    fn a_spec_in_json_is_read() {
        let spec = ExchangeSpec::parse(&example().to_string()).unwrap();
        assert_eq!((spec.side, spec.connection), (Side::Drive, Connection::New));
        assert_eq!((spec.exchanges[1], spec.longest()), ((3, 0), 100));
        assert_eq!(spec.name_of("10.0.0.1".parse().unwrap()), "server");
        assert_eq!(spec.name_of("10.0.0.9".parse().unwrap()), "10.0.0.9");
    }

    #[test]
    fn says_what_is_wrong() {
        let opcua = |variables| json!({"opcua": {"variables": variables, "timestamps": "both"}});
        for (key, value, word) in [
            ("side", json!("both"), "both"),
            ("protocol", json!("amqp"), "amqp"),
            ("protocol", opcua(0), "from 1 to 10"),
            ("protocol", opcua(11), "from 1 to 10"),
            ("protocol", json!({"coap": {"blocks": 5}}), "blocks"),
            ("port", json!(0), "65535"),
            ("peers", json!([]), "at least one"),
            ("timeout_ns", json!(0), "timeout_ns"),
            ("sizes", json!([0]), "100 bytes"),
        ] {
            let error = error_with::<ExchangeSpec>(example(), key, value);
            assert!(error.contains(word), "{key}: {error}");
        }
    }
}
