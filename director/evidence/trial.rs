//! One run of an experiment's interaction in virtual time: the director's own hub and
//! members, over the medium's model of the network, with its timetable. No real time
//! passes, and the figures do not depend on the machine.

use crate::setup::{CrossTraffic, End, Setup};
use crate::wire::{HEADERS, UdpFrame, Wire, foreign, group_link, report};
use director::carrier::To;
use director::session::{Event, Hub, Member, MemberEvent};
use director::{Instant, ModelId, PerformanceMap, Seed, Span};
use engine::Segment;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Minimum time between two joins of a group by a member.
// As in `director::io`.
const JOIN_EVERY: Span = Span::from_s(2);

/// The answers to a message.
#[derive(Debug, Clone)]
pub struct Message {
    /// Time of sending from the start of the timetable.
    pub sent: Span,
    /// Time of each answer; none if it did not arrive.
    pub durations: Vec<Option<Span>>,
}

/// The results of a run.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// Answers that arrived twice.
    pub duplicates: u64,
    /// Changes of the model: when, from the start of the timetable, to which, and why.
    pub changes: Vec<(Span, ModelId, String)>,
    /// The model of the first message.
    pub first_model: Option<ModelId>,
    /// Bytes of sent frames, link headers included.
    pub bytes: u64,
}

impl Outcome {
    /// The model in use at a time from the start of the timetable.
    pub fn model_at(&self, at: Span) -> Option<ModelId> {
        let changed = self.changes.iter().rev().find(|(changed, ..)| *changed <= at);
        changed.map(|(_, to, _)| *to).or(self.first_model)
    }
}

/// A due event: the hub (none) or a member is polled, the application sends, or cross traffic does.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Wake(Option<u32>),
    Send,
    Cross,
}

/// A run in progress.
pub struct Trial {
    segment: Segment,
    hub: Hub,
    members: Vec<Member>,
    group: Ipv4Addr,
    ends: Vec<End>,
    cross: Option<CrossTraffic>,
    every: Span,
    messages: u64,
    /// Number of members that receive each message.
    fan_out: Vec<u32>,
    payload: usize,
    /// Start of the timetable, and of the messages.
    impaired_at: Instant,
    first_at: Instant,
    joined_at: Vec<Instant>,
    wire: Wire,
    queue: BinaryHeap<Reverse<(Instant, u64, Due)>>,
    number: u64,
    wakes: BTreeMap<Option<u32>, Instant>,
    /// Messages by the session's number.
    sent: BTreeMap<u64, usize>,
    outcome: Outcome,
}

impl Trial {
    /// A run whose hub uses this map.
    pub fn new(setup: Setup, map: Arc<PerformanceMap>) -> Self {
        let Setup { segment, config, ends, cross, mtu, every, messages, .. } = setup;
        let Setup { fan_out, payload, seed, .. } = setup;
        let (impaired_at, first_at) = (setup.impaired_at, setup.first_at);
        let IpAddr::V4(group) = config.group.ip() else { panic!("simulations use IPv4") };
        let (security, count) = (config.security.clone(), ends.len() - 1);
        let hub = Hub::new(config, map, count, &Seed::reproducible(seed)).expect("a session");
        let member = |n: u64| Member::new(&security, HEADERS, &Seed::reproducible(seed).child(n));
        let mut trial = Self {
            segment: Segment::new(&segment),
            hub,
            members: (0..count as u64).map(|n| member(n).expect("a member")).collect(),
            group,
            ends,
            cross,
            every,
            messages,
            fan_out,
            payload,
            impaired_at,
            first_at,
            joined_at: vec![Instant::START; count],
            wire: Wire::new(mtu),
            queue: BinaryHeap::new(),
            number: 0,
            wakes: BTreeMap::new(),
            sent: BTreeMap::new(),
            outcome: Outcome::default(),
        };
        trial.wake(None, Instant::START);
        (0..count as u32).for_each(|n| trial.wake(Some(n), Instant::from_ns(1)));
        trial
    }

    fn wake(&mut self, who: Option<u32>, at: Instant) {
        if self.wakes.get(&who).is_none_or(|known| at < *known) {
            self.wakes.insert(who, at);
            self.at(at, Due::Wake(who));
        }
    }

    fn at(&mut self, at: Instant, due: Due) {
        // The number makes the order of events at the same time the order of their creation.
        self.number += 1;
        self.queue.push(Reverse((at, self.number, due)));
    }

    /// Runs to the end: all messages, and `drain` after the last.
    pub fn run(mut self, drain: Span) -> Outcome {
        let last = self.first_at + self.every * self.messages.saturating_sub(1);
        for number in 0..self.messages {
            self.at(self.first_at + self.every * number, Due::Send);
        }
        if self.cross.is_some() {
            self.at(self.impaired_at, Due::Cross);
        }
        let mut impaired = false;
        loop {
            let queued = self.queue.peek().map(|Reverse((at, ..))| *at);
            let carried = self.segment.next();
            let Some(now) = [queued, carried].into_iter().flatten().min() else { break };
            if !impaired && now >= self.impaired_at {
                impaired = true;
                self.segment.impair(self.impaired_at);
            }
            if now > last + drain || (now > last && self.hub.open_messages() == 0) {
                break;
            }
            // Frames first: what has arrived is known when the application or a session acts.
            if carried.is_some_and(|at| at <= now) {
                while let Some(delivery) = self.segment.due(now) {
                    self.arrive(delivery.endpoint, &delivery.frame, now);
                }
                continue;
            }
            let Some(Reverse((_, _, due))) = self.queue.pop() else { break };
            match due {
                // Only the earliest wake of each counts; older entries stay in the queue.
                Due::Wake(who) if self.wakes.get(&who) == Some(&now) => {
                    self.wakes.remove(&who);
                    self.turn(who, now);
                }
                Due::Wake(_) => {}
                Due::Send => self.send(now),
                Due::Cross => self.send_cross(now),
            }
        }
        self.outcome
    }

