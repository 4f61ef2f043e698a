//! File format: options of OPC UA, HTTP and QUIC.

use super::models::model;
use crate::read::{At, Fields, Read, Sink};
use crate::scalar::word;
use crate::tree::Node;
use record::{HttpMethod, Opcua, Timestamps};
use schemars::JsonSchema;

model! {
    /// Options of OPC UA.
    OpcuaKeys, "options of OPC UA",
    /// Number of variables that share a payload; one Read requests all. Range: 1 to 10. Default: 1.
    #[schemars(extend("minimum" = Opcua::VARIABLES.start(), "maximum" = Opcua::VARIABLES.end()))]
    optional variables as "variables": u32,
    /// Timestamps returned with each value, 8 B each. Default: `source`.
    optional timestamps as "timestamps": Timestamps,
}

model! {
    /// Options of HTTP.
    HttpKeys, "options of HTTP",
    /// `get`: the sink requests the payload, and needs a separate source; `put`, `post`: the source
    /// sends it. Default: `get`.
    optional method as "method": HttpMethod,
}

model! {
    /// Options of QUIC.
    QuicKeys, "options of QUIC",
    /// 0-RTT: whether a new connection to a known sink sends payload at once. Default: false.
    optional early_data as "early_data": bool,
    /// Path MTU discovery for packets over 1,200 B; without it, no packet is larger. Default:
    /// false.
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
