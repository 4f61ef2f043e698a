//! File format: options of OPC UA, HTTP and QUIC.

use super::models::model;
use crate::read::{At, Fields, Read, Sink};
use crate::scalar::word;
use crate::tree::Node;
use record::{HttpMethod, Timestamps};
use schemars::JsonSchema;

model! {
    /// Options of OPC UA.
    OpcuaKeys, "options of OPC UA",
    /// Number of variables that hold a payload together, 1 to 10. Default: 1.
    optional variables as "variables": u32,
    /// Timestamps of each value: `source`, `server`, `both` or `neither`. Default: `source`.
    optional timestamps as "timestamps": Timestamps,
}

model! {
    /// Options of HTTP.
    HttpKeys, "options of HTTP",
    /// `get`: the sink requests; `put`, `post`: the source sends. Default: `get`.
    optional method as "method": HttpMethod,
}

model! {
    /// Options of QUIC.
    QuicKeys, "options of QUIC",
    /// Whether a new connection to a known sink carries payload at once (0-RTT). Default: false.
    optional early_data as "early_data": bool,
    /// Whether QUIC probes for packets larger than 1200 B. Default: false.
    optional mtu_discovery as "mtu_discovery": bool,
}

impl Read for Timestamps {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

impl Read for HttpMethod {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}
