//! A TCP connection, or a pair of UDP ports, as seen at one capture point.

use crate::dissect::{Address, Tcp};
use crate::figures::{DirectionFigures, FlowFigures};
use crate::kinds::{Kind, Kinds};
use crate::marks::{Mark, MarkCounts};
use crate::messages::Messages;
use crate::mqtt::Mqtt;
use crate::opcua::OpcUa;
use crate::options::Protocol;
use crate::parser::{Grammar, Parser, Shares};
use crate::sequence::{Connection, Verdict};
use crate::stream::{Consumer, Piece, Stream};
use crate::times::Times;
use crate::zmtp::Zmtp;

/// Identifies a flow, independent of the direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub point: u32,
    pub udp: bool,
    /// Address and port, the smaller first.
    pub ends: [(Address, u16); 2],
}

impl Key {
    /// The flow of a packet, and the index of the sending end.
    pub(crate) fn of(
        point: usize,
        udp: bool,
        addresses: [Address; 2],
        ports: [u16; 2],
    ) -> (Self, usize) {
        let ends = [(addresses[0], ports[0]), (addresses[1], ports[1])];
        let point = point as u32;
        match ends[0] <= ends[1] {
            true => (Self { point, udp, ends }, 0),
            false => (Self { point, udp, ends: [ends[1], ends[0]] }, 1),
        }
    }
}

/// The message parser of a direction.
#[derive(Debug)]
enum Reader {
    /// No data has arrived yet.
    Silent,
    Mqtt(Parser<Mqtt>),
    Zmtp(Parser<Zmtp>),
    OpcUa(Parser<OpcUa>),
    /// An unknown protocol.
    Unknown,
}

/// One direction.
#[derive(Debug)]
pub(crate) struct Side {
    pub packets: u64,
    pub bytes: u64,
    pub carried: u64,
    pub messages: u64,
    marks: MarkCounts,
    pub gaps: u64,
    pub rtt: Times,
    /// Whether its SYN was captured.
    syn_seen: bool,
    stream: Stream,
    reader: Reader,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub key: Key,
    /// The times of its first and last packet, in ns since 1970.
    pub first: u64,
    /// See `first`.
    pub last: u64,
    /// The index of the initiator.
    starter: usize,
    protocol: Option<Protocol>,
    /// The protocol version in MQTT's CONNECT.
    mqtt_version: Option<u8>,
    pub connection: Connection,
    pub sides: [Side; 2],
}

/// The totals over all flows.
pub(crate) struct Sums<'a> {
    pub kinds: &'a mut Kinds,
    pub messages: &'a mut Messages,
    /// Totals of packets that are counted elsewhere, or not at all.
    pub uncounted: &'a mut Messages,
}

/// A flag bit in the packet's length: whether the packet counts.
// The stream keeps one number per waiting packet; lengths are far below 2^31.
const COUNTS: u32 = 1 << 31;

impl Flow {
    pub(crate) fn new(key: Key, from: usize, at: u64, protocol: Option<Protocol>) -> Self {
        Self {
            key,
            first: at,
            last: at,
            starter: from,
            protocol,
            mqtt_version: None,
            connection: Connection::default(),
            sides: [Side::new(), Side::new()],
        }
    }

    /// The protocol of a datagram's message.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// The bytes of memory that depend on the capture's content.
    pub(crate) fn memory(&self) -> usize {
        self.sides.iter().map(|side| side.stream.memory()).sum()
    }

    /// Counts a packet of `length` bytes from `from`.
    pub(crate) fn count(&mut self, from: usize, at: u64, length: u32, carried: u32) {
        self.last = self.last.max(at);
        let side = &mut self.sides[from];
        side.packets += 1;
        side.bytes += u64::from(length);
        side.carried += u64::from(carried);
    }

