//! The pass through a capture, packet by packet.

mod first_fragment;
mod fragments;
mod outcome;
mod points;

use crate::coap;
use crate::contexts::KnownContexts;
use crate::dissect::{Address, Parts, Tcp, What, dissect};
use crate::error::Error;
use crate::figures::{Analysis, FlowFigures, NodeFigures, TcpFigures};
use crate::flow::{Flow, Key, Side, Sums};
use crate::kinds::{Kind, Kinds};
use crate::marks::{Mark, MarkCounts};
use crate::messages::Messages;
use crate::options::{Options, Protocol};
use crate::paths::{Paths, Sighting};
use crate::reader::{Direction, Listener, Packet, read};
use crate::reassembly::Reassembly;
use crate::sequence::Connection;
use crate::times::Distribution;
use crate::unread::Tally;
use first_fragment::First;
use points::Points;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use units::Contexts;

/// Analyses a capture to its end, or to the first damage.
///
/// `options` bound the memory for any capture.
///
/// # Errors
/// When the source is not a capture or cannot be read, or lacks a point of `options`.
pub fn analyze(source: impl Read + Send, options: &Options) -> Result<Analysis, Error> {
    let mut survey = Survey::new(options);
    let ended = read(source, &mut survey)?;
    survey.finish(ended)
}

/// The maximum number of segments, over all flows, that are stored until they are
/// acknowledged.
const MAX_REMEMBERED: usize = 1 << 20;

/// A sender or receiver: a node of a lab, or an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Endpoint {
    /// A node, by its first point.
    Node(usize),
    Address(Address),
}

struct Survey<'a> {
    options: &'a Options,
    points: Points,
    flows: Vec<Flow>,
    current: HashMap<Key, usize>,
    folded: Option<(u64, FlowFigures)>,
    nodes: HashMap<Endpoint, NodeFigures>,
    others: NodeFigures,
    kinds: Kinds,
    /// Packets and bytes by the protocol in a fragment's header, and by protocol name.
    later_fragments: BTreeMap<Option<u8>, [u64; 2]>,
    icmp_messages: BTreeMap<&'static str, [u64; 2]>,
    other_protocols: BTreeMap<&'static str, [u64; 2]>,
    unread: Tally,
    /// Addresses by the number of the 6LoWPAN context whose prefix is not known.
    unknown_contexts: BTreeMap<u8, u64>,
    messages: Messages,
    uncounted: Messages,
    tcp: TcpFigures,
    marks: MarkCounts,
    rtt: Distribution,
    gaps: u64,
    paths: Paths,
    reassembly: Reassembly<First>,
    /// Datagrams of 6LoWPAN that lack fragments.
    unfinished: u64,
    waiting: usize,
    remembered: usize,
    cut: u64,
    start: Option<u64>,
    end: u64,
    refused: u64,
}

impl Listener for Survey<'_> {
    fn point(&mut self, name: Option<&str>, description: Option<&str>, link: u16) -> usize {
        let contexts = description.and_then(Contexts::from_description).unwrap_or_default();
        let number = self.points.add(name, link, contexts, self.options);
        if let Some((from, to)) = &self.options.between
            && let (Some(from), Some(to)) = (self.points.find(from), self.points.find(to))
        {
            self.paths.restrict_to(from, to);
        }
        number
    }

    fn packet(&mut self, packet: Packet<'_>) {
        if !self.points.is_chosen(packet.point) {
            return;
        }
        let length = packet.length;
        // Captures are not always in the order of time (decision 22).
        self.start = Some(self.start.unwrap_or(packet.at).min(packet.at));
        self.end = self.end.max(packet.at);
        self.points.count(packet.point, length);
        self.cut += u64::from((packet.data.len() as u32) < length);
        let link = self.points.link(packet.point);
        let named = self.points.contexts(packet.point);
        let contexts = KnownContexts { named, given: &self.options.contexts };
        let parts = dissect(link, packet.data, length, contexts);
        let sighting = Sighting {
            point: packet.point,
            at: packet.at,
            direction: packet.direction,
            data: packet.data,
            start: parts.start,
            macs: parts.macs,
            addresses: parts.addresses,
        };
        let counts = self.paths.is_first_capture(&sighting);
        // With one point there is nothing to match, so no memory is spent on it.
        if self.points.len() > 1 {
            self.paths.record(&sighting);
        }
        if counts {
            self.layers(&parts, length);
            let addresses = parts.addresses.into_iter().flatten();
            for number in addresses.filter_map(Address::unknown_context) {
                *self.unknown_contexts.entry(number).or_default() += 1;
            }
        }
        if parts.head.is_some() {
            return self.fragment(&packet, &parts, counts);
        }
        let (messages, again) = match (&parts.what, parts.addresses) {
            (What::Tcp(tcp), Some(addresses)) => {
                self.segment(&packet, &parts, tcp, addresses, counts)
            }
            (What::Udp(ports), Some(addresses)) => {
                (self.datagram(&packet, &parts, *ports, addresses, counts), false)
            }
            (what, _) => {
                if counts {
                    self.kinds.kind(kind(what), length);
                    self.kinds.payload += u64::from(parts.carried);
                    self.protocol(packet.point, *what, length);
                }
                (0, false)
            }
        };
        self.node(&packet, &parts, messages, again);
        self.fragment(&packet, &parts, counts);
    }
}

