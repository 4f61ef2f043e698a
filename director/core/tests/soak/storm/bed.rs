//! A hub and members over faulty lines in virtual time, with applications that send all the time.

use super::setup::{Keys, Setup, models};
use crate::draws::Draws;
use crate::log::{End, Log};
use crate::weather::{Faults, Line, Toward};
use director::carrier::To;
use director::session::{Config, Hub, Member, Security};
use director::{Conditions, Instant, MessageId, ModelId, PerformanceMap, Seed, Span};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

pub const SECOND: u64 = 1_000_000_000;
pub(super) const MS: u64 = 1_000_000;
pub(super) const MEMBERS: usize = 5;
/// Delay of a datagram without faults.
const DELAY: u64 = MS;
/// Messages that each end has open at a time during a storm.
const OPEN: usize = 3;
/// Lifetime of messages after a storm.
pub(super) const PROBE_LIFETIME: Span = Span::from_s(10);
/// Interval of reports of members that change their addresses.
const KEEP_ALIVE: Span = Span::from_s(15);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// An end is polled: a member, or the hub (`None`).
    Wake(Option<usize>),
    /// A datagram arrives from this address.
    AtHub(u32, Vec<u8>),
    AtMember(usize, Vec<u8>),
    /// The application of an end sends.
    Send(Option<usize>),
    Start(usize),
    Disturb,
}

/// A message of an application without an end.
pub(super) struct Open {
    pub number: u64,
    pub request: bool,
    pub to: Vec<u32>,
    /// Whether it was sent after the storm.
    pub probe: bool,
}

pub struct Bed {
    pub(super) setup: Setup,
    models: Vec<ModelId>,
    pub(super) hub: Hub,
    pub(super) members: Vec<Option<Member>>,
    pub(super) starts: Vec<u32>,
    lines: Vec<Line>,
    pub(super) cut_until: Vec<[u64; 2]>,
    /// What the hub knows of addresses, as a driver does.
    addresses: BTreeMap<u32, u32>,
    numbers: BTreeMap<u32, u32>,
    /// The address of each member that the hub sees.
    seen: Vec<u32>,
    pub(super) now: u64,
    pub(super) queue: BinaryHeap<Reverse<(u64, u64, What)>>,
    count: u64,
    wakes: BTreeMap<Option<usize>, u64>,
    pub(super) storm: bool,
    pub(super) draws: Draws,
    faults: Faults,
    pub(super) log: Log,
    /// Messages without an end: of members by start and number, of the hub by number.
    pub(super) up: BTreeMap<(usize, u32, u32), Open>,
    pub(super) down: BTreeMap<MessageId, Open>,
    /// Members that have not exchanged a message since the storm, by direction.
    pub(super) lacks_up: BTreeSet<u32>,
    pub(super) lacks_down: BTreeSet<u32>,
}

fn key(of: usize) -> Vec<u8> {
    format!("the pre-shared key number {of}").into_bytes()
}

impl Bed {
    pub fn new(setup: Setup) -> Self {
        let models = models(setup.pattern);
        let security = match setup.keys {
            Keys::Shared => Security::Key(key(0)),
            Keys::Each => Security::Keys((0..MEMBERS).map(key).collect()),
            Keys::None => Security::InsecureOnPurpose,
        };
        let mut config = Config::new(setup.pattern, security);
        config.models = models.clone();
        config.assumed = Conditions {
            payload: 800.0,
            group: MEMBERS as f64,
            rate_bit_s: setup.rate_bit_s,
            ..Conditions::default()
        };
        let seed = Seed::reproducible(setup.seed);
        let hub = Hub::new(config, Arc::new(PerformanceMap::new()), MEMBERS, &seed);
        let all = || 0..MEMBERS as u32;
        let mut bed = Self {
            setup,
            models,
            hub: hub.expect("a hub"),
            members: (0..MEMBERS).map(|_| None).collect(),
            starts: vec![0; MEMBERS],
            lines: (0..MEMBERS).map(|_| Line::default()).collect(),
            cut_until: vec![[0; 2]; MEMBERS],
            addresses: all().zip(all()).collect(),
            numbers: all().zip(all()).collect(),
            seen: all().collect(),
            now: 0,
            queue: BinaryHeap::new(),
            count: 0,
            wakes: BTreeMap::new(),
            storm: true,
            draws: Draws::new(setup.seed, 1),
            faults: Faults::default(),
            log: Log::default(),
            up: BTreeMap::new(),
            down: BTreeMap::new(),
            lacks_up: BTreeSet::new(),
            lacks_down: BTreeSet::new(),
        };
        bed.wake(None, 0);
        (0..MEMBERS).for_each(|member| bed.at(0, What::Start(member)));
        bed.at(100 * MS, What::Disturb);
        let ends = (0..MEMBERS).map(Some).chain([None]);
        ends.for_each(|end| (0..OPEN).for_each(|_| bed.at(0, What::Send(end))));
        bed
    }

