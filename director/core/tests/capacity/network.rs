//! A hub and members over a bottleneck with a queue in each direction, in virtual time. Links lose
//! frames behind the bottleneck; a full queue drops what arrives.

use crate::tcp::{self, Tcp};
use director::carrier::To;
use director::session::{Config, Event, Hub, Member, MemberEvent, SessionError};
use director::{Instant, MessageProperties, ModelId, PerformanceMap, Seed, Span};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

pub const SECOND: u64 = 1_000_000_000;
pub const MS: u64 = 1_000_000;
/// Bytes of Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 42;
/// Bytes of IPv4 and UDP headers.
const IP: usize = 28;
/// Size of a packet of other traffic, in bytes.
const CROSS: f64 = 1_500.0;

/// The network at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Network {
    /// Data rate from and to the hub, in bit/s.
    pub down_bit_s: f64,
    pub up_bit_s: f64,
    /// Delay per direction without queueing, and its random part, in ns.
    pub delay: u64,
    pub jitter: u64,
    /// Frame loss per direction at each member's link, 0 to 1.
    pub loss: f64,
    /// Queue of the bottleneck per direction, in bytes.
    pub queue: f64,
    /// Longer packets vanish without a message.
    pub mtu: usize,
    /// Whether multicast passes.
    pub multicast: bool,
    /// Share of the bottleneck that other traffic uses, 0 to 1.
    pub cross: f64,
    /// Whether both directions share the rate, `down_bit_s`.
    pub shared: bool,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            down_bit_s: 1e6,
            up_bit_s: 1e6,
            delay: 20 * MS,
            jitter: 0,
            loss: 0.0,
            queue: 64e3,
            mtu: 1_500,
            multicast: true,
            cross: 0.0,
            shared: false,
        }
    }
}

/// A direction of the bottleneck.
#[derive(Debug, Clone, Copy, Default)]
struct Pipe {
    free_at: u64,
    cross_at: u64,
    pub dropped: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Wake(Option<u32>),
    Arrive(Option<u32>, Option<u32>, Vec<u8>),
    Send,
    /// A member publishes a message of this length.
    Publish(u32, usize),
    Refill,
    MulticastAgain,
    Network(usize),
    /// A packet of a TCP flow goes out, arrives, or its acknowledgement does; the flow's timer.
    Segment(usize, u64),
    Packet(usize, u64),
    Acknowledgement(usize, u64),
    Timer(usize),
}

/// The answers to a message.
#[derive(Debug, Clone)]
pub struct Answers {
    pub sent_at: u64,
    /// Time until each member's answer arrived; none if it did not.
    pub took: Vec<Option<u64>>,
}

impl Answers {
    /// Mean time in ms; answers that are missing or later than `deadline` count as it.
    pub fn cost(&self, deadline: u64) -> f64 {
        let took = |took: &Option<u64>| took.map_or(deadline, |took| took.min(deadline)) as f64;
        self.took.iter().map(took).sum::<f64>() / self.took.len().max(1) as f64 / 1e6
    }
}

pub struct World {
    pub hub: Hub,
    config: Config,
    members: Vec<Member>,
    state: u64,
    pub now: u64,
    network: Network,
    /// Loss of single members, instead of the network's.
    pub member_loss: BTreeMap<u32, f64>,
    /// Members that multicast does not reach.
    pub no_multicast: BTreeSet<u32>,
    /// Additional delay per direction of single members, in ns.
    pub member_delay: BTreeMap<u32, u64>,
    pipes: [Pipe; 2],
    later: Vec<Network>,
    queue: BinaryHeap<Reverse<(u64, u64, What)>>,
    number: u64,
    wakes: BTreeMap<Option<u32>, u64>,
    payload: usize,
    /// The receivers of messages; all members if empty.
    pub to: Vec<u32>,
    /// Bytes of an answer.
    pub answer: usize,
    /// Number of messages that are kept in flight, from a time on.
    pub backlog: (usize, u64),
    pub flows: Vec<Tcp>,
    pub messages: Vec<Answers>,
    /// Messages of members: when they were published, and how long they took, in ns.
    pub published: Vec<(u64, Option<u64>)>,
    pub changes: Vec<(u64, ModelId, ModelId)>,
    pub duplicates: u64,
    /// Consecutive polls without a datagram that ask for the next one at once.
    idle: u32,
    /// Frames and bytes on the wire.
    pub frames: u64,
    pub bytes: u64,
    /// Bytes that have passed the bottleneck, from the hub and to it.
    pub passed: [u64; 2],
}

