//! What a verdict is drawn from.

use crate::host::HostUse;
use crate::latency::{Latency, Summary};
use crate::tolerance::Deviation;
use crate::verdict::{Reason, Status};
use std::fmt;

/// What a verdict is drawn from.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Whether the CPU is a part of what was configured, as in virtual time with a CPU of finite
    /// speed: that programs wait for it is a result then, and no fault of the machine.
    pub configured_cpu: bool,
    /// Whether programs cost no time, as in virtual time with an infinite CPU: the machine then
    /// cannot change a figure, and what it does says nothing.
    pub costless: bool,
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
    /// Frames that networks rejected, and the node with the most of them.
    pub rejected: (u64, String),
    /// Datagrams that the nodes' sockets had no room for.
    pub socket_drops: u64,
    /// When the machine did not let the medium run.
    pub stalls: medium::Stalls,
    /// Frames that the medium carried.
    pub frames: u64,
    /// Frames that a capture lacks.
    pub capture_missed: u64,
    /// Intervals and groups of links that did not do what they were configured to do.
    pub deviations: Vec<Deviation>,
    /// Directions of links that netem impaired, whose delays nobody measured.
    pub unmeasured: usize,
    /// What nodes counted of their own frames in exchanges, and the medium of theirs.
    pub counts: Vec<Count>,
    /// Packets that found no room in the queues of the kernel's network work.
    pub backlog_drops: u64,
    /// What programs waited for a CPU that no limit kept from them, in percent of what they
    /// ran and waited.
    pub run_delay_pct: Option<f64>,
    /// The same for each message that was sent, in ms: at most so much longer did a message take
    /// on average. None without messages.
    pub run_delay_per_message_ms: Option<f64>,
    /// How the senders of loads kept their schedules.
    pub loads: Vec<Submitted>,
    /// What contention probes saw, by core and mode.
    pub probes: Vec<Contended>,
    /// Intervals and groups of links that were compared with their configuration.
    pub compared: usize,
    /// What went wrong with the run itself.
    pub failures: Vec<Failure>,
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

/// What the probes of one core and mode saw; deviations are shares of the service time.
#[derive(Debug, Clone, PartialEq)]
pub struct Contended {
    /// The core.
    pub core: u32,
    /// How the service time was spent.
    pub mode: String,
    /// The mean deviation.
    pub mean: f64,
    /// The median deviation.
    pub median: f64,
    /// The share of requests above the limit, in percent.
    pub over_pct: f64,
    /// When the worst was, in seconds since offset 0.
    pub worst_s: f64,
}

/// How one sender of a load kept its schedule; times in us.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// The node that sent.
    pub node: String,
    /// Whether it had a schedule to keep: an open loop has.
    pub open: bool,
    /// Requests that it did not send, of all.
    pub unsent: u64,
    /// See `unsent`.
    pub scheduled: u64,
    /// The mean time between two requests, as asked for and as sent.
    pub expected_us: f64,
    /// See `expected_us`.
    pub submitted_us: f64,
    /// By how much 99 of 100 requests were not later than meant, their wait for a connection
    /// to the target left out.
    pub slip_p99_us: f64,
    /// How long 99 of 100 requests waited at most for a free connection to their target; none
    /// where requests never wait.
    pub wait_p99_us: Option<f64>,
}

/// Something that went wrong with a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A program under test failed, or was cut off: the system's own doing.
    Program(String),
    /// The test bed or the user ended the run or lost a part of it.
    Bed(String),
}

impl Failure {
    /// What a verdict says of it.
    pub(crate) fn reason(&self) -> Reason {
        let (status, name, meaning, detail) = match self {
            Self::Program(text) => (
                Status::Failed,
                "a program failed",
                "the figures are of a run in which not all programs did their work",
                text,
            ),
            Self::Bed(text) => (Status::Invalid, "the run did not go as planned", "", text),
        };
        Reason {
            status,
            name: name.to_owned(),
            value: None,
            limit: None,
            unit: String::new(),
            meaning: meaning.to_owned(),
            detail: detail.clone(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Program(text) | Self::Bed(text)) = self;
        f.write_str(text)
    }
}
