//! The results of an analysis. Later versions may add keys to this format; existing keys
//! keep their names and meanings.

use crate::messages::Counts;
use serde::Serialize;
use std::collections::BTreeMap;

/// The results of an analysis.
#[derive(Debug, Clone, Serialize)]
pub struct Analysis {
    /// The version of this format: 1.
    pub form: u32,
    /// Whether the file was read to its end and each packet up to its transport header, or
    /// to the point where it has none. `unread` is empty then.
    pub complete: bool,
    /// Whether the file was read to its end.
    pub read_to_end: bool,
    /// Limitations of the results. If the file ended early, the first note says where.
    pub notes: Vec<String>,
    /// Packets, each counted once even if several points saw it.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets that were truncated when captured.
    pub cut: u64,
    /// From the first packet to the last, in s.
    pub duration_s: f64,
    /// When the first packet was captured, in s since 1970.
    pub start_s: f64,
    /// The capture points.
    pub points: Vec<PointFigures>,
    /// Packets by size.
    pub sizes: Vec<SizeFigures>,
    /// Bytes by layer; their sum is `bytes`.
    pub layers: BTreeMap<String, u64>,
    /// Packets by kind.
    pub kinds: Vec<KindFigures>,
    /// Packets of kind `later fragment`, by the protocol of their datagram; most first.
    pub later_fragments: Vec<ProtocolFigures>,
    /// Packets of kind `icmp`, by message: neighbour discovery, MLD, RPL; most first.
    pub icmp_messages: Vec<ProtocolFigures>,
    /// Packets of kind `other`, by protocol; most first.
    pub other_protocols: Vec<ProtocolFigures>,
    /// Packets of kind `unread`, by capture point and reason; most first.
    pub unread: Vec<UnreadFigures>,
    /// Transport payload without repetitions.
    pub goodput: Goodput,
    /// All TCP segments.
    pub tcp: TcpFigures,
    /// Messages by protocol and type.
    pub messages: Counts,
    /// Completeness of the streams with messages.
    pub streams: StreamFigures,
    /// Loss and latency between points.
    pub paths: Vec<PathFigures>,
    /// Packets and bytes of each node or address.
    pub nodes: Vec<NodeFigures>,
    /// TCP connections and pairs of UDP ports, at each point; most bytes first.
    pub flows: Vec<FlowFigures>,
    /// What is not listed separately, because memory is limited.
    pub merged: MergedFigures,
}

/// What an analysis does not list separately. All 0 if nothing reached a limit.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct MergedFigures {
    /// Flows in the row `others` of `flows`; a flow that goes on after it was merged counts again.
    pub flows: u64,
    /// Packets sent and received in the row `others` of `nodes`.
    pub node_packets: u64,
    /// Packets of paths that are not in `paths`.
    pub path_packets: u64,
}

