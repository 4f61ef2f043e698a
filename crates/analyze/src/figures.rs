//! What an analysis says, as it is printed and kept. Keys may be added to this
//! form; what is there is not renamed and keeps its meaning.

use crate::messages::Counts;
use serde::Serialize;
use std::collections::BTreeMap;

/// What is in a capture.
#[derive(Debug, Clone, Serialize)]
pub struct Analysis {
    /// The number of this form: 1.
    pub form: u32,
    /// Whether the file was read to its end and each packet as far as its transport header,
    /// or to where it has none: `unread` is empty then.
    pub complete: bool,
    /// Whether the file was read to its end.
    pub read_to_end: bool,
    /// What keeps the figures from being whole. First, where the file ended too early, if so.
    pub notes: Vec<String>,
    /// Packets, each counted once even if several points saw it.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets that the capture has cut short.
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
    /// Packets of kind `other`, by protocol; most first.
    pub other_protocols: Vec<ProtocolFigures>,
    /// Packets of kind `unread`, by capture point and reason; most first.
    pub unread: Vec<UnreadFigures>,
    /// What arrived of use.
    pub goodput: Goodput,
    /// All of TCP.
    pub tcp: TcpFigures,
    /// Messages by protocol and type.
    pub messages: Counts,
    /// How whole the streams are that messages were read from.
    pub streams: StreamFigures,
    /// Loss and latency from point to point.
    pub paths: Vec<PathFigures>,
    /// What each node or address sent and received.
    pub nodes: Vec<NodeFigures>,
    /// Connections of TCP and pairs of UDP ports, at each point; most bytes first.
    pub flows: Vec<FlowFigures>,
}

