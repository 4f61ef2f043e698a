//! One run of an experiment's interaction in virtual time: the director's own hub and
//! members, over the medium's own model of the network, with its timetable. Nothing is
//! waited for, and no machine is in the figures.

use director::carrier::{To, is_multicast};
use director::session::{Config, Event, Hub, Member, MemberEvent, Security};
use director::{Conditions, ModelId, Nanos, Pattern, PerformanceMap};
use experiment::{Interaction, Plan, Workload};
use medium::{Endpoint, GilbertElliott, Impairment, Segment, SegmentSpec};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use units::{Rate, Ratio, Span};

const KEY: &[u8] = b"a key that both ends have";
/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 14 + 20 + 8;
const PORT: u16 = 5_700;
/// Members join, and the session gets ready, before the timetable begins.
const SETTLED: Nanos = 30_000_000_000;
/// From one time that a group is joined again to the next.
const JOIN_EVERY: Nanos = 2_000_000_000;

/// What became of a message.
#[derive(Debug, Clone)]
pub struct Told {
    /// When it was sent, from the start of the timetable, in ns.
    pub sent: Nanos,
    /// How long each answer took, in ns; none that did not come.
    pub took: Vec<Option<Nanos>>,
}

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The messages, in order.
    pub messages: Vec<Told>,
    /// Answers that came twice.
    pub doubled: u64,
    /// Changes of the model: when, from the start of the timetable, to which, and why.
    pub changes: Vec<(Nanos, ModelId, String)>,
    /// Bytes of frames that were sent, link headers included.
    pub bytes: u64,
}

/// What a model of the file holds the director to: nothing, or one model. None for models
/// that are not the director's.
pub fn models(interaction: &Interaction) -> Option<Vec<ModelId>> {
    match interaction.down.text() {
        "director" => Some(Vec::new()),
        text => {
            let name = text.strip_prefix("director/")?;
            Some(ModelId::ALL.into_iter().filter(|model| model.name() == name).collect())
        }
    }
}

/// The plan's interaction.
pub fn interaction(plan: &Plan) -> Option<&Interaction> {
    plan.workloads.iter().find_map(|workload| match workload {
        Workload::Interaction(interaction) => Some(interaction),
        _ => None,
    })
}

/// An end of the network: its place on the segment, its address, and its interface's.
#[derive(Debug, Clone, Copy)]
pub struct End {
    place: usize,
    address: Ipv4Addr,
    mac: [u8; 6],
}

/// What a run is of.
pub struct Setup {
    segment: SegmentSpec,
    config: Config,
    /// The hub, and the members.
    ends: Vec<End>,
    mtu: usize,
    every: Nanos,
    messages: u64,
    payload: usize,
    seed: u64,
}

fn config(assumed: Conditions, models: Vec<ModelId>) -> Config {
    let mut config = Config::new(Pattern::PublishCollect, Security::Key(KEY.to_vec()));
    config.assumed = assumed;
    config.targets.delivery_ratio = Some(0.999);
    config.below = HEADERS;
    config.models = models;
    config
}

impl Setup {
    /// A run of `plan` on these models.
    pub fn of(plan: &Plan, models: Vec<ModelId>) -> Self {
        let interaction = interaction(plan).expect("an experiment with an interaction");
        let place = plan.networks.iter().position(|n| n.name == interaction.network);
        let place = place.expect("the interaction's network");
        let mut segments = runner::segments(plan).expect("an experiment without images");
        let own = |name: &String| {
            let link = |node: &experiment::PlannedNode| {
                node.links.iter().find(|link| link.network == interaction.network).cloned()
            };
            let mut on = plan.nodes.iter().filter_map(|node| Some((node, link(node)?))).enumerate();
            let (place, (_, link)) = on.find(|(_, (node, _))| node.name == *name)?;
            Some(End { place, address: link.address, mac: link.mac.0 })
        };
        let names = std::iter::once(&interaction.source).chain(&interaction.sinks);
        let mtu = plan.networks[place].mtu.get();
        let assumed = Conditions {
            loss: interaction.assume_loss.map_or(0.0, units::Ratio::fraction),
            rtt_ns: interaction.assume_round_trip.map_or(20_000_000, units::Span::as_ns),
            rate_bit_s: interaction.multicast_rate.bit_s() as f64,
            mtu: mtu as f64,
            group: interaction.sinks.len() as f64,
            payload: interaction.payload_bytes as f64,
            messages_s: 1e9 / interaction.every.as_ns().max(1) as f64,
            ..Conditions::default()
        };
        Self {
            segment: segments.swap_remove(place),
            config: config(assumed, models),
            ends: names.map(|name| own(name).expect("a node on the network")).collect(),
            mtu: mtu as usize,
            every: interaction.every.as_ns(),
            messages: interaction.messages,
            payload: interaction.payload_bytes as usize,
            seed: plan.weather(),
        }
    }