fn kind(what: &What) -> Kind {
    match what {
        What::Arp => Kind::Arp,
        What::Icmp(_) => Kind::Icmp,
        What::Igmp => Kind::Igmp,
        What::Pgm => Kind::Pgm,
        What::LaterFragment(_) => Kind::Fragment,
        What::Tcp(_) => Kind::TcpData,
        What::Udp(_) => Kind::UdpData,
        What::Other(_) => Kind::Other,
        What::Unread(_) => Kind::Unread,
    }
}

impl<'a> Survey<'a> {
    fn new(options: &'a Options) -> Self {
        Self {
            options,
            points: Points::default(),
            flows: Vec::new(),
            current: HashMap::new(),
            folded: None,
            nodes: HashMap::new(),
            others: NodeFigures { node: "others".to_owned(), ..NodeFigures::default() },
            kinds: Kinds::default(),
            later_fragments: BTreeMap::new(),
            icmp_messages: BTreeMap::new(),
            other_protocols: BTreeMap::new(),
            unread: Tally::default(),
            unknown_contexts: BTreeMap::new(),
            messages: Messages::default(),
            uncounted: Messages::default(),
            tcp: TcpFigures::default(),
            marks: MarkCounts::default(),
            rtt: Distribution::new(),
            gaps: 0,
            paths: Paths::new(options.within.as_nanos() as u64, options.between.is_some()),
            reassembly: Reassembly::default(),
            unfinished: 0,
            waiting: 0,
            remembered: 0,
            cut: 0,
            start: None,
            end: 0,
            refused: 0,
        }
    }

    fn layers(&mut self, parts: &Parts<'_>, length: u32) {
        self.kinds.size(length);
        self.kinds.link += u64::from(parts.link);
        self.kinds.network += u64::from(parts.network);
        self.kinds.transport += u64::from(parts.transport);
        self.kinds.carried += u64::from(parts.carried);
        self.kinds.carrying += u64::from(parts.carried > 0);
    }

    /// Counts a packet without a flow by its protocol, or by the reason why it could not be
    /// read.
    fn protocol(&mut self, point: usize, what: What, length: u32) {
        let row = match what {
            What::LaterFragment(protocol) => self.later_fragments.entry(protocol).or_default(),
            What::Icmp(name) => self.icmp_messages.entry(name).or_default(),
            What::Other(name) => self.other_protocols.entry(name).or_default(),
            What::Unread(unread) => return self.unread.note(point, unread, length),
            _ => return,
        };
        row[0] += 1;
        row[1] += u64::from(length);
    }

    /// The flow of a packet. Creates one if there is none, or if `another` starts a new
    /// connection.
    fn flow(&mut self, key: Key, from: usize, at: u64, another: Option<&Tcp>) -> usize {
        let mut reused = false;
        if let Some(&place) = self.current.get(&key) {
            reused = another.is_some_and(|tcp| self.flows[place].connection.is_another(from, tcp));
            if !reused {
                return place;
            }
        }
        if self.flows.len() >= self.options.flows.max(2) {
            self.fold();
        }
        let ports = [key.ends[0].1, key.ends[1].1];
        let protocol = self.options.protocol(ports, key.udp);
        let mut flow = Flow::new(key, from, at, protocol);
        if reused {
            flow.connection = Connection::on_reused_ports();
        }
        self.flows.push(flow);
        self.tcp.connections += u64::from(!key.udp);
        self.current.insert(key, self.flows.len() - 1);
        self.flows.len() - 1
    }

    /// Adds up the half of all flows that was idle for longer.
    fn fold(&mut self) {
        let mut lasts: Vec<u64> = self.flows.iter().map(|flow| flow.last).collect();
        let middle = lasts.len() / 2;
        let (_, middle, _) = lasts.select_nth_unstable(middle);
        let middle = *middle;
        // Half at a time, so that the pass over all flows is rare.
        let mut room = self.options.flows.max(2) / 2;
        let (count, row) = self.folded.get_or_insert_with(|| {
            let row = FlowFigures { a: "others".to_owned(), ..FlowFigures::default() };
            (0, row)
        });
        let mut sums = Sums {
            kinds: &mut self.kinds,
            messages: &mut self.messages,
            uncounted: &mut self.uncounted,
        };
        let flows = std::mem::take(&mut self.flows);
        for mut flow in flows {
            // Of flows with the same end time, some stay.
            if flow.last >= middle && room > 0 {
                room -= 1;
                self.flows.push(flow);
                continue;
            }
            // Before `end`, which frees the memory that was counted.
            self.waiting -= flow.memory();
            self.remembered -= flow.connection.remembered();
            flow.end(&mut sums);
            *count += 1;
            let gaps: u64 = flow.sides.iter().map(|side| side.gaps).sum();
            self.gaps += gaps;
            Side::add(&mut row.forward, &flow.sides[0]);
            Side::add(&mut row.back, &flow.sides[1]);
        }
        // Indices of the remaining flows have changed.
        self.current =
            self.flows.iter().enumerate().map(|(place, flow)| (flow.key, place)).collect();
    }