    pub(super) fn at(&mut self, at: u64, what: What) {
        self.count += 1;
        self.queue.push(Reverse((at, self.count, what)));
    }

    pub(super) fn wake(&mut self, end: Option<usize>, at: u64) {
        if self.wakes.get(&end).is_none_or(|known| at < *known) {
            self.wakes.insert(end, at);
            self.at(at, What::Wake(end));
        }
    }

    pub(super) fn instant(&self) -> Instant {
        Instant::from_ns(self.now)
    }

    /// Runs until `until`.
    pub fn run(&mut self, until: u64) {
        while self.queue.peek().is_some_and(|next| next.0.0 <= until) {
            self.step();
        }
        self.now = until;
    }

    /// The next event.
    pub(super) fn step(&mut self) {
        let Some(Reverse((now, _, what))) = self.queue.pop() else { return };
        self.now = now;
        let end = match what {
            What::Wake(end) => {
                if self.wakes.get(&end) != Some(&now) {
                    return;
                }
                self.wakes.remove(&end);
                end
            }
            What::AtHub(from, datagram) => {
                self.at_hub(from, &datagram);
                None
            }
            What::AtMember(member, datagram) => {
                let now = self.instant();
                if let Some(own) = &mut self.members[member] {
                    own.receive(&datagram, now);
                }
                Some(member)
            }
            What::Send(end) => {
                match end {
                    Some(member) => self.publish(member),
                    None => self.send(),
                }
                end
            }
            What::Start(member) => {
                self.start(member);
                Some(member)
            }
            What::Disturb => {
                self.disturb();
                None
            }
        };
        self.turn(end);
    }

    /// As the driver of sockets does it.
    fn at_hub(&mut self, from: u32, datagram: &[u8]) {
        let (member, now) = (self.numbers.get(&from).copied(), self.instant());
        self.hub.receive(datagram, member, now);
        for reply in self.hub.take_replies() {
            self.toward(from, reply);
        }
        if let Some(fresh) = self.hub.take_fresh()
            && member != Some(fresh)
        {
            if let Some(before) = self.addresses.insert(fresh, from) {
                self.numbers.remove(&before);
            }
            if let Some(other) = self.numbers.insert(from, fresh) {
                self.addresses.remove(&other);
            }
        }
    }

    /// The hub sends to an address.
    fn toward(&mut self, address: u32, datagram: Vec<u8>) {
        if let Some(line) = self.seen.iter().position(|seen| *seen == address) {
            self.carry(line, Toward::Member, datagram);
        }
    }

    fn carry(&mut self, line: usize, toward: Toward, datagram: Vec<u8>) {
        if self.now < self.cut_until[line][toward as usize] {
            self.faults.cut_off += 1;
            return;
        }
        let Self { draws, faults, lines, setup, .. } = self;
        let copies = match self.storm {
            true => lines[line].judge(&setup.weather, toward, &datagram, draws, faults),
            false => vec![(std::time::Duration::ZERO, datagram)],
        };
        for (delay, datagram) in copies {
            let at = self.now + DELAY + delay.as_nanos() as u64;
            let what = match toward {
                Toward::Hub => What::AtHub(self.seen[line], datagram),
                Toward::Member => What::AtMember(line, datagram),
            };
            self.at(at, what);
        }
    }