    /// A run of `messages` messages on one model, over a network that is like `here` and known
    /// to be: the hub's link has the rate, the members' links delay and lose.
    pub fn at(here: &Conditions, model: ModelId, messages: u64, seed: u64) -> Self {
        let mut member = Impairment { delay: Span::from_ns(here.rtt_ns / 2), ..Default::default() };
        if here.burst > 1.0 && here.loss > 0.0 {
            let r = 1.0 / here.burst;
            let p = here.loss * r / (1.0 - here.loss);
            let share = |value| Ratio::from_fraction(value).unwrap_or_default();
            member.gilbert_elliott = Some(GilbertElliott {
                p: share(p),
                r: share(r),
                loss_bad: share(1.0),
                loss_good: share(0.0),
            });
        } else {
            member.loss = Ratio::from_fraction(here.loss).unwrap_or_default();
        }
        let rate = Rate::from_bit_s(here.rate_bit_s as u64);
        let hub = Impairment { rate, ..Default::default() };
        let ways =
            |of: &Impairment| Endpoint { up: of.clone(), down: of.clone(), ..Endpoint::default() };
        let count = here.group as usize;
        let mut endpoints = vec![ways(&hub)];
        endpoints.extend(std::iter::repeat_n(ways(&member), count));
        let end = |place: usize| {
            let [high, low] = (place as u16 + 1).to_be_bytes();
            End { place, address: [10, 0, high, low].into(), mac: [2, 0, 10, 0, high, low] }
        };
        Self {
            segment: SegmentSpec { endpoints, ..SegmentSpec::switch(seed) },
            config: config(*here, vec![model]),
            ends: (0..=count).map(end).collect(),
            mtu: here.mtu as usize,
            every: (1e9 / here.messages_s) as Nanos,
            messages,
            payload: here.payload as usize,
            seed,
        }
    }
}

/// What is due: somebody looks what is to be done, or the application sends.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Wake(Option<u32>),
    Send,
}

/// The parts of a datagram that was too long for a frame, by place, and its length if the last
/// is there.
type Fragments = (BTreeMap<usize, Vec<u8>>, Option<usize>);

/// A run under way.
pub struct Trial {
    segment: Segment,
    hub: Hub,
    members: Vec<Member>,
    group: SocketAddrV4,
    ends: Vec<End>,
    every: Nanos,
    messages: u64,
    payload: usize,
    joined_at: Vec<Nanos>,
    /// Bytes of IP payload that a frame has room for.
    room: usize,
    /// Fragments that have come, by receiver, sender and identification.
    fragments: HashMap<(usize, [u8; 4], [u8; 2]), Fragments>,
    identification: u16,
    queue: BinaryHeap<Reverse<(Nanos, u64, What)>>,
    number: u64,
    wakes: BTreeMap<Option<u32>, Nanos>,
    /// Messages by the session's number.
    sent: BTreeMap<u64, usize>,
    outcome: Outcome,
}

impl Trial {
    /// A run, by a hub with this map.
    pub fn new(setup: Setup, map: Arc<PerformanceMap>) -> Self {
        let Setup { segment, config, ends, mtu, every, messages, payload, seed } = setup;
        let (group, security, count) = (config.group, config.security.clone(), ends.len() - 1);
        let hub = Hub::new(config, map, count, 1_000, seed).expect("a session");
        let member = |n: u64| Member::new(security.clone(), HEADERS, seed ^ ((n + 1) << 20));
        let mut trial = Self {
            segment: Segment::new(&segment),
            hub,
            members: (0..count as u64).map(|n| member(n).expect("a member")).collect(),
            group,
            ends,
            every,
            messages,
            payload,
            joined_at: vec![0; count],
            room: mtu - 20,
            fragments: HashMap::new(),
            identification: 0,
            queue: BinaryHeap::new(),
            number: 0,
            wakes: BTreeMap::new(),
            sent: BTreeMap::new(),
            outcome: Outcome::default(),
        };
        trial.wake(None, 0);
        (0..count as u32).for_each(|n| trial.wake(Some(n), 1));
        trial
    }