    /// Handles a segment from `from`; `data` is the captured part of its `length` bytes.
    #[expect(clippy::too_many_arguments, reason = "a segment, its packet, and where it counts")]
    pub(crate) fn segment(
        &mut self,
        from: usize,
        tcp: &Tcp,
        (length, data): (u32, &[u8]),
        at: u64,
        (packet, counts): (u32, bool),
        (remember, wait): (bool, bool),
        sums: &mut Sums<'_>,
    ) -> Verdict {
        let verdict = self.connection.take(from, tcp, length, at, remember);
        self.sides[from].note(&verdict);
        if tcp.syn {
            self.sides[from].syn_seen = true;
            self.sides[from].stream.begin(tcp.sequence);
            // A SYN without ACK is from the initiator, also if a later packet was captured first.
            if !tcp.ack {
                self.starter = from;
            }
        }
        if tcp.ack {
            self.give(1 - from, sums, |stream, consumer| {
                stream.acknowledged(tcp.acknowledgement, consumer)
            });
        }
        if length > 0 {
            // Data in a SYN (TCP Fast Open, RFC 7413) begins one sequence number later.
            let first = tcp.sequence.wrapping_add(u32::from(tcp.syn));
            let token = packet.min(COUNTS - 1) | if counts { COUNTS } else { 0 };
            self.give(from, sums, |stream, consumer| {
                stream.take((first, length), data, token, wait, consumer)
            });
        } else if counts {
            sums.kinds.kind(Kind::TcpControl, packet);
        }
        verdict
    }

    /// Processes the data that still waits.
    pub(crate) fn end(&mut self, sums: &mut Sums<'_>) {
        for from in 0..2 {
            self.give(from, sums, |stream, consumer| stream.end(consumer));
        }
    }

    fn give(
        &mut self,
        from: usize,
        sums: &mut Sums<'_>,
        work: impl FnOnce(&mut Stream, &mut MessageReader<'_, '_>) -> u64,
    ) {
        let side = &mut self.sides[from];
        // Taken out while it works, because the reader borrows other parts of the flow.
        let mut stream = std::mem::take(&mut side.stream);
        let mut reader = MessageReader {
            syn_seen: side.syn_seen,
            reader: &mut side.reader,
            protocol: &mut self.protocol,
            version: &mut self.mqtt_version,
            messages: 0,
            shares: Shares::default(),
            sums,
        };
        let gaps = work(&mut stream, &mut reader);
        side.messages += reader.messages;
        side.gaps += gaps;
        side.stream = stream;
    }

    pub(crate) fn figures(&self, points: &[String], start: u64) -> FlowFigures {
        let (a, b) = (self.starter, 1 - self.starter);
        FlowFigures {
            point: points[self.key.point as usize].clone(),
            transport: if self.key.udp { "udp" } else { "tcp" },
            protocol: self.protocol.map(Protocol::name),
            a: end(self.key.ends[a]),
            b: end(self.key.ends[b]),
            start_s: self.first.saturating_sub(start) as f64 / 1e9,
            duration_s: self.last.saturating_sub(self.first) as f64 / 1e9,
            forward: self.sides[a].figures(),
            back: self.sides[b].figures(),
        }
    }
}

impl Side {
    fn new() -> Self {
        Self {
            packets: 0,
            bytes: 0,
            carried: 0,
            messages: 0,
            marks: MarkCounts::default(),
            gaps: 0,
            rtt: Times::default(),
            syn_seen: false,
            stream: Stream::default(),
            reader: Reader::Silent,
        }
    }

    fn note(&mut self, verdict: &Verdict) {
        self.marks.note(verdict.marks);
        if let Some(rtt) = verdict.rtt {
            self.rtt.note(rtt);
        }
    }

    fn figures(&self) -> DirectionFigures {
        DirectionFigures {
            packets: self.packets,
            bytes: self.bytes,
            carried_bytes: self.carried,
            messages: self.messages,
            retransmissions: self.marks.of(Mark::Retransmission),
            fast_retransmissions: self.marks.of(Mark::FastRetransmission),
            spurious_retransmissions: self.marks.of(Mark::SpuriousRetransmission),
            out_of_order: self.marks.of(Mark::OutOfOrder),
            duplicate_acks: self.marks.of(Mark::DuplicateAck),
            lost_segments: self.marks.of(Mark::LostSegment),
            gaps: self.gaps,
            rtt_ms: self.rtt.figures(),
        }
    }

    /// Adds another's counts, for a combined row.
    pub(crate) fn add(sum: &mut DirectionFigures, other: &Self) {
        sum.packets += other.packets;
        sum.bytes += other.bytes;
        sum.carried_bytes += other.carried;
        sum.messages += other.messages;
        sum.retransmissions += other.marks.of(Mark::Retransmission);
        sum.fast_retransmissions += other.marks.of(Mark::FastRetransmission);
        sum.spurious_retransmissions += other.marks.of(Mark::SpuriousRetransmission);
        sum.out_of_order += other.marks.of(Mark::OutOfOrder);
        sum.duplicate_acks += other.marks.of(Mark::DuplicateAck);
        sum.lost_segments += other.marks.of(Mark::LostSegment);
        sum.gaps += other.gaps;
    }
}