    fn turn(&mut self, end: Option<usize>) {
        let now = self.instant();
        for _ in 0..64 {
            let (datagram, wake) = match end {
                None => self.hub.poll(now),
                Some(member) => {
                    self.member_events(member);
                    let Some(own) = &mut self.members[member] else { return };
                    let (datagram, wake) = own.poll(now);
                    (datagram.map(|datagram| (To::Hub, datagram)), wake)
                }
            };
            let Some((to, datagram)) = datagram else {
                let soonest = self.now + 1_000;
                wake.into_iter().for_each(|wake| self.wake(end, wake.as_ns().max(soonest)));
                return self.events(end);
            };
            match (to, end) {
                (To::Hub, Some(member)) => self.carry(member, Toward::Hub, datagram),
                (To::Member(member), _) => {
                    if let Some(address) = self.addresses.get(&member).copied() {
                        self.toward(address, datagram);
                    }
                }
                _ => {
                    (0..MEMBERS).for_each(|line| self.carry(line, Toward::Member, datagram.clone()))
                }
            }
        }
        self.wake(end, self.now + 1_000);
        self.events(end);
    }

    fn events(&mut self, end: Option<usize>) {
        match end {
            Some(member) => self.member_events(member),
            None => self.hub_events(),
        }
    }

    fn start(&mut self, member: usize) {
        let (starts, seed) = (self.starts[member], self.setup.seed);
        let security = match self.setup.keys {
            Keys::Shared => Security::Key(key(0)),
            Keys::Each => Security::Key(key(member)),
            Keys::None => Security::InsecureOnPurpose,
        };
        let own = 1 + member as u64 * 1_000 + u64::from(starts);
        let own = Member::new(&security, 42, &Seed::reproducible(seed.wrapping_add(own)));
        let own = own.expect("a member");
        // A hub learns a new address only from what a member sends.
        let moves = self.setup.keys == Keys::Each;
        self.members[member] = Some(if moves { own.with_keep_alive(KEEP_ALIVE) } else { own });
    }

    fn stop(&mut self, member: usize) {
        self.members[member] = None;
        let own: Vec<_> = self.up.keys().filter(|key| key.0 == member).copied().collect();
        for key in own {
            let Some(open) = self.up.remove(&key) else { continue };
            self.log.end(open.number, None, End::Unknown);
            self.at(self.now + 10 * MS, What::Send(Some(member)));
        }
        self.starts[member] += 1;
    }

    /// Cuts, restarts, changes of the model and of addresses.
    fn disturb(&mut self) {
        if !self.storm {
            return;
        }
        let member = self.draws.below(MEMBERS as u64) as usize;
        match self.draws.below(10) {
            0..3 => {
                let until = self.now + (10 + self.draws.below(1_500)) * MS;
                let both = self.draws.below(3);
                let cut = &mut self.cut_until[member];
                cut.iter_mut().zip([both != 0, both != 1]).for_each(|(at, cut)| {
                    *at = if cut { until } else { *at };
                });
            }
            3..5 if self.members[member].is_some() => {
                self.stop(member);
                let at = self.now + self.draws.below(300) * MS;
                self.at(at, What::Start(member));
            }
            5..9 => {
                let model = self.models[self.draws.below(self.models.len() as u64) as usize];
                self.hub.force(model, self.instant());
            }
            9 if self.setup.keys == Keys::Each => {
                self.seen[member] = 1 + self.seen.iter().max().copied().unwrap_or(0);
            }
            _ => {}
        }
        let next = self.now + (20 + self.draws.below(200)) * MS;
        self.at(next, What::Disturb);
    }
}