impl World {
    pub fn new(
        config: &Config,
        map: Arc<PerformanceMap>,
        members: usize,
        network: Network,
        seed: u64,
    ) -> Self {
        let hub = Hub::new(config.clone(), map, members, &Seed::reproducible(seed)).unwrap();
        let member = |n: u64| {
            Member::new(&config.security, HEADERS, &Seed::reproducible(seed * 1_000 + n)).unwrap()
        };
        let mut world = Self {
            hub,
            config: config.clone(),
            members: (0..members as u64).map(member).collect(),
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            now: 0,
            network,
            member_loss: BTreeMap::new(),
            no_multicast: BTreeSet::new(),
            member_delay: BTreeMap::new(),
            pipes: [Pipe::default(); 2],
            later: Vec::new(),
            queue: BinaryHeap::new(),
            number: 0,
            wakes: BTreeMap::new(),
            payload: 0,
            to: Vec::new(),
            answer: 0,
            backlog: (0, 0),
            flows: Vec::new(),
            messages: Vec::new(),
            published: Vec::new(),
            changes: Vec::new(),
            duplicates: 0,
            idle: 0,
            frames: 0,
            bytes: 0,
            passed: [0; 2],
        };
        world.wake(None, 0);
        (0..members as u32).for_each(|n| world.wake(Some(n), 1));
        world
    }

    fn draw(&mut self) -> f64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn at(&mut self, at: u64, what: What) {
        self.number += 1;
        self.queue.push(Reverse((at, self.number, what)));
    }

    /// The network becomes this one at a time.
    pub fn network_at(&mut self, at: u64, network: Network) {
        self.later.push(network);
        self.at(at, What::Network(self.later.len() - 1));
    }

    /// Multicast reaches all members from a time on.
    pub fn multicast_again_at(&mut self, at: u64) {
        self.at(at, What::MulticastAgain);
    }

    /// A TCP flow begins at a time.
    pub fn flow_at(&mut self, at: u64, flow: Tcp) {
        self.flows.push(flow);
        self.at(at, What::Timer(self.flows.len() - 1));
    }

    /// From a time on, keeps `count` messages of `bytes` in flight.
    pub fn keeps(&mut self, from: u64, count: usize, bytes: usize) {
        self.payload = bytes;
        self.answer = if self.answer == 0 { bytes } else { self.answer };
        self.backlog = (count, from);
        self.at(from, What::Refill);
    }

    fn refill(&mut self) {
        let (count, from) = self.backlog;
        while self.now >= from && self.hub.open_messages() < count {
            let took = vec![None; self.members.len()];
            self.messages.push(Answers { sent_at: self.now, took });
            self.hub.send(&vec![7; self.payload], Instant::from_ns(self.now)).unwrap();
            self.wake(None, self.now + 1);
        }
    }

    /// Sends what a flow may. A host needs up to the time of a packet on the bottleneck for it: else
    /// packets of TCP, which follow acknowledgements, would always arrive when the full queue has just room again
    /// (phase effects; Floyd and Jacobson, 1992).
    fn pump(&mut self, flow: usize) {
        while let Some(packet) = self.flows[flow].send(self.now) {
            let up = self.flows[flow].up;
            let rate = if up { self.network.up_bit_s } else { self.network.down_bit_s };
            let takes = tcp::PACKET as f64 * 8e9 / rate;
            let at = self.now + (self.draw() * takes) as u64;
            let at = at.max(self.flows[flow].sent_at);
            self.flows[flow].sent_at = at;
            self.at(at, What::Segment(flow, packet));
        }
    }

    /// Sends `count` messages of `bytes` from `first` on.
    pub fn sends(&mut self, first: u64, every: u64, count: u64, bytes: usize) {
        self.payload = bytes;
        self.answer = if self.answer == 0 { bytes } else { self.answer };
        (0..count).for_each(|n| self.at(first + n * every, What::Send));
    }

    /// A member publishes `count` messages of `bytes` from `first` on.
    pub fn publishes(&mut self, member: u32, first: u64, every: u64, count: u64, bytes: usize) {
        (0..count).for_each(|n| self.at(first + n * every, What::Publish(member, bytes)));
    }

    fn publish(&mut self, member: u32, bytes: usize) {
        let mut message = vec![7; bytes.max(8)];
        message[..8].copy_from_slice(&(self.published.len() as u64).to_be_bytes());
        let now = Instant::from_ns(self.now);
        let lifetime = Span::from_s(600);
        let properties = MessageProperties { lifetime, ..MessageProperties::default() };
        self.members[member as usize].publish(&message, properties, now).unwrap();
        self.published.push((self.now, None));
    }