    fn wake(&mut self, who: Option<u32>, at: Nanos) {
        if self.wakes.get(&who).is_none_or(|known| at < *known) {
            self.wakes.insert(who, at);
            self.at(at, What::Wake(who));
        }
    }

    fn at(&mut self, at: Nanos, what: What) {
        self.number += 1;
        self.queue.push(Reverse((at, self.number, what)));
    }

    /// Runs it to its end: all messages, and `drain` after the last.
    pub fn run(mut self, drain: Nanos) -> Outcome {
        let last = SETTLED + self.every * self.messages.saturating_sub(1);
        for number in 0..self.messages {
            self.at(SETTLED + number * self.every, What::Send);
        }
        let mut impaired = false;
        loop {
            let queued = self.queue.peek().map(|Reverse((at, ..))| *at);
            let carried = self.segment.next();
            let Some(now) = [queued, carried].into_iter().flatten().min() else { break };
            if !impaired && now >= SETTLED {
                impaired = true;
                self.segment.impair(SETTLED);
            }
            if now > last + drain || (now > last && self.hub.open_messages() == 0) {
                break;
            }
            if carried.is_some_and(|at| at <= now) {
                while let Some(delivery) = self.segment.due(now) {
                    let frame = delivery.frame.first().into_owned();
                    self.arrive(delivery.endpoint, &frame, now);
                }
                continue;
            }
            let Some(Reverse((_, _, what))) = self.queue.pop() else { break };
            match what {
                What::Wake(who) if self.wakes.get(&who) == Some(&now) => {
                    self.wakes.remove(&who);
                    self.turn(who, now);
                }
                What::Wake(_) => {}
                What::Send => self.send(now),
            }
        }
        self.outcome
    }

    fn send(&mut self, now: Nanos) {
        let payload = vec![7; self.payload];
        let took = vec![None; self.members.len()];
        let told = Told { sent: now - SETTLED, took };
        // What no model carries is a message that nobody had.
        if let Ok(number) = self.hub.send(&payload, now) {
            self.sent.insert(number, self.outcome.messages.len());
        }
        self.outcome.messages.push(told);
        self.turn(None, now);
    }

    fn arrive(&mut self, endpoint: usize, frame: &[u8], now: Nanos) {
        // UDP of IPv4 alone is for programs.
        if frame.len() < 34 || frame[23] != 17 {
            return;
        }
        let Some(place) = self.ends.iter().position(|end| end.place == endpoint) else { return };
        // A switch floods what it does not know; interfaces take their own, and multicast.
        if frame[0] & 1 == 0 && frame[..6] != self.ends[place].mac {
            return;
        }
        let Some(packet) = self.whole(place, frame) else { return };
        let Some((_, datagram)) = packet.split_at_checked(8) else { return };
        let from = self.ends.iter().position(|end| end.address.octets() == frame[26..30]);
        match place.checked_sub(1) {
            None => {
                let member = from.and_then(|from| from.checked_sub(1)).map(|from| from as u32);
                self.hub.receive(datagram, member, now);
                self.turn(None, now);
            }
            Some(member) => {
                self.members[member].receive(datagram, now);
                // Multicast that came to it alone: it joins again, as `director::io` does.
                let alone = frame[0] & 1 == 0 && is_multicast(datagram);
                if alone && now >= self.joined_at[member] + JOIN_EVERY {
                    self.join(member, now);
                }
                self.turn(Some(member as u32), now);
            }
        }
    }

    /// The payload of IP, once all fragments of it are there.
    fn whole(&mut self, place: usize, frame: &[u8]) -> Option<Vec<u8>> {
        let length = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let payload = frame.get(34..14 + length)?;
        let flags = u16::from_be_bytes([frame[20], frame[21]]);
        let (more, offset) = (flags & 0x2000 != 0, usize::from(flags & 0x1fff) * 8);
        if !more && offset == 0 {
            return Some(payload.to_vec());
        }
        let key = (place, [frame[26], frame[27], frame[28], frame[29]], [frame[18], frame[19]]);
        let (parts, end) = self.fragments.entry(key).or_default();
        parts.insert(offset, payload.to_vec());
        if !more {
            *end = Some(offset + payload.len());
        }
        let had: usize = parts.values().map(Vec::len).sum();
        (*end == Some(had)).then_some(())?;
        let (parts, _) = self.fragments.remove(&key)?;
        Some(parts.into_values().flatten().collect())
    }

