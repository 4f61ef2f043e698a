//! The input of a verdict.

use crate::busy::HostLoad;
use crate::tolerance::Deviation;
use record::{Reason, Status, Subject, Times};
use std::fmt;
use units::{Histogram, Span};

/// The input of a verdict.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Whether the CPU is part of the configuration, as in virtual time with a CPU of finite speed:
    /// then waiting for it is a result, not a fault of the machine.
    pub configured_cpu: bool,
    /// Whether programs take no CPU time, as in virtual time with an infinite CPU: then the machine
    /// cannot change a result, and its load is irrelevant.
    pub costless: bool,
    /// The smallest configured delay above 0; `None` without any.
    pub smallest_delay: Option<Span>,
    /// Lateness of delayed frames.
    pub delayed: Histogram,
    /// Lateness of undelayed frames.
    pub undelayed: Histogram,
    /// Round trips from the scheduled send time, in ms.
    pub rtd_ms: Option<Times>,
    /// Delay between scheduled and actual send time, in ms.
    pub slip_ms: Option<Times>,
    /// Messages that were scheduled and never sent.
    pub unsent: u64,
    /// CPU use of the host during the measurement.
    pub host: HostLoad,
    /// Frames that the kernel dropped between a node and the medium.
    pub kernel_drops: u64,
    /// Frames that networks rejected, and the node with the most of them.
    pub rejected: (u64, String),
    /// What nodes sent beyond the limits of tables, and the node with the most of each.
    pub overflows: Overflows,
    /// Datagrams dropped because the nodes' sockets were full.
    pub socket_drops: u64,
    /// Stalls of the medium's thread caused by the machine.
    pub stalls: engine::Stalls,
    /// Frames that the medium forwarded.
    pub frames: u64,
    /// Frames missing in the capture.
    pub capture_missed: u64,
    /// Parts of the run folder that a full disk did not take.
    pub lost: Vec<Lost>,
    /// Intervals and groups of links outside tolerance.
    pub deviations: Vec<Deviation>,
    /// Number of link directions that netem impaired, whose delays were not measured.
    pub unmeasured: usize,
    /// Byte counts of nodes in exchanges, and the medium's for the same frames.
    pub counts: Vec<Count>,
    /// Packets dropped because queues of the kernel's network stack were full.
    pub backlog_drops: u64,
    /// CPU wait of programs without throttling by limits, in percent of run and wait time.
    pub run_delay_pct: Option<f64>,
    /// The same per message sent, in ms: an upper bound of a message's mean delay by it. `None`
    /// without messages.
    pub run_delay_per_message_ms: Option<f64>,
    /// How well the senders of loads kept their schedules.
    pub loads: Vec<Submitted>,
    /// Results of contention probes, by core and mode.
    pub probes: Vec<Contended>,
    /// Number of intervals and groups of links that were compared with their configuration.
    pub compared: usize,
    /// Number of nodes whose programs or machines are emulated, and their groups.
    pub emulated: (usize, String),
    /// Failures of the run itself.
    pub failures: Vec<Failure>,
}

/// A part of the run folder that a full disk did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// What is missing, e.g. `the capture has not all frames`.
    pub what: String,
    /// Since when, in ms since offset 0; `None` if it was removed after the run.
    pub from_ms: Option<i64>,
}

/// What nodes sent beyond the limits of tables: how much, and who most of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overflows {
    /// Joins of multicast groups beyond the limit.
    pub groups: (u64, String),
    /// Ethernet addresses that switches forgot.
    pub addresses: (u64, String),
    /// Flows that random decisions forgot.
    pub flows: (u64, String),
    /// TCP flows that the counters of retransmissions forgot.
    pub connections: (u64, String),
    /// Bytes of programs' output that were not kept, and the log with the most.
    pub output: (u64, String),
}

/// Several counts of the same frames: by a node's kernel, the medium and the capture.
#[derive(Debug, Clone, PartialEq)]
pub struct Count {
    /// The node.
    pub node: String,
    /// `sent` or `received`.
    pub way: &'static str,
    /// Bytes counted by the node's kernel, link header included.
    pub kernel: u64,
    /// Bytes counted by the medium.
    pub medium: u64,
    /// Bytes of the frames in the capture; `None` unless it has all of the node's.
    pub capture: Option<u64>,
}

/// Results of the probes of one core and mode; deviations are fractions of the service time.
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
    /// Requests above the limit, in percent.
    pub over_pct: f64,
    /// Time of the worst, in seconds since offset 0.
    pub worst_s: f64,
}

/// How well one sender of a load kept its schedule; times in us.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// The sending node.
    pub node: String,
    /// Whether it had a schedule: an open loop has one.
    pub open: bool,
    /// Requests not sent, of `scheduled`.
    pub unsent: u64,
    /// See `unsent`.
    pub scheduled: u64,
    /// Mean time between two requests, as configured and as sent.
    pub expected_us: f64,
    /// See `expected_us`.
    pub submitted_us: f64,
    /// 99th percentile of the requests' slip, without their wait for a connection to the target.
    pub slip_p99_us: f64,
    /// 99th percentile of the requests' wait for a free connection to the target; `None` if
    /// requests never wait.
    pub wait_p99_us: Option<f64>,
}

/// A failure of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A program under test failed or was stopped early: the fault of the system under test.
    Program(String),
    /// The test bed or the user ended the run or lost a part of it.
    Bed(String),
}

impl Failure {
    /// The verdict's reason.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Program(text) => Reason::failure(Status::Failed, Subject::ProgramFailed, text),
            Self::Bed(text) => Reason::failure(Status::Invalid, Subject::RunFailed, text),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Program(text) | Self::Bed(text)) = self;
        f.write_str(text)
    }
}
