//! The settings of a device.

use super::misbehaviour::MisbehaviourShares;
use std::net::SocketAddr;
use trace::{Distribution, Resource};

/// The settings of a device.
#[derive(Debug, Clone)]
pub struct DeviceSettings {
    /// The address of the CoAP server over UDP.
    pub coap: Option<SocketAddr>,
    /// The address of the HTTP/1.1 server.
    pub http: Option<SocketAddr>,
    /// The address of the UDP echo server.
    pub udp: Option<SocketAddr>,
    /// The address of the TCP echo server.
    pub tcp: Option<SocketAddr>,
    /// Its resources.
    pub resources: Vec<Resource>,
    /// Server threads: the number of requests in service at once.
    pub threads: usize,
    /// The maximum number of waiting requests; further ones are refused (5.03, 503).
    pub queue: usize,
    /// The payload size of answers, in bytes.
    pub payload: usize,
    /// The time between changes of a resource's value while it is observed over CoAP (RFC
    /// 7641). None: resources are not observable.
    pub notify: Option<Distribution>,
    /// Intentional misbehaviour.
    pub misbehaviour: MisbehaviourShares,
    /// The core that its threads are pinned to.
    pub core: Option<usize>,
    /// Whether receivers spin instead of sleeping.
    pub spin: bool,
    /// The seed of service times and misbehaviour.
    pub seed: u64,
}
