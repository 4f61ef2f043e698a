//! The spec of one side of an exchange workload, written by the runner.

use super::wire::FrameFilter;
use crate::clock::Nanos;
use crate::error::Error;
use crate::mqtt::Tls;
use crate::spec::{Peer, read};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The side of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Starts each exchange.
    Drive,
    /// Answers.
    Serve,
}

/// Lifetime of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connection {
    /// A separate connection for each exchange.
    New,
    /// One connection, opened before the start and kept.
    Kept,
}

/// Spec of one side.
#[derive(Debug, Clone, Deserialize)]
pub struct ExchangeSpec {
    /// The side.
    pub side: Side,
    /// Name of this node.
    pub node: String,
    /// Name of the protocol.
    pub protocol: String,
    /// Options of the protocol, parsed by its module.
    #[serde(default)]
    pub options: serde_json::Value,
    /// Lifetime of connections.
    pub connection: Connection,
    /// This node's IPv4 address.
    pub address: Ipv4Addr,
    /// Interface of that address; frames are counted there.
    pub interface: String,
    /// MTU of the link in bytes.
    pub mtu: u16,
    /// The other side: for a driver its servers, usually one; for a server all its drivers.
    pub peers: Vec<Peer>,
    /// The brokers; at most one for a driver.
    #[serde(default)]
    pub brokers: Vec<Peer>,
    /// Number of the workload; makes its topics unique.
    #[serde(default)]
    pub workload: usize,
    /// Port of the server or broker.
    pub port: u16,
    /// The exchanges of this pair in order: number, and payload size in bytes.
    #[serde(default)]
    pub exchanges: Vec<(u64, usize)>,
    /// All payload sizes of the workload.
    pub sizes: Vec<usize>,
    /// Start of the first exchange, from offset 0 of the schedule.
    #[serde(default)]
    pub offset_ns: Nanos,
    /// Interval between the starts of exchanges.
    pub every_ns: Nanos,
    /// Minimum time between the end of an exchange and the start of the next.
    pub pause_ns: Nanos,
    /// Timeout of an exchange.
    pub timeout_ns: Nanos,
    /// Seed of the payloads, the same on both sides.
    pub seed: u64,
    /// Certificates for TLS or DTLS: the server's certificate and key, and the driver's trusted
    /// CA.
    #[serde(default)]
    pub tls: Option<Tls>,
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
    /// Reads and checks a spec.
    ///
    /// # Errors
    /// The file is unreadable or inconsistent.
    pub fn read(path: &Path) -> Result<Self, Error> {
        read(path, Self::check)
    }

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
        if let Some((number, size)) =
            self.exchanges.iter().find(|(_, size)| !self.sizes.contains(size))
        {
            return Err(format!("exchange {number} has {size} bytes, which is missing in sizes"));
        }
        Ok(())
    }

    /// The protocol's options, parsed.
    ///
    /// # Errors
    /// An option is unknown or invalid.
    pub fn options<T: DeserializeOwned + Default>(&self) -> Result<T, Error> {
        if self.options.is_null() {
            return Ok(T::default());
        }
        serde_json::from_value(self.options.clone()).map_err(|error| {
            Error::protocol(&format!("use the options of {}", self.protocol), error)
        })
    }

    /// The largest payload size.
    pub fn longest(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// Name of the peer with this address, else the address.
    pub fn name_of(&self, address: std::net::IpAddr) -> String {
        let known = self.peers.iter().find(|peer| address == std::net::IpAddr::V4(peer.address));
        known.map_or_else(|| address.to_string(), |peer| peer.name.clone())
    }

    /// Filter for frames of these exchanges at this node's interface.
    pub(super) fn frame_filter(&self) -> FrameFilter {
        let hosts = self.peers.iter().chain(&self.brokers).map(|peer| peer.address).collect();
        FrameFilter { hosts, port: self.port }
    }

    /// Applies the kernel settings of the spec to this node.
    pub(super) fn prepare_kernel(&self) {
        let Some(timestamps) = self.tcp_timestamps else { return };
        let path = "/proc/sys/net/ipv4/tcp_timestamps";
        let value = if timestamps { "1" } else { "0" };
        if let Err(error) = std::fs::write(path, value) {
            eprintln!("thingbed-workload: could not set TCP timestamps: {path}: {error}");
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::spec::parse;
    use serde_json::{Value, json};

    pub(in crate::exchange) fn example() -> Value {
        json!({"side": "drive", "node": "meter-1", "protocol": "tcp", "connection": "new",
            "address": "10.0.0.2", "interface": "eth0", "mtu": 1500,
            "peers": [{"name": "server", "address": "10.0.0.1"}], "port": 7000,
            "exchanges": [[0, 100], [3, 0]], "sizes": [0, 100], "every_ns": 10,
            "pause_ns": 1, "timeout_ns": 5, "seed": 1, "events": "/e", "sections": "/s"})
    }

    #[test]
    fn reads_what_the_runner_writes() {
        let spec = parse(&example().to_string(), ExchangeSpec::check).unwrap();
        assert_eq!((spec.side, spec.connection), (Side::Drive, Connection::New));
        assert_eq!((spec.exchanges[1], spec.longest()), ((3, 0), 100));
        assert_eq!(spec.name_of("10.0.0.1".parse().unwrap()), "server");
        assert_eq!(spec.name_of("10.0.0.9".parse().unwrap()), "10.0.0.9");
    }

    #[test]
    fn says_what_is_wrong() {
        for (key, value, word) in [
            ("side", json!("both"), "both"),
            ("port", json!(0), "65535"),
            ("peers", json!([]), "at least one"),
            ("timeout_ns", json!(0), "timeout_ns"),
            ("sizes", json!([0]), "100 bytes"),
        ] {
            let mut spec = example();
            spec[key] = value;
            let error = parse(&spec.to_string(), ExchangeSpec::check).unwrap_err();
            assert!(error.contains(word), "{key}: {error}");
        }
    }
}