    fn wake(&mut self, who: Option<u32>, at: u64) {
        if self.wakes.get(&who).is_none_or(|known| at < *known) {
            self.wakes.insert(who, at);
            self.at(at, What::Wake(who));
        }
    }

    /// Passes a packet through the bottleneck; `None` if its queue is full.
    fn pass(&mut self, up: bool, bytes: usize) -> Option<u64> {
        let rate = if up { self.network.up_bit_s } else { self.network.down_bit_s };
        let Network { cross, queue, .. } = self.network;
        let way = usize::from(up && !self.network.shared);
        let limit = (queue * 8e9 / rate) as u64;
        while cross > 0.0 && self.pipes[way].cross_at <= self.now {
            let pause = -(1.0 - self.draw()).ln() * CROSS * 8e9 / rate / cross;
            let pipe = &mut self.pipes[way];
            let at = pipe.cross_at;
            if pipe.free_at.saturating_sub(at) <= limit {
                pipe.free_at = pipe.free_at.max(at) + (CROSS * 8e9 / rate) as u64;
            }
            pipe.cross_at = at + (pause as u64).max(1);
        }
        let pipe = &mut self.pipes[way];
        if pipe.free_at.saturating_sub(self.now) > limit {
            pipe.dropped += 1;
            return None;
        }
        pipe.free_at = pipe.free_at.max(self.now) + (bytes as f64 * 8e9 / rate) as u64;
        Some(pipe.free_at)
    }

    /// Passes a packet of TCP, and does this on its arrival.
    fn pass_on(&mut self, up: bool, bytes: usize, then: What) {
        if let Some(at) = self.pass(up, bytes) {
            self.at(at + self.network.delay, then);
        }
    }

    fn acknowledge(&mut self, flow: usize, packet: u64) {
        let then = What::Acknowledgement(flow, packet);
        self.pass_on(!self.flows[flow].up, tcp::ACK, then);
    }

    /// Frames that the queues have dropped.
    pub fn dropped(&self) -> u64 {
        self.pipes.iter().map(|pipe| pipe.dropped).sum()
    }

    fn carry(&mut self, from: Option<u32>, to: To, datagram: &[u8]) {
        let interface = self.config.assumed.mtu as usize - 20;
        let receivers: Vec<Option<u32>> = match to {
            To::Hub => vec![None],
            To::Member(member) => vec![Some(member)],
            To::Group if !self.network.multicast => Vec::new(),
            To::Group => {
                let all = 0..self.members.len() as u32;
                all.filter(|member| !self.no_multicast.contains(member)).map(Some).collect()
            }
        };
        // IPv4 fragments a long datagram at the sender; one lost fragment loses it.
        let (mut rest, mut arrival, mut fragments) = (datagram.len() + 8, Some(0), 0);
        while rest > 0 {
            let part = rest.min(interface);
            rest -= part;
            fragments += 1;
            self.frames += 1;
            self.bytes += (part + HEADERS - 8) as u64;
            let passed = self.pass(from.is_some(), part + HEADERS - 8);
            if passed.is_some() {
                self.passed[usize::from(from.is_some())] += (part + HEADERS - 8) as u64;
            }
            let fits = part + IP - 8 <= self.network.mtu;
            arrival = arrival.zip(passed.filter(|_| fits)).map(|(a, b): (u64, u64)| a.max(b));
        }
        let Some(arrival) = arrival else { return };
        for receiver in receivers {
            let member = receiver.or(from).unwrap_or_default();
            let loss = self.member_loss.get(&member).copied().unwrap_or(self.network.loss);
            let lost = (0..fragments).any(|_| self.draw() < loss);
            let late = (self.draw() * self.network.jitter as f64) as u64;
            if !lost {
                let farther = self.member_delay.get(&member).copied().unwrap_or(0);
                let at = arrival + self.network.delay + farther + late;
                self.at(at, What::Arrive(receiver, from, datagram.to_vec()));
            }
        }
    }

