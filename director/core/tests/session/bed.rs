//! A hub and members over a shared, lossy channel in virtual time.

use director::carrier::To;
use director::session::{Config, Event, Hub, Member, MemberEvent, Security};
use director::{Conditions, Instant, ModelId, Pattern, PerformanceMap, Seed, Span};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

const KEY: &[u8] = b"a key that both ends have";

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The hub (`None`) or a member is polled.
    Wake(Option<u32>),
    /// A datagram arrives: receiver, sender, content.
    Arrive(Option<u32>, Option<u32>, Vec<u8>),
    /// The application sends its next message.
    Send,
    /// The session changes to another model.
    Change(ModelId),
    /// A member restarts.
    Restart(u32),
    /// Sets the loss, in percent.
    Lose(u8),
    /// External stacks fail.
    Stop,
    /// Sets the number of receivers per message: the first members.
    Reach(u32),
    /// Sets the data rate, in bit/s.
    Carry(u32),
    /// Sets the path MTU, in bytes.
    Packets(u32),
}

pub struct Bed {
    pub hub: Hub,
    pub members: Vec<Member>,
    queue: BinaryHeap<Reverse<(u64, u64, What)>>,
    number: u64,
    state: u64,
    loss: f64,
    /// Number of members that multicast does not reach: the first ones.
    pub unreachable: u32,
    /// Members that are off.
    pub off: BTreeSet<u32>,
    /// Whether external stacks work.
    stacks: bool,
    /// Number of receivers per message: the first members.
    to: u32,
    rate_bit_s: f64,
    free_at: u64,
    /// Next wake-up of the hub and of each member.
    pub wakes: BTreeMap<Option<u32>, u64>,
    pub bytes: u64,
    /// Size of the longest datagram.
    pub longest: usize,
    /// Number of invitations.
    pub invited: usize,
    /// Messages that each member's application has received, in order.
    pub had: Vec<Vec<Vec<u8>>>,
    pub answers: BTreeMap<(u64, u32), Vec<u8>>,
    acknowledged: BTreeMap<u64, u32>,
    pub over: BTreeMap<u64, usize>,
    /// Sending times of messages, and time until all of their answers arrived.
    sent_at: Vec<u64>,
    pub took: BTreeMap<u64, u64>,
    pub changes: Vec<(ModelId, ModelId)>,
    /// What an attacker has recorded of the members' datagrams, without hellos, if there is one: after each
    /// datagram that arrives at the hub, it replays five of these from the member's address.
    pub recorded: Option<Vec<(Option<u32>, Vec<u8>)>>,
    answered: bool,
}

pub fn hub(config: &Config, members: usize, seed: u64) -> Hub {
    let map = Arc::new(PerformanceMap::new());
    Hub::new(config.clone(), map, members, &Seed::reproducible(seed)).unwrap()
}

pub fn member(config: &Config, seed: u64) -> Member {
    Member::new(&config.security, 42, &Seed::reproducible(seed)).unwrap()
}

pub fn config(pattern: Pattern, assumed: Conditions, models: &[ModelId]) -> Config {
    let mut config = Config::new(pattern, Security::Key(KEY.to_vec()));
    config.assumed = assumed;
    config.models = models.to_vec();
    config.outside = models.to_vec();
    // The network may be away for longer.
    config.lifetime = None;
    config
}

/// First byte of an invitation.
const INVITATION: u8 = 0x24;
/// First byte of a hello.
const HELLO: u8 = 0x26;

pub const OUTSIDE: [ModelId; 4] = [
    ModelId::TcpRouterDealer,
    ModelId::TcpPublishSubscribe,
    ModelId::PgmPublishSubscribe,
    ModelId::Mqtt,
];

impl Bed {
    pub fn new(config: &Config, members: usize, loss: f64, seed: u64) -> Self {
        let hub = hub(config, members, seed);
        let member = |n| member(config, seed * 1_000 + n as u64).with_outside(&config.outside);
        let members: Vec<Member> = (0..members).map(member).collect();
        let mut bed = Self {
            hub,
            had: vec![Vec::new(); members.len()],
            to: members.len() as u32,
            members,
            queue: BinaryHeap::new(),
            number: 0,
            state: seed | 1,
            loss,
            unreachable: 0,
            off: BTreeSet::new(),
            stacks: true,
            rate_bit_s: match config.assumed.rate_bit_s {
                0.0 => 100e6,
                configured => configured,
            },
            free_at: 0,
            wakes: BTreeMap::new(),
            bytes: 0,
            longest: 0,
            invited: 0,
            answers: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            over: BTreeMap::new(),
            sent_at: Vec::new(),
            took: BTreeMap::new(),
            changes: Vec::new(),
            recorded: None,
            answered: config.pattern.is_answered(),
        };
        bed.wake(None, 0);
        (0..bed.members.len() as u32).for_each(|n| bed.wake(Some(n), 1));
        bed
    }

    fn draw(&mut self) -> f64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn at(&mut self, at: u64, what: What) {
        self.number += 1;
        self.queue.push(Reverse((at, self.number, what)));
    }

    pub fn wake(&mut self, who: Option<u32>, at: u64) {
        if self.wakes.get(&who).is_none_or(|known| at < *known) {
            self.wakes.insert(who, at);
            self.at(at, What::Wake(who));
        }
    }

