//! The analysis of a packet capture, read from the output of `thingbed analyze --json`.

use crate::Error;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// An analysis of a capture. Missing keys are 0 or empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Capture {
    pub(crate) complete: bool,
    pub(crate) notes: Vec<String>,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) duration_s: f64,
    pub(crate) points: Vec<Point>,
    pub(crate) sizes: Vec<Size>,
    pub(crate) layers: BTreeMap<String, u64>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) later_fragments: Vec<Protocol>,
    pub(crate) icmp_messages: Vec<Protocol>,
    pub(crate) other_protocols: Vec<Protocol>,
    pub(crate) unread: Vec<Unread>,
    pub(crate) goodput: Goodput,
    pub(crate) tcp: Tcp,
    pub(crate) messages: BTreeMap<String, BTreeMap<String, u64>>,
    pub(crate) streams: Streams,
    pub(crate) paths: Vec<PathRow>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) flows: Vec<Flow>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Point {
    pub name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Size {
    pub from: u32,
    pub to: Option<u32>,
    pub packets: u64,
    pub share_pct: f64,
}

impl Size {
    pub fn name(&self) -> String {
        match self.to {
            Some(to) => format!("{}–{to}", self.from),
            None => format!("{} or more", self.from),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Kind {
    pub kind: String,
    pub packets: u64,
    pub bytes: u64,
    pub packets_pct: f64,
    pub bytes_pct: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Protocol {
    pub protocol: String,
    pub packets: u64,
    pub bytes: u64,
}

/// Packets that could not be decoded up to the transport header.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Unread {
    pub point: String,
    pub reason: String,
    pub number: Option<u32>,
    pub name: Option<String>,
    pub packets: u64,
    pub bytes: u64,
}

impl Unread {
    /// The part that could not be decoded, such as `link type 195, IEEE 802.15.4 with checksum`.
    pub fn what(&self) -> String {
        let number = match self.number {
            // Registries list these in hexadecimal.
            Some(number) if self.reason.starts_with("EtherType") => format!(" 0x{number:04x}"),
            Some(number) if self.reason.starts_with("PPP") => format!(" 0x{number:04x}"),
            Some(number) if self.reason.starts_with("LLC") => format!(" 0x{number:02x}"),
            Some(number) => format!(" {number}"),
            None => String::new(),
        };
        let name = self.name.as_ref().map_or_else(String::new, |name| format!(", {name}"));
        format!("{}{number}{name}", self.reason)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Goodput {
    pub carried_pct: f64,
    pub payload_pct: f64,
    pub carrying_packets_pct: f64,
    pub payload_bit_s: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Tcp {
    pub connections: u64,
    pub packets: u64,
    pub retransmissions: u64,
    pub fast_retransmissions: u64,
    pub spurious_retransmissions: u64,
    pub out_of_order: u64,
    pub duplicate_acks: u64,
    pub lost_segments: u64,
    pub ack_lost_segments: u64,
    pub keep_alives: u64,
    pub keep_alive_acks: u64,
    pub zero_windows: u64,
    pub zero_window_probes: u64,
    pub zero_window_probe_acks: u64,
    pub window_updates: u64,
    pub window_fulls: u64,
    pub reused_ports: u64,
    pub rtt_ms: Option<Rtt>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Rtt {
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Streams {
    pub gaps: u64,
    pub resyncs: u64,
    pub skipped_bytes: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PathRow {
    pub from: String,
    pub to: String,
    pub delivered: u64,
    pub lost: u64,
    pub loss_pct: f64,
    pub latency_ms: Option<Times>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Times {
    pub mean: f64,
    pub min: f64,
    pub max: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub node: String,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub messages: u64,
    pub retransmissions: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Flow {
    pub point: String,
    pub transport: String,
    pub protocol: Option<String>,
    pub a: String,
    pub b: String,
    pub forward: Direction,
    pub back: Direction,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Direction {
    pub packets: u64,
    pub bytes: u64,
    pub messages: u64,
    pub retransmissions: u64,
    pub duplicate_acks: u64,
    pub rtt_ms: Option<Times>,
}

impl Capture {
    /// Parses the output of `thingbed analyze --json` for the capture `path`.
    ///
    /// # Errors
    /// If it has another format.
    pub fn parse(json: &str, path: &Path) -> Result<Self, Error> {
        serde_json::from_str(json).map_err(|source| Error::Json { path: path.to_owned(), source })
    }

    /// Bytes by layer, from the lowest layer up.
    pub(crate) fn layers(&self) -> Vec<(&'static str, u64)> {
        // From the wire to the application; JSON objects have no order.
        let order = ["link", "network", "transport", "repeated", "messaging", "payload"];
        order.map(|layer| (layer, self.layers.get(layer).copied().unwrap_or(0))).to_vec()
    }
}
