//! What can be chosen of OPC UA, HTTP and QUIC, as typed.

use super::models::model;
use crate::read::{At, Fields, Read, Sink};
use crate::scalar::word;
use crate::stacks::{HttpMethod, Timestamps};
use crate::tree::Node;
use schemars::JsonSchema;

model! {
    /// What can be chosen of OPC UA.
    OpcuaKeys, "options of OPC UA",
    /// How many variables hold a payload together, 1 to 10; 1 unless given.
    optional variables as "variables": u32,
    /// Which times come with each: `source`, `server`, `both` or `neither`; `source`
    /// unless given.
    optional timestamps as "timestamps": Timestamps,
}

model! {
    /// What can be chosen of HTTP.
    HttpKeys, "options of HTTP",
    /// `get`: the sink asks; `put`, `post`: the source sends. `get` unless given.
    optional method as "method": HttpMethod,
}

model! {
    /// What can be chosen of QUIC.
    QuicKeys, "options of QUIC",
    /// Whether a new connection to a sink that is known from before carries payload at
    /// once (0-RTT); false unless given.
    optional early_data as "early_data": bool,
    /// Whether larger packets than 1200 B are tried for; false unless given.
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