    fn carry(&mut self, now: u64, from: Option<u32>, to: To, datagram: &[u8]) {
        let airtime = (datagram.len() + 42) as f64 * 8e9 / self.rate_bit_s;
        self.free_at = self.free_at.max(now) + airtime as u64;
        self.bytes += datagram.len() as u64 + 42;
        self.longest = self.longest.max(datagram.len());
        self.invited += usize::from(datagram[0] == INVITATION);
        let receivers: Vec<Option<u32>> = match to {
            To::Hub => vec![None],
            To::Member(member) => vec![Some(member)],
            To::Group => (self.unreachable..self.members.len() as u32).map(Some).collect(),
        };
        // 30 ms +/- 5 ms.
        let arrival = self.free_at + 25_000_000 + (self.draw() * 1e7) as u64;
        let outside = director::carrier::model_of(datagram).is_some();
        for receiver in receivers {
            let carried = if outside { self.stacks } else { self.draw() >= self.loss };
            if carried {
                self.at(arrival, What::Arrive(receiver, from, datagram.to_vec()));
            }
        }
    }

    /// Runs until the event queue is empty, or `until`.
    pub fn run(&mut self, until: u64, mut payload: impl FnMut(u64) -> Vec<u8>) -> u64 {
        let mut sent = 0;
        while let Some(next) = self.queue.peek() {
            if next.0.0 > until {
                return next.0.0;
            }
            let Some(Reverse((now, _, what))) = self.queue.pop() else { break };
            let who = match what {
                What::Wake(who) => {
                    if self.wakes.get(&who) != Some(&now) {
                        continue;
                    }
                    self.wakes.remove(&who);
                    if who.is_some_and(|member| self.off.contains(&member)) {
                        continue;
                    }
                    who
                }
                What::Arrive(None, from, datagram) => {
                    // Frames of external stacks have no source address.
                    let outside = director::carrier::model_of(&datagram).is_some();
                    self.hub.receive(&datagram, from.filter(|_| !outside), Instant::from_ns(now));
                    self.replay(from, datagram, now);
                    None
                }
                What::Arrive(Some(member), ..) if self.off.contains(&member) => continue,
                What::Arrive(Some(member), _, datagram) => {
                    self.members[member as usize].receive(&datagram, Instant::from_ns(now));
                    Some(member)
                }
                What::Reach(members) => {
                    self.to = members;
                    None
                }
                What::Packets(bytes) => {
                    self.hub.packets(Some(bytes), Instant::from_ns(now));
                    None
                }
                What::Send => {
                    let to: Vec<u32> = (0..self.to).collect();
                    self.hub.send_to(&payload(sent), &to, Instant::from_ns(now)).unwrap();
                    sent += 1;
                    self.sent_at.push(now);
                    None
                }
                What::Carry(bit_s) => {
                    self.rate_bit_s = bit_s.into();
                    None
                }
                What::Change(model) => {
                    if !self.hub.force(model, Instant::from_ns(now)) {
                        self.at(now + 50_000_000, What::Change(model));
                    }
                    None
                }
                What::Restart(member) => {
                    let (security, seed) =
                        (Security::Key(KEY.to_vec()), 77_000 + u64::from(member));
                    let seed = Seed::reproducible(seed);
                    self.members[member as usize] = Member::new(&security, 42, &seed).unwrap();
                    Some(member)
                }
                What::Stop => {
                    self.stacks = false;
                    None
                }
                What::Lose(percent) => {
                    self.loss = f64::from(percent) / 100.0;
                    None
                }
            };
            self.turn(who, now);
        }
        until
    }

    fn replay(&mut self, from: Option<u32>, datagram: Vec<u8>, now: u64) {
        let Some(recorded) = &mut self.recorded else { return };
        if datagram[0] != HELLO {
            recorded.push((from, datagram));
        }
        for n in 0..5.min(recorded.len()) {
            let (from, datagram) = &recorded[(now as usize / 7 + n * 13) % recorded.len()];
            self.hub.receive(datagram, *from, Instant::from_ns(now));
        }
    }

    fn turn(&mut self, who: Option<u32>, now: u64) {
        let (datagram, wake) = match who {
            None => self.hub.poll(Instant::from_ns(now)),
            Some(member) => {
                let own = &mut self.members[member as usize];
                for event in own.take_events() {
                    let MemberEvent::Message { number, bytes } = event else { continue };
                    if self.answered {
                        let answer: Vec<u8> = bytes.iter().map(|b| b ^ member as u8).collect();
                        own.answer(number, answer, Instant::from_ns(now)).unwrap();
                    }
                    self.had[member as usize].push(bytes);
                }
                let (datagram, wake) = own.poll(Instant::from_ns(now));
                (datagram.map(|datagram| (To::Hub, datagram)), wake)
            }
        };
        let wake = wake.map(Instant::as_ns);
        let more = datagram.is_some();
        if let Some((to, datagram)) = datagram {
            self.carry(now, who, to, &datagram);
        }
        let wake = if more { Some(wake.unwrap_or(now)) } else { wake };
        if let Some(wake) = wake {
            self.wake(who, wake.max(now + 1_000));
        }
        for event in self.hub.take_events() {
            match event {
                Event::Answer { message, member, bytes } => {
                    assert!(self.answers.insert((message, member), bytes).is_none());
                }
                Event::Acknowledged { message, .. } => {
                    *self.acknowledged.entry(message).or_default() += 1;
                }
                Event::Over { message, lacking } => {
                    self.over.insert(message, lacking.len());
                    let sent_at = self.sent_at.get(message as usize).copied();
                    self.took.extend(sent_at.map(|at| (message, now - at)));
                }
                Event::ModelChange { from, to, .. } => self.changes.push((from, to)),
                Event::Joined(_)
                | Event::Left(_)
                | Event::Message { .. }
                | Event::Published { .. } => {}
            }
        }
    }
}

pub const SECOND: u64 = 1_000_000_000;

pub fn constrained() -> Conditions {
    Conditions {
        loss: 0.3,
        rtt: Span::from_ms(60),
        rate_bit_s: 250_000.0,
        mtu: 113.0,
        payload: 1_699.0,
        messages_s: 0.01,
        ..Conditions::default()
    }
}
