//! The figures of a run: `summary.json`.

use crate::figure::{Over, Scope, figures};
use crate::timeline::Quarter;
use crate::verdict::Verdict;
use crate::workload_figures::{Exchanges, Load, Probes, Samples};
use crate::{Cell, Figure, Shape};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

figures! {
    /// The figures of a run. A file of an earlier version may lack some of them.
    pub struct Summary {
        /// name of the experiment
        experiment: String,
        /// axes and values, all strings
        cell: Cell,
        /// seed of all random values
        seed: u64,
        /// number of the repeat, from 0
        repeat: u64,
        /// whether the figures can be trusted
        verdict: Verdict,
        /// messages of all interactions
        messages: Messages,
        /// nodes of MQTT workloads
        mqtt: Option<Mqtt>,
        /// exchanges, by workload
        exchanges: Option<BTreeMap<String, Exchanges>>,
        /// loads, by workload
        loads: Option<BTreeMap<String, Load>>,
        /// contention probes, by workload
        probes: Option<BTreeMap<String, Probes>>,
        /// values that programs printed: by command or group, and by metric
        programs: Option<BTreeMap<String, BTreeMap<String, Samples>>>,
        /// nodes, by group
        groups: BTreeMap<String, Group>,
        /// all groups
        all: Group,
        /// the medium itself
        links: Links,
    }

    /// The messages of all interactions.
    pub struct Messages {
        /// messages sent
        sent: u64,
        /// messages received (`delivered` is the same, for older readers)
        received: u64 => .earlier(&["delivered"]),
        /// messages whose sender received an answer (`replies` is the same, for older readers)
        answered: u64 => .earlier(&["replies"]),
        /// the earlier name of `received`
        delivered: u64,
        /// the earlier name of `answered`
        replies: u64,
        /// messages scheduled but never sent
        unsent: u64,
        /// messages that a broker acknowledged to their sender
        acknowledged: u64,
        /// acknowledged messages that were never received
        acknowledged_lost: u64,
        /// messages received after a later one of the same sender
        reordered: u64,
        /// share of the sent messages that were not received
        lost_pct: f64 => .unit("%").head("lost"),
        /// share of the sent messages without an answer; null if all are one-way
        unanswered_pct: Option<f64> => .unit("%").head("unanswered").earlier(&["loss_pct"]),
        /// share of the sent messages that failed: `unanswered_pct`, for one-way messages `lost_pct`
        loss_pct: f64 => .unit("%"),
        /// extra copies of messages and answers
        duplicates: u64,
        /// answers received after the end of the schedule
        late: u64,
        /// round trip from the scheduled send time to the answer
        rtd_ms: Option<Times> => .unit("ms").head("round trip"),
        /// round trip from the actual send time to the answer
        rtd_from_sent_ms: Option<Times> => .unit("ms"),
        /// one-way time from the scheduled send time to the receipt
        down_ms: Option<Times> => .unit("ms"),
        /// from the actual send time to the broker's acknowledgement
        acknowledged_ms: Option<Times> => .unit("ms"),
        /// actual minus scheduled send time
        slip_ms: Option<Times> => .unit("ms"),
        /// development of the load, for each quarter of the schedule: `offered`, `answered`,
        /// `outstanding` and the mean `response_ms`, as in [loads](#summaryjson) below
        quarters: [Quarter; 4],
    }

    /// Statistics of times, in the unit of their key.
    #[derive(Copy)]
    pub struct Times {
        /// arithmetic mean
        mean: f64,
        /// median
        p50: f64,
        /// 90th percentile
        p90: f64,
        /// 95th percentile
        p95: f64,
        /// 99th percentile
        p99: f64,
        /// maximum
        max: f64,
    }

    /// The nodes of MQTT workloads after all clients have joined.
    pub struct Mqtt {
        /// nodes that run a broker
        broker: MqttRole,
        /// nodes that subscribe
        subscriber: MqttRole,
        /// nodes that publish; a client that publishes and subscribes counts as both
        publisher: MqttRole,
        /// CPU usage of the host, in percent of all CPUs
        host_cpu_pct: Option<f64> => .unit("%"),
        /// begin of the time range of these figures; byte rates use the complete intervals in it
        from_s: f64 => .unit("s"),
        /// its end
        to_s: f64 => .unit("s"),
    }

    /// The nodes of one role in MQTT workloads; means per node.
    pub struct MqttRole {
        /// number of nodes
        nodes: u64,
        /// mean CPU usage, in percent of one CPU
        cpu_pct: Option<f64> => .unit("%"),
        /// mean rate of sent bytes on the wire
        tx_bytes_s: f64 => .unit("B/s"),
        /// mean rate of received bytes on the wire
        rx_bytes_s: f64 => .unit("B/s"),
    }

    /// The nodes of a group, from the start of the measurement to its end.
    pub struct Group {
        /// number of nodes
        nodes: u64,
        /// bytes sent
        tx_bytes: u64 => .unit("B").column(Scope::EachGroup, "sent"),
        /// bytes received
        rx_bytes: u64 => .unit("B"),
        /// frames sent
        tx_frames: u64,
        /// frames received
        rx_frames: u64,
        /// payload that interactions passed to their transports: once per receiver, over PGM once
        /// for all
        payload_bytes: u64 => .unit("B"),
        /// `tx_bytes` minus `payload_bytes`, or minus `carried_bytes` if those are fewer, because a
        /// transport may hold payload that it never sent; 0 for a group that runs commands, because
        /// their payload is unknown
        overhead_bytes: u64 => .unit("B").column(Scope::AllGroups, "overhead"),
        /// of `tx_bytes`: Ethernet and IP headers, padding, frames that are not IP
        lower_bytes: u64 => .unit("B"),
        /// of `tx_bytes`: headers of TCP, UDP and PGM, and all of ICMP and IGMP
        transport_bytes: u64 => .unit("B"),
        /// of `tx_bytes`: content of the transports: payload and messaging protocol
        carried_bytes: u64 => .unit("B"),
        /// sent frames without content: acknowledgements, PGM control messages, ARP, group reports
        control_frames: u64,
        /// bytes of these frames
        control_bytes: u64 => .unit("B"),
        /// sent frames with only retransmitted TCP bytes, and PGM repairs
        retransmitted_frames: u64,
        /// bytes of these frames
        retransmitted_bytes: u64 => .unit("B").column(Scope::AllGroups, "retransmitted"),
        /// of `rx_bytes`: as `lower_bytes`
        rx_lower_bytes: u64 => .unit("B"),
        /// of `rx_bytes`: as `transport_bytes`
        rx_transport_bytes: u64 => .unit("B"),
        /// of `rx_bytes`: as `carried_bytes`
        rx_carried_bytes: u64 => .unit("B"),
        /// received frames without content
        rx_control_frames: u64,
        /// bytes of these frames
        rx_control_bytes: u64 => .unit("B"),
        /// CPU time of the programs from the start of the measurement to their end
        cpu_ms: Option<f64> => .unit("ms").column(Scope::AllGroups, "CPU"),
        /// CPU time per message: `cpu_ms` divided by the messages that the group's nodes sent or
        /// received, one per receiver; for a group that does neither (a broker), by all received
        /// messages; for `all`, by all sent messages. Null if there is none
        cpu_us_per_message: Option<f64> => .unit("us").over(Over::Anew),
        /// for a group with a `board`: estimated energy that its boards would draw from their
        /// batteries; null if a radio's time on air is unknown because neither the link nor the
        /// board has a rate. Not in `all`
        #[serde(skip_serializing_if = "Option::is_none")]
        energy_j: Option<Option<f64>> => .unit("J"),
        /// the same per message, as for CPU time
        #[serde(skip_serializing_if = "Option::is_none")]
        energy_j_per_message: Option<Option<f64>>
            => .unit("J").over(Over::Anew).column(Scope::EachGroup, "energy per message"),
        /// battery life of the board that draws most; see [energy.md](energy.md)
        #[serde(skip_serializing_if = "Option::is_none")]
        battery_days: Option<Option<f64>> => .unit("days").over(Over::Min),
        /// energy of the radios while they sent, for a group with a `board` that has a radio; also in
        /// virtual time, because it does not depend on the CPU
        #[serde(skip_serializing_if = "Option::is_none")]
        radio_transmit_j: Option<Option<f64>> => .unit("J"),
        /// energy of the radios while they received, frames for them or not
        #[serde(skip_serializing_if = "Option::is_none")]
        radio_receive_j: Option<Option<f64>> => .unit("J"),
        /// energy of the radios while they did neither: listening and asleep
        #[serde(skip_serializing_if = "Option::is_none")]
        radio_idle_j: Option<Option<f64>> => .unit("J"),
        /// time for which nodes of a group with a `board` were off or paused, and took no energy: all
        /// nodes together
        #[serde(skip_serializing_if = "Option::is_none")]
        off_s: Option<Option<f64>> => .unit("s"),
        /// largest resident memory of any single program
        rss_max_bytes: u64 => .unit("B").over(Over::Max),
        /// time that programs which ran from start to end waited for a CPU, without throttling by
        /// limits
        run_delay_ms: Option<f64> => .unit("ms"),
        /// the medium's count of sent frames since the nodes started
        medium_tx_frames: u64,
        /// the medium's count of received frames since the nodes started
        medium_rx_frames: u64,
        /// the kernel's count of sent frames at the nodes' interfaces since then, for comparison; a
        /// super-frame counts as its segments
        kernel_tx_frames: u64,
        /// the kernel's count of received frames
        kernel_rx_frames: u64,
    }

    /// The medium itself.
    pub struct Links {
        /// forwarding lateness: actual minus planned time at which frames left the medium
        delay_error_us: Lateness => .unit("us"),
        /// frames accepted by a queue, counted in each direction that they passed
        frames: u64,
        /// configured loss over the directions that have one, weighted by frames
        #[serde(alias = "loss_asked_pct")]
        loss_configured_pct: f64 => .unit("%").earlier(&["loss_asked_pct"]),
        /// measured loss over the same directions
        #[serde(alias = "loss_got_pct")]
        loss_measured_pct: f64 => .unit("%").earlier(&["loss_got_pct"]),
        /// frames dropped at full queues
        overflow_frames: u64,
        /// frames dropped while their link was down
        outage_frames: u64,
        /// frames dropped on contended channels: collisions, or no channel access
        contention_frames: u64,
        /// of these, frames without channel access
        no_access_frames: u64,
        /// of `contention_frames`, frames for which LoRa gateways had no demodulator
        no_demodulator_frames: u64,
        /// of `contention_frames`, frames during which LoRa gateways sent
        half_duplex_frames: u64,
        /// frames dropped because the signal was too weak at the receiver, for the distance or by a table of losses
        weak_signal_frames: u64,
        /// frames dropped because their packet was longer than the path's MTU
        too_long_frames: u64,
        /// frames rejected because they are not valid on their link
        rejected_frames: u64,
        /// intervals of links outside tolerance
        #[serde(alias = "not_as_asked")]
        out_of_tolerance: u64 => .earlier(&["not_as_asked"]),
    }

    /// Statistics of the forwarding lateness.
    pub struct Lateness {
        /// median
        p50: f64,
        /// 99th percentile
        p99: f64,
        /// maximum
        max: f64,
    }
}

impl Summary {
    /// The figure at a path such as `messages.rtd_ms.p50`.
    ///
    /// # Errors
    /// If there is none: the number of parts that exist, and what is there.
    pub fn figure(path: &str) -> Result<Figure, (usize, Shape)> {
        let parts: Vec<&str> = path.split('.').collect();
        <Self as crate::Part>::shape().figure(&parts)
    }

    /// The verdict in a file; an unknown one if the file has none.
    pub fn verdict_in(file: &Value) -> Verdict {
        let verdict = Self::verdict.of(file).map(Verdict::deserialize);
        verdict.and_then(Result::ok).unwrap_or_default()
    }

    /// The number at a path such as `groups.*.cpu_ms` in a file, of this version or an earlier one;
    /// see [`Shape::value`].
    pub fn value(file: &Value, path: &str) -> Option<f64> {
        let parts: Vec<&str> = path.split('.').collect();
        <Self as crate::Part>::shape().value(file, &parts)
    }
}