    fn turn(&mut self, who: Option<u32>, now: Nanos) {
        loop {
            let (datagram, wake) = match who {
                None => self.hub.poll(now),
                Some(member) => {
                    let (datagram, wake) = self.members[member as usize].poll(now);
                    (datagram.map(|datagram| (To::Hub, datagram)), wake)
                }
            };
            let Some((to, datagram)) = datagram else {
                if let Some(wake) = wake {
                    self.wake(who, wake.max(now + 1_000));
                }
                break;
            };
            self.carry(who, to, &datagram, now);
        }
        match who {
            None => self.hear(now),
            Some(member) => self.answer(member, now),
        }
    }

    fn hear(&mut self, now: Nanos) {
        for event in self.hub.take_events() {
            match event {
                Event::Answer { message, member, .. } => {
                    let Some(place) = self.sent.get(&message) else { continue };
                    let told = &mut self.outcome.messages[*place];
                    let took = &mut told.took[member as usize];
                    self.outcome.doubled += u64::from(took.is_some());
                    took.get_or_insert(now - SETTLED - told.sent);
                }
                Event::ModelChange { to, at, .. } if at >= SETTLED => {
                    let why = self.hub.explain().to_string();
                    self.outcome.changes.push((at - SETTLED, to, why));
                }
                _ => {}
            }
        }
    }

    fn answer(&mut self, member: u32, now: Nanos) {
        let mut answered = false;
        for event in self.members[member as usize].take_events() {
            match event {
                MemberEvent::Message { number, bytes } => {
                    // What cannot be answered is told by the deadline.
                    let _ = self.members[member as usize].answer(number, &bytes, now);
                    answered = true;
                }
                MemberEvent::Joined { .. } => self.join(member as usize, now),
            }
        }
        if answered {
            self.turn(Some(member), now);
        }
    }

    /// Tells the network that a member wants the group's multicast (IGMP, version 2).
    fn join(&mut self, member: usize, now: Nanos) {
        self.joined_at[member] = now;
        let report = [&[0x16, 0, 0, 0][..], &self.group.ip().octets()].concat();
        let group = *self.group.ip();
        let End { place, address, mac } = self.ends[member + 1];
        let ends = ((address, mac), (group, multicast_mac(group)));
        let frame = frame(ends, 2, (0, 0), &report);
        self.segment.send(place, &frame, now);
    }

    fn carry(&mut self, who: Option<u32>, to: To, datagram: &[u8], now: Nanos) {
        let from = self.ends[who.map_or(0, |member| member as usize + 1)];
        let to = match to {
            To::Hub => self.ends[0].link(),
            To::Member(member) => self.ends[member as usize + 1].link(),
            To::Group => (*self.group.ip(), multicast_mac(*self.group.ip())),
        };
        let length = (datagram.len() + 8) as u16;
        let ports = [PORT.to_be_bytes(), PORT.to_be_bytes(), length.to_be_bytes(), [0, 0]];
        let packet = [&ports.concat(), datagram].concat();
        self.identification = self.identification.wrapping_add(1);
        // Fragments begin at multiples of 8 B.
        let room = if packet.len() <= self.room { self.room } else { self.room / 8 * 8 };
        let last = (packet.len().max(1) - 1) / room;
        for (place, part) in packet.chunks(room).enumerate() {
            let more = if place < last { 0x2000 } else { 0 };
            let flags = more | (place * room / 8) as u16;
            let frame = frame((from.link(), to), 17, (self.identification, flags), part);
            if now >= SETTLED {
                self.outcome.bytes += frame.len() as u64;
            }
            self.segment.send(from.place, &frame, now);
        }
    }
}

fn multicast_mac(group: Ipv4Addr) -> [u8; 6] {
    let [_, b, c, d] = group.octets();
    [1, 0, 0x5e, b & 0x7f, c, d]
}

impl End {
    fn link(&self) -> Link {
        (self.address, self.mac)
    }
}

/// An address, and that of its interface.
type Link = (Ipv4Addr, [u8; 6]);

/// A frame of Ethernet and IPv4; nobody here checks its checksums.
fn frame(
    ((from, from_mac), (to, to_mac)): (Link, Link),
    protocol: u8,
    (identification, flags): (u16, u16),
    payload: &[u8],
) -> Vec<u8> {
    let length = ((20 + payload.len()) as u16).to_be_bytes();
    let [id, flags] = [identification.to_be_bytes(), flags.to_be_bytes()];
    let head = [0x45, 0, length[0], length[1], id[0], id[1], flags[0], flags[1], 1, protocol, 0, 0];
    let parts: [&[u8]; 7] =
        [&to_mac, &from_mac, &[8, 0], &head, &from.octets(), &to.octets(), payload];
    parts.concat()
}
