//! The settings of a load.

use std::net::IpAddr;
use std::path::PathBuf;
use trace::{CoapSettings, Distribution};
use units::{Instant, Span};

/// The settings of a load.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The timeout for an answer, from the send time.
    pub timeout: Span,
    /// Whether CoAP requests are confirmable.
    pub confirmable: bool,
    /// CoAP blocks, retransmission, NSTART and observation.
    pub coap: CoapSettings,
    /// Whether to wait for answers; optional for plain UDP and TCP.
    pub answers: bool,
    /// The number of sender threads; each has a part of the devices.
    pub senders: usize,
    /// The cores that sender threads are pinned to, in turn; empty: no pinning.
    pub cores: Vec<usize>,
    /// Whether senders spin instead of sleeping.
    pub spin: bool,
    /// The users of a closed loop; None for an open loop.
    pub closed: Option<Closed>,
    /// The maximum number of TCP connections of each sender to one target.
    pub connections: usize,
    /// MQTT quality of service: 0 or 1.
    pub qos: u8,
    /// How far a sender may fall behind the schedule before it leaves the rest
    /// unsent.
    pub patience: Span,
    /// The local address.
    pub from: Option<IpAddr>,
    /// Time 0 of the schedule, on CLOCK_MONOTONIC; None: as soon as all is ready.
    pub start: Option<Instant>,
    /// The file for the times of each operation.
    pub operations: Option<PathBuf>,
    /// The seed of random values drawn during the run: think times.
    pub seed: u64,
}

/// Users that each send the next request after their answer.
#[derive(Debug, Clone)]
pub struct Closed {
    /// The number of users.
    pub users: usize,
    /// The think time after an answer.
    pub think: Option<Distribution>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: Span::from_s(2),
            confirmable: false,
            coap: CoapSettings::default(),
            answers: true,
            senders: 1,
            cores: Vec::new(),
            spin: false,
            closed: None,
            connections: 16,
            qos: 0,
            patience: Span::from_s(10),
            from: None,
            start: None,
            operations: None,
            seed: 1,
        }
    }
}
