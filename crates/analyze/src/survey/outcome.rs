//! Builds the analysis at the end of the capture.

use super::{Endpoint, Survey};
use crate::error::Error;
use crate::figures::{
    Analysis, FlowFigures, Goodput, MergedFigures, NodeFigures, ProtocolFigures, StreamFigures,
    TcpFigures,
};
use crate::flow::{Flow, Sums};
use crate::kinds::percent;
use crate::marks::{Mark, MarkCounts};
use crate::names;
use std::collections::HashMap;

/// A packet sent within this time before the capture's end may not have arrived yet, in ns.
const RECENT: u64 = 1_000_000_000;

impl Survey<'_> {
    /// Builds the analysis. `ended` says why the file could not be read to its end, if so.
    ///
    /// # Errors
    /// When the capture lacks a capture point of the options.
    pub(super) fn finish(mut self, ended: Option<String>) -> Result<Analysis, Error> {
        // Only now, since a capture may name its points anywhere in the file.
        let ends = self.options.between.iter().flat_map(|(from, to)| [from, to]);
        let mut points = self.options.points.iter().chain(ends);
        if let Some(missing) = points.find(|name| self.points.find(name).is_none()) {
            return Err(self.points.lacks(missing));
        }
        self.unfinished_at_the_end();
        let mut flows = std::mem::take(&mut self.flows);
        let mut sums = Sums {
            kinds: &mut self.kinds,
            messages: &mut self.messages,
            uncounted: &mut self.uncounted,
        };
        // Before the kinds are read: what waited is counted by this.
        for flow in &mut flows {
            flow.end(&mut sums);
            self.gaps += flow.sides.iter().map(|side| side.gaps).sum::<u64>();
        }
        let start = self.start.unwrap_or(0);
        let mut rows = rows(&flows, self.points.names(), start);
        let (unread, unread_notes) = std::mem::take(&mut self.unread).finish(self.points.names());
        let read_to_end = ended.is_none();
        let complete = read_to_end && unread.is_empty();
        let mut notes: Vec<String> = ended.into_iter().map(|why| why_partial(&why)).collect();
        notes.extend(unread_notes);
        let mut merged_flows = 0;
        if let Some((count, row)) = self.folded.take() {
            merged_flows = count;
            notes.push(format!(
                "{count} flows are merged into one row, `others`: at most {} flows are listed \
                 separately, and these were idle for longest",
                self.options.flows
            ));
            rows.push(row);
        }
        self.note_limits(&mut notes);
        let (paths, elsewhere) = self.paths.finish(self.points.names(), RECENT);
        self.note_paths(paths.len(), elsewhere, &mut notes);
        let merged = MergedFigures {
            flows: merged_flows,
            node_packets: self.others.tx_packets + self.others.rx_packets,
            path_packets: self.paths.left_out,
        };
        let seconds = self.end.saturating_sub(start) as f64 / 1e9;
        let kinds = &self.kinds;
        let carried = kinds.messaging + kinds.payload;
        let rate = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        let mut tcp = with_marks(self.tcp, &self.marks);
        tcp.rtt_ms = self.rtt.figures();
        Ok(Analysis {
            form: 1,
            complete,
            read_to_end,
            notes,
            packets: kinds.packets,
            bytes: kinds.bytes,
            cut: self.cut,
            duration_s: seconds,
            start_s: start as f64 / 1e9,
            sizes: kinds.sizes(),
            layers: kinds.layers(),
            kinds: kinds.kinds(),
            later_fragments: protocols(self.later_fragments, fragmented),
            icmp_messages: protocols(self.icmp_messages, str::to_owned),
            other_protocols: protocols(self.other_protocols, str::to_owned),
            unread,
            goodput: Goodput {
                carried_bytes: carried,
                payload_bytes: kinds.payload,
                carried_pct: percent(carried, kinds.bytes),
                payload_pct: percent(kinds.payload, kinds.bytes),
                carrying_packets_pct: percent(kinds.carrying, kinds.packets),
                carried_bit_s: rate(carried),
                payload_bit_s: rate(kinds.payload),
            },
            tcp,
            messages: self.messages.counts(),
            streams: StreamFigures {
                gaps: self.gaps,
                resyncs: self.messages.resyncs,
                skipped_bytes: self.messages.skipped,
            },
            paths,
            nodes: nodes(self.nodes, self.others, self.points.names()),
            flows: rows,
            merged,
            points: self.points.figures(),
        })
    }

    /// Adds notes on packets that are in none of the `listed` paths; `elsewhere` of them have no destination with a
    /// capture point.
    fn note_paths(&self, listed: usize, elsewhere: u64, notes: &mut Vec<String>) {
        if self.paths.left_out > 0 {
            notes.push(format!(
                "{} packets are of paths that are not listed: at most {listed} paths are",
                self.paths.left_out
            ));
        }
        if self.paths.unmatched > 0 {
            notes.push(format!(
                "{} packets arrived that no capture point sent in this form: they were \
                 changed on the way, or sent before the capture started",
                self.paths.unmatched
            ));
        }
        if elsewhere > 0 && listed > 0 {
            notes.push(format!(
                "{elsewhere} packets went to destinations without a capture point, or from which \
                 nothing was ever received: they are not counted as lost"
            ));
        }
    }

    /// Adds notes on limits of memory and of names, and on truncated packets.
    fn note_limits(&self, notes: &mut Vec<String>) {
        notes.extend(self.points.note());
        if self.cut > 0 {
            notes.push(format!(
                "{} packets were truncated when captured: messages whose headers were \
                 cut off are not counted",
                self.cut
            ));
        }
        if self.unfinished > 0 {
            notes.push(format!(
                "{} datagrams of 6LoWPAN lack fragments: their messages are not counted",
                self.unfinished
            ));
        }
        if !self.unknown_contexts.is_empty() {
            let numbers: Vec<String> =
                self.unknown_contexts.keys().map(|number| number.to_string()).collect();
            let packets: u64 = self.unknown_contexts.values().sum();
            notes.push(format!(
                "the capture does not name the prefixes of 6LoWPAN contexts (numbers: {}) in \
                 {packets} addresses: these are shown as `context N` and their last 64 bits; \
                 --context {}=PREFIX names one",
                numbers.join(", "),
                numbers[0]
            ));
        }
        if self.others.tx_packets + self.others.rx_packets > 0 {
            notes.push(format!(
                "the last row of nodes, `others`, has all addresses beyond the first {}",
                self.options.flows
            ));
        }
        if self.refused > 0 {
            notes.push(format!(
                "{} segments have no round-trip time: too many segments were waiting for an \
                 acknowledgement",
                self.refused
            ));
        }
    }
}