/// A capture point.
#[derive(Debug, Clone, Serialize)]
pub struct PointFigures {
    /// Its name; `node:interface` in Thingbed's captures.
    pub name: String,
    /// The number of packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// Packets in a range of sizes.
#[derive(Debug, Clone, Serialize)]
pub struct SizeFigures {
    /// The smallest size, in B.
    pub from: u32,
    /// The largest size, in B; None for the last bin.
    pub to: Option<u32>,
    /// The number of packets.
    pub packets: u64,
    /// Their share of all packets, in percent.
    pub share_pct: f64,
}

/// Packets of a kind.
#[derive(Debug, Clone, Serialize)]
pub struct KindFigures {
    /// The kind.
    pub kind: String,
    /// The number of packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Their share of all packets, in percent.
    pub packets_pct: f64,
    /// Their share of all bytes, in percent.
    pub bytes_pct: f64,
}

/// Packets of a protocol.
#[derive(Debug, Clone, Serialize)]
pub struct ProtocolFigures {
    /// Its name, e.g. `LLDP`.
    pub protocol: String,
    /// The number of packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// Packets that could not be read up to their transport header.
#[derive(Debug, Clone, Serialize)]
pub struct UnreadFigures {
    /// The capture point; `others` for a combined row.
    pub point: String,
    /// What could not be read: `link type`, `EtherType`, `PPP protocol`,
    /// `LLC service access point`, `address family`, `hardware type`, `MPLS payload`,
    /// `IP protocol`; `cut` and `damaged` for the packet itself; `other reasons` for a
    /// combined row.
    pub reason: &'static str,
    /// Its number in its registry.
    pub number: Option<u32>,
    /// Its name, if known.
    pub name: Option<&'static str>,
    /// The number of packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// Transport payload without repetitions.
#[derive(Debug, Clone, Serialize)]
pub struct Goodput {
    /// Bytes of messaging protocols and applications, without repetitions, in B.
    pub carried_bytes: u64,
    /// Of these, the applications' bytes, in B.
    pub payload_bytes: u64,
    /// `carried_bytes` as a share of all bytes, in percent.
    pub carried_pct: f64,
    /// `payload_bytes` as a share of all bytes, in percent.
    pub payload_pct: f64,
    /// Packets with transport payload, as a share of all packets, in percent.
    pub carrying_packets_pct: f64,
    /// `carried_bytes` over the duration, in bit/s.
    pub carried_bit_s: f64,
    /// `payload_bytes` over the duration, in bit/s.
    pub payload_bit_s: f64,
}

/// TCP statistics, as Wireshark's `tcp.analysis.*`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TcpFigures {
    /// Connections; a connection seen at two points counts at each.
    pub connections: u64,
    /// Segments.
    pub packets: u64,
    /// Retransmitted segments, for any reason.
    pub retransmissions: u64,
    /// Of these, fast retransmissions, soon after duplicate acknowledgements.
    pub fast_retransmissions: u64,
    /// Of these, retransmissions of acknowledged segments.
    pub spurious_retransmissions: u64,
    /// Out-of-order segments.
    pub out_of_order: u64,
    /// Duplicate acknowledgements.
    pub duplicate_acks: u64,
    /// Segments whose predecessor is missing from the capture.
    pub lost_segments: u64,
    /// Acknowledgements of bytes that are not in the capture.
    pub ack_lost_segments: u64,
    /// Keep-alives.
    pub keep_alives: u64,
    /// Answers to keep-alives.
    pub keep_alive_acks: u64,
    /// Segments that announce a receive window of 0.
    pub zero_windows: u64,
    /// Probes of a zero window: segments of one byte.
    pub zero_window_probes: u64,
    /// Answers to zero-window probes.
    pub zero_window_probe_acks: u64,
    /// Segments that change the receive window and nothing else.
    pub window_updates: u64,
    /// Segments that fill the receive window to its end.
    pub window_fulls: u64,
    /// SYNs that open a new connection on addresses and ports in use before.
    pub reused_ports: u64,
    /// Time from a segment to its acknowledgement, in ms.
    pub rtt_ms: Option<RttFigures>,
}

/// A distribution of times, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RttFigures {
    /// The number of samples.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The minimum.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The maximum.
    pub max: f64,
}

/// Times, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeFigures {
    /// The number of samples.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

/// Reassembled streams.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StreamFigures {
    /// Gaps: bytes that were acknowledged or skipped, but never captured.
    pub gaps: u64,
    /// How often parsing resumed at a later message after invalid bytes.
    pub resyncs: u64,
    /// Bytes skipped before parsing resumed.
    pub skipped_bytes: u64,
}

/// Packets from one point to another.
#[derive(Debug, Clone, Serialize)]
pub struct PathFigures {
    /// The sending point.
    pub from: String,
    /// The receiving point.
    pub to: String,
    /// Packets that arrived.
    pub delivered: u64,
    /// Packets that did not arrive.
    pub lost: u64,
    /// Packets that could still have arrived when the capture ended.
    pub under_way: u64,
    /// `lost` as a share of `lost` and `delivered`, in percent.
    pub loss_pct: f64,
    /// The latency, in ms.
    pub latency_ms: Option<TimeFigures>,
}

/// A node, or an address if the capture has no node names.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NodeFigures {
    /// Its name or address.
    pub node: String,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent, on the wire.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received, on the wire.
    pub rx_bytes: u64,
    /// Messages sent, of all protocols.
    pub messages: u64,
    /// Retransmitted segments.
    pub retransmissions: u64,
}

/// A TCP connection or a pair of UDP ports, as seen at one point.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FlowFigures {
    /// The capture point.
    pub point: String,
    /// `tcp` or `udp`.
    pub transport: &'static str,
    /// The protocol of its messages, if known.
    pub protocol: Option<&'static str>,
    /// The initiator: address and port.
    pub a: String,
    /// The other end.
    pub b: String,
    /// The time of its first packet, in s since the capture's first packet.
    pub start_s: f64,
    /// From its first packet to its last, in s.
    pub duration_s: f64,
    /// From `a` to `b`.
    pub forward: DirectionFigures,
    /// From `b` to `a`.
    pub back: DirectionFigures,
}

/// One direction of a flow.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DirectionFigures {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Bytes that the transport carried, including repetitions.
    pub carried_bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Retransmitted segments, for any reason.
    pub retransmissions: u64,
    /// Of these, fast retransmissions, soon after duplicate acknowledgements.
    pub fast_retransmissions: u64,
    /// Of these, retransmissions of acknowledged segments.
    pub spurious_retransmissions: u64,
    /// Out-of-order segments.
    pub out_of_order: u64,
    /// Duplicate acknowledgements.
    pub duplicate_acks: u64,
    /// Segments whose predecessor is missing from the capture.
    pub lost_segments: u64,
    /// Gaps in the stream.
    pub gaps: u64,
    /// Time from a segment of the other direction to its acknowledgement in this direction,
    /// in ms.
    pub rtt_ms: Option<TimeFigures>,
}
