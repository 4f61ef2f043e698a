//! Options of OPC UA, HTTP and QUIC in exchanges.

use crate::scalar::Word;
use serde::{Deserialize, Serialize};

/// Timestamps that an OPC UA server sends with each value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timestamps {
    /// Source timestamp: when the value was created.
    Source,
    /// Server timestamp: when the server received it.
    Server,
    /// Both timestamps.
    Both,
    /// No timestamps.
    Neither,
}

impl Word for Timestamps {
    const WHAT: &'static str = "a choice of timestamps";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("source", Self::Source),
        ("server", Self::Server),
        ("both", Self::Both),
        ("neither", Self::Neither),
    ];
}

/// Options of OPC UA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opcua {
    /// Number of variables that hold a payload together, 1 to 10.
    pub variables: u32,
    /// Timestamps of each value.
    pub timestamps: Timestamps,
}

/// HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HttpMethod {
    /// The sink requests the payload.
    Get,
    /// The source sends the payload with PUT.
    Put,
    /// The source sends the payload with POST.
    Post,
}

impl Word for HttpMethod {
    const WHAT: &'static str = "a method";
    const WORDS: &'static [(&'static str, Self)] =
        &[("get", Self::Get), ("put", Self::Put), ("post", Self::Post)];
}

/// Options of HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http {
    /// Method.
    pub method: HttpMethod,
}

/// Options of QUIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quic {
    /// Whether a new connection to a known sink carries payload at once (0-RTT).
    pub early_data: bool,
    /// Whether QUIC probes for packets larger than 1200 B.
    pub mtu_discovery: bool,
}