/// The rows of all flows, with those of the most bytes first. `start` is the capture's, in ns.
fn rows(flows: &[Flow], names: &[String], start: u64) -> Vec<FlowFigures> {
    let mut rows: Vec<FlowFigures> = flows.iter().map(|flow| flow.figures(names, start)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.forward.bytes + row.back.bytes));
    rows
}

fn why_partial(why: &str) -> String {
    format!("the file could not be read to its end: {why}. The figures cover the part before")
}

/// The protocol of a fragmented datagram; those of 6LoWPAN do not say it.
fn fragmented(protocol: Option<u8>) -> String {
    protocol.map_or_else(|| "6LoWPAN".to_owned(), names::ip_protocol)
}

/// Packets by protocol, most first.
fn protocols<K>(
    rows: impl IntoIterator<Item = (K, [u64; 2])>,
    name: impl Fn(K) -> String,
) -> Vec<ProtocolFigures> {
    let row = |(key, [packets, bytes]): (K, [u64; 2])| ProtocolFigures {
        protocol: name(key),
        packets,
        bytes,
    };
    let mut rows: Vec<ProtocolFigures> = rows.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.packets));
    rows
}

fn with_marks(tcp: TcpFigures, marks: &MarkCounts) -> TcpFigures {
    TcpFigures {
        retransmissions: marks.of(Mark::Retransmission),
        fast_retransmissions: marks.of(Mark::FastRetransmission),
        spurious_retransmissions: marks.of(Mark::SpuriousRetransmission),
        out_of_order: marks.of(Mark::OutOfOrder),
        duplicate_acks: marks.of(Mark::DuplicateAck),
        lost_segments: marks.of(Mark::LostSegment),
        ack_lost_segments: marks.of(Mark::AckLostSegment),
        keep_alives: marks.of(Mark::KeepAlive),
        keep_alive_acks: marks.of(Mark::KeepAliveAck),
        zero_windows: marks.of(Mark::ZeroWindow),
        zero_window_probes: marks.of(Mark::ZeroWindowProbe),
        zero_window_probe_acks: marks.of(Mark::ZeroWindowProbeAck),
        window_updates: marks.of(Mark::WindowUpdate),
        window_fulls: marks.of(Mark::WindowFull),
        reused_ports: marks.of(Mark::ReusedPorts),
        ..tcp
    }
}

fn nodes(
    nodes: HashMap<Endpoint, NodeFigures>,
    others: NodeFigures,
    names: &[String],
) -> Vec<NodeFigures> {
    let named = nodes.into_iter().map(|(endpoint, row)| {
        let node = match endpoint {
            Endpoint::Node(point) => {
                names[point].split_once(':').map_or(&names[point][..], |(node, _)| node).to_owned()
            }
            Endpoint::Address(address) => address.to_string(),
        };
        NodeFigures { node, ..row }
    });
    let mut rows: Vec<NodeFigures> = named.collect();
    rows.sort_by(|a, b| {
        (b.tx_bytes + b.rx_bytes).cmp(&(a.tx_bytes + a.rx_bytes)).then(a.node.cmp(&b.node))
    });
    if others.tx_packets + others.rx_packets > 0 {
        rows.push(others);
    }
    rows
}
