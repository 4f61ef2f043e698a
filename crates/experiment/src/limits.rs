//! Ranges of numbers that the checks and the JSON Schema of the experiment file share.
//!
//! Ranges that programs other than the experiment file also check are in their crates: `link`,
//! `record` and `trace`.

use crate::problem::Problem;
use crate::read::{At, Sink};
use std::ops::RangeInclusive;

/// Ports of TCP and UDP.
pub(crate) const PORT: RangeInclusive<u32> = 1..=65_535;
/// VLANs that networks can be: those of IEEE 802.1Q without the default one, which is that of the switch.
pub(crate) const NETWORK_VLANS: RangeInclusive<u32> = 2..=4_094;
/// Nodes of an experiment, and so of a group.
pub(crate) const NODES: RangeInclusive<u32> = 1..=100_000;
/// Least share of CPUs: the kernel's shortest quota is 1 ms, and a period has 100 ms.
pub(crate) const LEAST_CPUS: f64 = 0.01;
/// Least number of processes with which a program, and a shell to look at it, can run.
pub(crate) const FEWEST_PROCESSES: u32 = 4;
/// Least number of repeats, messages, repetitions or processors: none would do nothing.
pub(crate) const ONE: u64 = 1;
/// CoreMark scores and scales of CPUs are above this.
pub(crate) const SCALE_ABOVE: f64 = 0.0;
/// Exit statuses of a program (POSIX.1-2017, `exit`).
pub(crate) const EXIT_STATUS: RangeInclusive<u32> = 0..=255;
/// Qualities of service of MQTT (MQTT 3.1.1, section 4.3).
pub(crate) const MQTT_QOS: RangeInclusive<u32> = 0..=2;
/// Qualities of service of MQTT that loads support.
pub(crate) const LOAD_QOS: RangeInclusive<u32> = 0..=1;
/// Users of a closed loop.
pub(crate) const USERS: RangeInclusive<u32> = 1..=100_000;
/// HTTP connections of a load per device.
pub(crate) const CONNECTIONS: RangeInclusive<u32> = 1..=10_000;
/// Sender threads of a load per node.
pub(crate) const SENDERS: RangeInclusive<u32> = 1..=256;
/// Requests that a device serves concurrently.
pub(crate) const DEVICE_THREADS: RangeInclusive<u32> = 1..=1_024;
/// Requests that a device queues.
pub(crate) const DEVICE_QUEUE: RangeInclusive<u32> = 0..=10_000_000;

/// The advice to use a number of a range.
pub(crate) fn use_range(range: &RangeInclusive<u32>) -> String {
    format!("use {} to {}", range.start(), range.end())
}

/// A port of TCP or UDP. `None`: the problem is in the sink.
pub(crate) fn port(at: &At<u32>, default: Option<u16>, sink: &mut Sink) -> Option<u16> {
    if let Some(port) = u16::try_from(at.value).ok().filter(|_| PORT.contains(&at.value)) {
        return Some(port);
    }
    let problem = Problem::new(format!("{} is not a port number", at.value)).at(at.place);
    let default = default.map(|port| format!("; the default is {port}")).unwrap_or_default();
    sink.add(problem.label(use_range(&PORT) + &default));
    None
}