    fn segment(
        &mut self,
        packet: &Packet<'_>,
        parts: &Parts<'_>,
        tcp: &Tcp,
        addresses: [Address; 2],
        counts: bool,
    ) -> (u64, bool) {
        let (key, from) = Key::of(packet.point, false, addresses, tcp.ports);
        let place = self.flow(key, from, packet.at, Some(tcp));
        let flow = &mut self.flows[place];
        flow.count(from, packet.at, packet.length, parts.carried);
        let before = (flow.memory(), flow.connection.remembered(), flow.sides[from].messages);
        let mut sums = Sums {
            kinds: &mut self.kinds,
            messages: &mut self.messages,
            uncounted: &mut self.uncounted,
        };
        let verdict = flow.segment(
            from,
            tcp,
            (parts.carried, parts.data),
            packet.at,
            (packet.length, counts),
            (self.remembered < MAX_REMEMBERED, self.waiting < self.options.waiting),
            &mut sums,
        );
        self.refused += u64::from(self.remembered >= MAX_REMEMBERED);
        self.waiting = (self.waiting + flow.memory()).saturating_sub(before.0);
        self.remembered = (self.remembered + flow.connection.remembered()).saturating_sub(before.1);
        let messages = flow.sides[from].messages - before.2;
        if counts {
            self.tcp.packets += 1;
            self.marks.note(verdict.marks);
        }
        // At the node that sends the acknowledgement, the time does not include the network.
        if let Some(rtt) = verdict.rtt.filter(|_| packet.direction != Direction::Out) {
            self.rtt.note(rtt);
        }
        (messages, verdict.marks.has(Mark::Retransmission))
    }

    fn datagram(
        &mut self,
        packet: &Packet<'_>,
        parts: &Parts<'_>,
        ports: [u16; 2],
        addresses: [Address; 2],
        counts: bool,
    ) -> u64 {
        let (key, from) = Key::of(packet.point, true, addresses, ports);
        let place = self.flow(key, from, packet.at, None);
        let flow = &mut self.flows[place];
        flow.count(from, packet.at, packet.length, parts.carried);
        let messages = if counts { &mut self.messages } else { &mut self.uncounted };
        let taken = (flow.protocol() == Some(Protocol::Coap))
            .then(|| coap::take(parts.data, parts.carried, messages))
            .flatten();
        flow.sides[from].messages += u64::from(taken.is_some());
        if counts {
            let of_coap =
                |shares: crate::parser::Shares| Kind::of(Protocol::Coap, shares.payload > 0);
            self.kinds.kind(taken.map_or(Kind::UdpData, of_coap), packet.length);
            self.kinds.messaging += taken.map_or(0, |shares| shares.messaging);
            self.kinds.payload += taken.map_or(u64::from(parts.carried), |shares| shares.payload);
        }
        u64::from(taken.is_some())
    }

    fn node(&mut self, packet: &Packet<'_>, parts: &Parts<'_>, messages: u64, again: bool) {
        let sent = |endpoint: Endpoint, room: &mut Self| {
            let row = room.row(endpoint);
            row.tx_packets += 1;
            row.tx_bytes += u64::from(packet.length);
            row.messages += messages;
            row.retransmissions += u64::from(again);
        };
        let received = |endpoint: Endpoint, room: &mut Self| {
            let row = room.row(endpoint);
            row.rx_packets += 1;
            row.rx_bytes += u64::from(packet.length);
        };
        match (self.points.node_of(packet.point), packet.direction, parts.addresses) {
            (Some(node), Direction::Out, _) => sent(Endpoint::Node(node), self),
            (Some(node), Direction::In, _) => received(Endpoint::Node(node), self),
            // Without directions, the addresses say who sent and who received.
            (_, _, Some([from, to])) => {
                sent(Endpoint::Address(from), self);
                received(Endpoint::Address(to), self);
            }
            _ => {}
        }
    }

    fn row(&mut self, endpoint: Endpoint) -> &mut NodeFigures {
        // Addresses can be invented, so their number is bounded as that of flows.
        if self.nodes.len() >= self.options.flows && !self.nodes.contains_key(&endpoint) {
            return &mut self.others;
        }
        self.nodes.entry(endpoint).or_default()
    }
}