    fn send(&mut self, now: Instant) {
        if self.outcome.messages.is_empty() {
            self.outcome.first_model = Some(self.hub.explain().model);
        }
        let payload = vec![7; self.payload];
        let to = self.fan_out[self.outcome.messages.len()];
        let durations = vec![None; to as usize];
        let message = Message { sent: now - self.impaired_at, durations };
        // A message that no model carries counts as sent but not received.
        let to: Vec<u32> = (0..to).collect();
        if let Ok(number) = self.hub.send_to(&payload, &to, now) {
            self.sent.insert(number, self.outcome.messages.len());
        }
        self.outcome.messages.push(message);
        self.turn(None, now);
    }

    fn send_cross(&mut self, now: Instant) {
        let Some(CrossTraffic { end, payload, every }) = self.cross else { return };
        let frame = foreign(self.ends[0].link, end.link, payload);
        self.segment.send(self.ends[0].place, &frame, now);
        self.at(now + every, Due::Cross);
    }

    fn arrive(&mut self, endpoint: usize, frame: &[u8], now: Instant) {
        if let Some(CrossTraffic { end, payload, .. }) = self.cross
            && end.place == endpoint
            && frame[..6] == end.link.1
        {
            let answer = foreign(end.link, self.ends[0].link, payload);
            self.segment.send(end.place, &answer, now);
            return;
        }
        let Some(place) = self.ends.iter().position(|end| end.place == endpoint) else { return };
        let Some(frame_in) = UdpFrame::of(frame, self.ends[place].link.1) else { return };
        let Some(datagram) = self.wire.whole(place, &frame_in, now) else { return };
        let from = self.ends.iter().position(|end| end.link.0 == frame_in.from());
        match place.checked_sub(1) {
            None => {
                let member = from.and_then(|from| from.checked_sub(1)).map(|from| from as u32);
                self.hub.receive(&datagram, member, now);
                self.turn(None, now);
            }
            Some(member) => {
                self.members[member].receive(&datagram, now);
                // Multicast content that arrived by unicast: it joins again, as `director::io` does.
                let unicast =
                    !frame_in.is_multicast() && self.members[member].misses_multicast(&datagram);
                if unicast && now >= self.joined_at[member] + JOIN_EVERY {
                    self.join(member, now);
                }
                self.turn(Some(member as u32), now);
            }
        }
    }

    fn turn(&mut self, who: Option<u32>, now: Instant) {
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
                    // At least 1 us later, as otherwise a wake that is already due would hold the
                    // time still.
                    self.wake(who, wake.max(now + Span::from_us(1)));
                }
                break;
            };
            self.carry(who, to, &datagram, now);
        }
        match who {
            None => self.take_events(now),
            Some(member) => self.answer(member, now),
        }
    }

    fn take_events(&mut self, now: Instant) {
        for event in self.hub.take_events() {
            match event {
                Event::Answer { message, member, .. } => {
                    let Some(place) = self.sent.get(&message) else { continue };
                    let message = &mut self.outcome.messages[*place];
                    let durations = &mut message.durations[member as usize];
                    self.outcome.duplicates += u64::from(durations.is_some());
                    durations.get_or_insert(now - self.impaired_at - message.sent);
                }
                // Before the first message, changes cost nothing.
                Event::ModelChange { to, at, .. } if at >= self.first_at => {
                    let why = self.hub.explain().to_string();
                    self.outcome.changes.push((at - self.impaired_at, to, why));
                }
                _ => {}
            }
        }
    }

    fn answer(&mut self, member: u32, now: Instant) {
        let mut answered = false;
        for event in self.members[member as usize].take_events() {
            match event {
                MemberEvent::Message { number, bytes } => {
                    // An answer that fails shows as a missed deadline.
                    let _ = self.members[member as usize].answer(number, bytes, now);
                    answered = true;
                }
                MemberEvent::Joined { .. } => self.join(member as usize, now),
                MemberEvent::Outcome { .. }
                | MemberEvent::Published { .. }
                | MemberEvent::Stored { .. } => {}
            }
        }
        if answered {
            self.turn(Some(member), now);
        }
    }

    /// Sends the membership report of a member.
    fn join(&mut self, member: usize, now: Instant) {
        self.joined_at[member] = now;
        let End { place, link } = self.ends[member + 1];
        self.segment.send(place, &report(link, self.group), now);
    }

    fn carry(&mut self, who: Option<u32>, to: To, datagram: &[u8], now: Instant) {
        let from = self.ends[who.map_or(0, |member| member as usize + 1)];
        let to = match to {
            To::Hub => self.ends[0].link,
            To::Member(member) => self.ends[member as usize + 1].link,
            To::Group => group_link(self.group),
        };
        for frame in self.wire.frames((from.link, to), datagram) {
            // Joining is not counted.
            if now >= self.first_at {
                self.outcome.bytes += frame.len() as u64;
            }
            self.segment.send(from.place, &frame, now);
        }
    }
}