/// Parses the messages of a direction from its pieces, in order.
struct MessageReader<'a, 'b> {
    syn_seen: bool,
    reader: &'a mut Reader,
    protocol: &'a mut Option<Protocol>,
    version: &'a mut Option<u8>,
    messages: u64,
    /// Those of the current packet.
    shares: Shares,
    sums: &'a mut Sums<'b>,
}

impl Consumer for MessageReader<'_, '_> {
    fn take(&mut self, packet: Option<u32>, piece: Piece<'_>) {
        if let (Reader::Silent, Piece::Bytes(bytes)) = (&self.reader, &piece) {
            *self.reader = self.begin(bytes);
        }
        // A gap belongs to no packet, and counts.
        let counts = packet.is_none_or(|packet| packet & COUNTS != 0);
        let messages = if counts { &mut *self.sums.messages } else { &mut *self.sums.uncounted };
        let before = messages.all;
        let length = match &piece {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Missing(count) => *count,
        };
        let shares = match self.reader {
            Reader::Mqtt(parser) => {
                // The broker's side takes the version from the client's.
                parser.grammar.version = parser.grammar.version.or(*self.version);
                let shares = parser.take(piece, messages);
                *self.version = parser.grammar.version;
                shares
            }
            Reader::Zmtp(parser) => parser.take(piece, messages),
            Reader::OpcUa(parser) => parser.take(piece, messages),
            Reader::Silent | Reader::Unknown => Shares { messaging: 0, payload: length },
        };
        self.messages += messages.all - before;
        if packet.is_some() {
            self.shares.messaging += shares.messaging;
            self.shares.payload += shares.payload;
        }
    }

    fn done(&mut self, packet: u32) {
        let shares = std::mem::take(&mut self.shares);
        if packet & COUNTS == 0 {
            return;
        }
        let known = matches!(self.reader, Reader::Mqtt(_) | Reader::Zmtp(_) | Reader::OpcUa(_));
        let kind = match (*self.protocol, shares.messaging + shares.payload) {
            // All of its bytes were delivered before.
            (_, 0) => Kind::TcpRepeated,
            (Some(protocol), _) if known => Kind::of(protocol, shares.payload > 0),
            _ => Kind::TcpData,
        };
        self.sums.kinds.kind(kind, packet & !COUNTS);
        self.sums.kinds.messaging += shares.messaging;
        self.sums.kinds.payload += shares.payload;
    }
}

impl MessageReader<'_, '_> {
    /// Selects the parser for a direction that begins with these bytes.
    fn begin(&mut self, bytes: &[u8]) -> Reader {
        // Without the SYN, the first captured bytes may be the middle of anything: then only the
        // port says the protocol.
        if self.syn_seen && self.protocol.is_none() {
            *self.protocol = match bytes {
                bytes if Mqtt::begins(bytes) => Some(Protocol::Mqtt),
                bytes if Zmtp::begins(bytes) => Some(Protocol::Zmtp),
                bytes if OpcUa::begins(bytes) => Some(Protocol::OpcUa),
                _ => None,
            };
        }
        match self.protocol {
            Some(Protocol::Mqtt) => Reader::Mqtt(self.parser(Mqtt::new(), Mqtt::FIRST)),
            Some(Protocol::Zmtp) => Reader::Zmtp(self.parser(Zmtp::new(), Zmtp::FIRST)),
            Some(Protocol::OpcUa) => Reader::OpcUa(self.parser(OpcUa::new(), OpcUa::FIRST)),
            Some(Protocol::Coap) | None => Reader::Unknown,
        }
    }

    fn parser<G: Grammar>(&self, grammar: G, first: crate::parser::Need) -> Parser<G> {
        // In the middle of a stream, the start of a message has to be found first.
        Parser::new(grammar, if self.syn_seen { first } else { crate::parser::Need::Invalid })
    }
}

/// An end of a flow as `address:port`.
fn end((address, port): (Address, u16)) -> String {
    address.with_port(port)
}
