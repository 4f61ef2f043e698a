//! What can be chosen of OPC UA, HTTP and QUIC in exchanges.

use crate::scalar::Word;
use serde::{Deserialize, Serialize};

/// Which times an OPC UA server sends with each value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timestamps {
    /// When the value came to be.
    Source,
    /// When the server knew of it.
    Server,
    /// Both.
    Both,
    /// None.
    Neither,
}

impl Word for Timestamps {
    const WHAT: &'static str = "a distribution of times";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("source", Self::Source),
        ("server", Self::Server),
        ("both", Self::Both),
        ("neither", Self::Neither),
    ];
}

/// What can be chosen of OPC UA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opcua {
    /// How many variables hold a payload together, 1 to 10.
    pub variables: u32,
    /// Which times come with each.
    pub timestamps: Timestamps,
}

/// What is asked of a resource by HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HttpMethod {
    /// The sink asks for the payload.
    Get,
    /// The source puts it.
    Put,
    /// The source posts it.
    Post,
}

impl Word for HttpMethod {
    const WHAT: &'static str = "a method";
    const WORDS: &'static [(&'static str, Self)] =
        &[("get", Self::Get), ("put", Self::Put), ("post", Self::Post)];
}

/// What can be chosen of HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http {
    /// What is asked of the resource.
    pub method: HttpMethod,
}

/// What can be chosen of QUIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quic {
    /// Whether a new connection to a sink that is known carries payload at once.
    pub early_data: bool,
    /// Whether larger packets than 1200 B are tried for.
    pub mtu_discovery: bool,
}