/// A capture point.
#[derive(Debug, Clone, Serialize)]
pub struct PointFigures {
    /// Its name, `node:interface` in captures of Thingbed's.
    pub name: String,
    /// Packets that it saw.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// Packets of some sizes.
#[derive(Debug, Clone, Serialize)]
pub struct SizeFigures {
    /// The least, in B.
    pub from: u32,
    /// The greatest, in B; none for the last bin.
    pub to: Option<u32>,
    /// How many.
    pub packets: u64,
    /// Their share of all packets.
    pub share_pct: f64,
}

/// Packets of a kind.
#[derive(Debug, Clone, Serialize)]
pub struct KindFigures {
    /// What they are for.
    pub kind: String,
    /// How many.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Their share of all packets.
    pub packets_pct: f64,
    /// Their share of all bytes.
    pub bytes_pct: f64,
}

/// Packets of a protocol.
#[derive(Debug, Clone, Serialize)]
pub struct ProtocolFigures {
    /// Its name, as in `LLDP`.
    pub protocol: String,
    /// How many.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// Packets that could not be read as far as their transport header.
#[derive(Debug, Clone, Serialize)]
pub struct UnreadFigures {
    /// The capture point; `others` for a row that adds up many.
    pub point: String,
    /// What could not be read: `link type`, `EtherType`, `PPP protocol`, `LLC service access
    /// point`, `address family`, `hardware type`, `MPLS payload`, `IP protocol`; `cut` and
    /// `damaged` if it was the packet; `other reasons` for a row that adds up many.
    pub reason: &'static str,
    /// Its number in its registry.
    pub number: Option<u32>,
    /// Its name, where it is known.
    pub name: Option<&'static str>,
    /// How many.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// What transports carried for the first time.
#[derive(Debug, Clone, Serialize)]
pub struct Goodput {
    /// What messaging protocols and applications sent, without what was repeated, in B.
    pub carried_bytes: u64,
    /// Of it, the applications' own, in B.
    pub payload_bytes: u64,
    /// `carried_bytes` as a share of all bytes.
    pub carried_pct: f64,
    /// `payload_bytes` as a share of all bytes.
    pub payload_pct: f64,
    /// Packets that carried anything, as a share of all.
    pub carrying_packets_pct: f64,
    /// `carried_bytes` over the duration, in bit/s.
    pub carried_bit_s: f64,
    /// `payload_bytes` over the duration, in bit/s.
    pub payload_bit_s: f64,
}

/// TCP, as Wireshark judges it (`tcp.analysis.*`).
#[derive(Debug, Clone, Default, Serialize)]
pub struct TcpFigures {
    /// Connections; one that two points saw counts at each.
    pub connections: u64,
    /// Segments.
    pub packets: u64,
    /// Segments that were sent again, for any reason.
    pub retransmissions: u64,
    /// Of them, those sent soon after duplicate acknowledgements.
    pub fast_retransmissions: u64,
    /// Of them, those that had been acknowledged.
    pub spurious_retransmissions: u64,
    /// Segments that later ones overtook.
    pub out_of_order: u64,
    /// Acknowledgements that repeat the one before.
    pub duplicate_acks: u64,
    /// Segments before which one is missing from the capture.
    pub lost_segments: u64,
    /// Acknowledgements of bytes that are not in the capture.
    pub ack_lost_segments: u64,
    /// Keep-alives.
    pub keep_alives: u64,
    /// Answers to keep-alives.
    pub keep_alive_acks: u64,
    /// Segments that announce a receive window of 0.
    pub zero_windows: u64,
    /// Segments of one byte against a window of 0.
    pub zero_window_probes: u64,
    /// Answers to them.
    pub zero_window_probe_acks: u64,
    /// Segments that change the receive window and nothing else.
    pub window_updates: u64,
    /// Segments that fill the receive window to its end.
    pub window_fulls: u64,
    /// SYNs that open a new connection on the addresses and ports of another.
    pub reused_ports: u64,
    /// From a segment to its acknowledgement, in ms.
    pub rtt_ms: Option<RttFigures>,
}

/// A distribution of times, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RttFigures {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The shortest.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// What 95 % are below.
    pub p95: f64,
    /// What 99 % are below.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// Times, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeFigures {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The shortest.
    pub min: f64,
    /// The longest.
    pub max: f64,
}

/// Streams as they were put together.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StreamFigures {
    /// Holes: bytes that were acknowledged or passed by, and never captured.
    pub gaps: u64,
    /// Times that messages were taken up again after bytes that made no sense.
    pub resyncs: u64,
    /// Bytes that were passed over for that.
    pub skipped_bytes: u64,
}

/// Packets from one point to another.
#[derive(Debug, Clone, Serialize)]
pub struct PathFigures {
    /// Where they were sent.
    pub from: String,
    /// Where they were to arrive.
    pub to: String,
    /// Those that did.
    pub delivered: u64,
    /// Those that did not.
    pub lost: u64,
    /// Those that may still have when the capture ended.
    pub under_way: u64,
    /// `lost` as a share of `lost` and `delivered`.
    pub loss_pct: f64,
    /// How long they took, in ms.
    pub latency_ms: Option<TimeFigures>,
}

/// A node, or an address where the capture does not name nodes.
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
    /// Segments sent again.
    pub retransmissions: u64,
}

/// A connection of TCP or a pair of UDP ports, as one point saw it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FlowFigures {
    /// The capture point.
    pub point: String,
    /// `tcp` or `udp`.
    pub transport: &'static str,
    /// The protocol of its messages, where it is known.
    pub protocol: Option<&'static str>,
    /// Who began: address and port.
    pub a: String,
    /// The other end.
    pub b: String,
    /// When its first packet came, in s from the capture's first.
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
    /// Bytes that the transport carried, what was repeated included.
    pub carried_bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Sent again, whatever the reason.
    pub retransmissions: u64,
    /// Of them, at once after repeated acknowledgements.
    pub fast_retransmissions: u64,
    /// Of them, those that had been acknowledged.
    pub spurious_retransmissions: u64,
    /// Overtaken by later ones.
    pub out_of_order: u64,
    /// Acknowledgements that repeat the one before.
    pub duplicate_acks: u64,
    /// Segments before which something is missing.
    pub lost_segments: u64,
    /// Holes in the stream.
    pub gaps: u64,
    /// How long after what they acknowledge this direction's segments came, in ms.
    pub rtt_ms: Option<TimeFigures>,
}
