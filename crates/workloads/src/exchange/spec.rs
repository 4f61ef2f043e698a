//! The spec of one side of an exchange: what the runner writes for each.

use super::wire::Ours;
use crate::clock::Nanos;
use crate::error::Error;
use crate::mqtt::Tls;
use crate::spec::{Peer, read};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Which side a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// It begins each exchange.
    Drive,
    /// It answers.
    Serve,
}

/// How long connections last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connection {
    /// Each exchange has one of its own.
    New,
    /// One is made before the start, and kept.
    Kept,
}

/// What one side is to do.
#[derive(Debug, Clone, Deserialize)]
pub struct ExchangeSpec {
    /// Which side it is.
    pub side: Side,
    /// The name of this node.
    pub node: String,
    /// The protocol's name.
    pub protocol: String,
    /// What the protocol lets be chosen; its own file reads it.
    #[serde(default)]
    pub options: serde_json::Value,
    /// How long connections last.
    pub connection: Connection,
    /// This node's address.
    pub address: Ipv4Addr,
    /// Its interface there, where frames are counted.
    pub interface: String,
    /// The largest IP packet that the link takes.
    pub mtu: u16,
    /// Who is at the other end: of the side that drives those that serve, mostly one;
    /// of that all that drive.
    pub peers: Vec<Peer>,
    /// The brokers in between, of the side that drives one at most.
    #[serde(default)]
    pub brokers: Vec<Peer>,
    /// The workload's number, which tells its topics from those of others.
    #[serde(default)]
    pub workload: usize,
    /// Where the server, or the broker, listens.
    pub port: u16,
    /// The exchanges of this pair in their order: number, and bytes of payload.
    #[serde(default)]
    pub exchanges: Vec<(u64, usize)>,
    /// All lengths of payloads of the workload.
    pub sizes: Vec<usize>,
    /// When the first begins, from offset 0.
    #[serde(default)]
    pub offset_ns: Nanos,
    /// From the beginning of one exchange to that of the next.
    pub every_ns: Nanos,
    /// The least from the end of one to the beginning of the next.
    pub pause_ns: Nanos,
    /// How long one may take.
    pub timeout_ns: Nanos,
    /// The seed of payloads: the same at both sides.
    pub seed: u64,
    /// Certificates, where the protocol runs over TLS or DTLS: of the server its own
    /// and its key, of the driver whom it trusts.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// Whether TCP has timestamps (RFC 7323), 12 bytes a segment; as the kernel has it
    /// if not said.
    #[serde(default)]
    pub tcp_timestamps: Option<bool>,
    /// The file that gets the exchanges, or what has come.
    pub events: PathBuf,
    /// The file that gets the sections; of the side that drives.
    pub sections: PathBuf,
}

impl ExchangeSpec {
    /// Reads and checks a spec.
    ///
    /// # Errors
    /// When it cannot be read or contradicts itself.
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

    /// What the protocol lets be chosen, as its own file has it.
    ///
    /// # Errors
    /// When there is something that the protocol does not know.
    pub fn options<T: DeserializeOwned + Default>(&self) -> Result<T, Error> {
        if self.options.is_null() {
            return Ok(T::default());
        }
        serde_json::from_value(self.options.clone()).map_err(|error| {
            Error::protocol(&format!("use the options of {}", self.protocol), error)
        })
    }

    /// The longest payload.
    pub fn longest(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// The node called so, or of that address, among those at the other end: its name.
    pub fn name_of(&self, address: std::net::IpAddr) -> String {
        let known = self.peers.iter().find(|peer| address == std::net::IpAddr::V4(peer.address));
        known.map_or_else(|| address.to_string(), |peer| peer.name.clone())
    }

    /// Which frames at this node's interface are of these exchanges.
    pub(super) fn ours(&self) -> Ours {
        let hosts = self.peers.iter().chain(&self.brokers).map(|peer| peer.address).collect();
        Ours { hosts, port: self.port }
    }

    /// Has this node's kernel do what the spec asks of it.
    pub(super) fn prepare_kernel(&self) {
        let Some(timestamps) = self.tcp_timestamps else { return };
        let path = "/proc/sys/net/ipv4/tcp_timestamps";
        let value = if timestamps { "1" } else { "0" };
        if let Err(error) = std::fs::write(path, value) {
            eprintln!("thingbed-workload: TCP keeps its timestamps as they are: {path}: {error}");
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
