//! How a load is sent.

use crate::clock::{Nanos, SECOND};
use std::net::IpAddr;
use std::path::PathBuf;
use trace::{CoapSettings, Distribution};

/// How a load is sent.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long an answer may take, from when the request was sent, in ns.
    pub timeout: Nanos,
    /// CoAP requests are confirmable.
    pub confirmable: bool,
    /// Blocks, retransmission, NSTART and observation of CoAP.
    pub coap: CoapSettings,
    /// Whether answers are waited for; plain UDP and TCP can go without.
    pub answers: bool,
    /// Threads that send, each a part of the devices.
    pub senders: usize,
    /// The cores that they stay on, in turn; none lets the kernel choose.
    pub cores: Vec<usize>,
    /// Look at the clock all the time, and never sleep.
    pub spin: bool,
    /// Users who wait for their answers; none is an open loop.
    pub closed: Option<Closed>,
    /// TCP connections to one target at most, of each sender.
    pub connections: usize,
    /// The quality of service of MQTT messages: 0 or 1.
    pub qos: u8,
    /// How far behind the schedule it goes on, in ns; what is left then stays unsent.
    pub patience: Nanos,
    /// The address to send from.
    pub from: Option<IpAddr>,
    /// The moment that 0 means, on CLOCK_MONOTONIC; as soon as all is ready if none.
    pub start: Option<Nanos>,
    /// Keep each operation's times in this file.
    pub operations: Option<PathBuf>,
    /// The seed of what is drawn while it runs: think times.
    pub seed: u64,
}

/// Users who send when they have their answer.
#[derive(Debug, Clone)]
pub struct Closed {
    /// How many.
    pub users: usize,
    /// How long each waits after an answer.
    pub think: Option<Distribution>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: 2 * SECOND,
            confirmable: false,
            coap: CoapSettings::default(),
            answers: true,
            senders: 1,
            cores: Vec::new(),
            spin: false,
            closed: None,
            connections: 16,
            qos: 0,
            patience: 10 * SECOND,
            from: None,
            start: None,
            operations: None,
            seed: 1,
        }
    }
}
