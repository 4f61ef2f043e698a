//! What a verdict is drawn from.

use crate::host::HostUse;
use crate::latency::{Latency, Summary};

/// What a verdict is drawn from.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The smallest delay that a link with any asks for, in ns; 0 when none does.
    pub smallest_delay_ns: u64,
    /// How late frames left that a link was to hold back.
    pub held: Latency,
    /// How late frames left that were to be passed on at once.
    pub passed: Latency,
    /// Round trips, from the time a message was meant to be sent, in ms.
    pub rtd_ms: Option<Summary>,
    /// How late messages were sent, in ms.
    pub slip_ms: Option<Summary>,
    /// Messages that were scheduled and never sent.
    pub unsent: u64,
    /// The host's use while the run was measured.
    pub host: Vec<HostUse>,
    /// Spans in which messages were under way, ns of CLOCK_MONOTONIC.
    pub under_way: Vec<(u64, u64)>,
    /// Frames that the kernel dropped between a node and the medium.
    pub kernel_drops: u64,
    /// Datagrams that the nodes' sockets had no room for.
    pub socket_drops: u64,
    /// When the machine did not let the medium run.
    pub stalls: medium::Stalls,
    /// Frames that the medium carried.
    pub frames: u64,
    /// Frames that a capture lacks.
    pub capture_missed: u64,
    /// Intervals of links in which what was asked was not given.
    pub broken: Vec<Broken>,
    /// Directions of links that netem impaired, whose delays nobody measured.
    pub unmeasured: usize,
    /// What nodes counted of their own frames in exchanges, and the medium of theirs.
    pub counts: Vec<Count>,
    /// Intervals of links in which frames came.
    pub intervals: usize,
    /// What went wrong with the run itself, e.g. a program that died.
    pub failures: Vec<String>,
}

/// What several have counted of the same frames: a node's kernel, the medium, the
/// capture.
#[derive(Debug, Clone, PartialEq)]
pub struct Count {
    /// The node.
    pub node: String,
    /// `sent` or `received`.
    pub way: &'static str,
    /// Bytes by the node's kernel, link header included.
    pub kernel: u64,
    /// Bytes by the medium.
    pub medium: u64,
    /// Bytes of the frames in the capture, where it holds all of the node's.
    pub capture: Option<u64>,
}

/// An interval of a link in which what was asked was not given.
#[derive(Debug, Clone, PartialEq)]
pub struct Broken {
    /// Whose link, and which way.
    pub link: String,
    /// When it was, in seconds since offset 0.
    pub from_s: f64,
    /// See `from_s`.
    pub to_s: f64,
    /// What was not given.
    pub what: &'static str,
    /// What was asked, what was got, and how far they may be apart.
    pub asked: f64,
    /// See `asked`.
    pub got: f64,
    /// See `asked`.
    pub tolerance: f64,
    /// The unit of these.
    pub unit: &'static str,
}