    /// Runs until a time.
    pub fn run(&mut self, until: u64) {
        while let Some(Reverse((now, _, what))) = self.queue.pop() {
            if now > until {
                self.queue.push(Reverse((now, 0, what)));
                return;
            }
            self.now = now;
            let who = match what {
                What::Wake(who) => {
                    if self.wakes.get(&who) != Some(&now) {
                        continue;
                    }
                    self.wakes.remove(&who);
                    who
                }
                What::Arrive(None, from, datagram) => {
                    self.hub.receive(&datagram, from, Instant::from_ns(now));
                    None
                }
                What::Arrive(Some(member), _, datagram) => {
                    self.members[member as usize].receive(&datagram, Instant::from_ns(now));
                    Some(member)
                }
                What::Network(place) => {
                    self.network = self.later[place];
                    self.pipes.iter_mut().for_each(|pipe| pipe.cross_at = pipe.cross_at.max(now));
                    continue;
                }
                What::MulticastAgain => {
                    self.no_multicast.clear();
                    continue;
                }
                What::Packet(flow, packet) => {
                    self.acknowledge(flow, packet);
                    continue;
                }
                What::Segment(flow, packet) => {
                    self.pass_on(self.flows[flow].up, tcp::PACKET, What::Packet(flow, packet));
                    continue;
                }
                What::Acknowledgement(flow, packet) => {
                    self.flows[flow].acknowledged(packet, now);
                    self.pump(flow);
                    continue;
                }
                What::Timer(flow) => {
                    if now >= self.flows[flow].due() {
                        self.flows[flow].expire(now);
                    }
                    self.pump(flow);
                    let due = self.flows[flow].due().max(now + 100 * MS);
                    self.at(due, What::Timer(flow));
                    continue;
                }
                What::Refill => {
                    self.refill();
                    None
                }
                What::Send => {
                    let took = vec![None; self.members.len()];
                    self.messages.push(Answers { sent_at: now, took });
                    let (bytes, at) = (vec![7; self.payload], Instant::from_ns(now));
                    let sent = match &self.to[..] {
                        [] => self.hub.send(&bytes, at),
                        to => self.hub.send_to(&bytes, to, at),
                    };
                    match sent {
                        // It has no number.
                        Err(SessionError::Full(_)) => drop(self.messages.pop()),
                        sent => assert!(sent.is_ok(), "{sent:?}"),
                    }
                    None
                }
                What::Publish(member, bytes) => {
                    self.publish(member, bytes);
                    Some(member)
                }
            };
            self.turn(who);
        }
    }

    fn turn(&mut self, who: Option<u32>) {
        let now = self.now;
        let (datagram, wake) = match who {
            None => self.hub.poll(Instant::from_ns(now)),
            Some(member) => {
                let own = &mut self.members[member as usize];
                for event in own.take_events() {
                    if let MemberEvent::Message { number, .. } = event {
                        let _ = own.answer(number, vec![9; self.answer], Instant::from_ns(now));
                    }
                }
                let (datagram, wake) = own.poll(Instant::from_ns(now));
                (datagram.map(|datagram| (To::Hub, datagram)), wake)
            }
        };
        let wake = wake.map(Instant::as_ns);
        let more = datagram.is_some();
        if let Some((to, datagram)) = datagram {
            self.carry(who, to, &datagram);
        }
        let wake = if more { Some(wake.unwrap_or(now)) } else { wake };
        self.idle = if more || wake.is_none_or(|wake| wake > now) { 0 } else { self.idle + 1 };
        assert!(self.idle < 1_000, "{who:?} is polled without a pause and has nothing to send");
        if let Some(wake) = wake {
            // An end needs a microsecond for a datagram.
            self.wake(who, wake.max(now + 1_000));
        }
        for event in self.hub.take_events() {
            match event {
                Event::Answer { message, member, .. } | Event::Acknowledged { message, member } => {
                    let Some(answers) = self.messages.get_mut(message as usize) else { continue };
                    let took = &mut answers.took[member as usize];
                    self.duplicates += u64::from(took.is_some());
                    *took = Some(now - answers.sent_at);
                }
                Event::Message { from, bytes, .. } => {
                    let number = bytes.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                    let published = &mut self.published[number as usize];
                    self.duplicates += u64::from(published.1.is_some());
                    published.1 = Some(now - published.0);
                    self.hub.accept(from);
                }
                Event::ModelChange { from, to, .. } => self.changes.push((now, from, to)),
                _ => {}
            }
        }
        self.refill();
    }

    /// Mean cost of the messages in ms, and the share of answers that arrived by the deadline.
    pub fn cost(&self, deadline: u64) -> (f64, f64) {
        let count = self.messages.len().max(1) as f64;
        let cost = self.messages.iter().map(|answers| answers.cost(deadline)).sum::<f64>() / count;
        let all = self.messages.iter().flat_map(|answers| &answers.took);
        let there = all.clone().filter(|took| took.is_some_and(|took| took <= deadline)).count();
        (cost, there as f64 / all.count().max(1) as f64)
    }
}
