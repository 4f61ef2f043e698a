//! A session without sockets, in virtual time and one thread: what the library itself computes for each
//! answer. The system's part, and other work on the machine, do not count.

use crate::director_side::Setup;
use crate::protection::Protection;
use crate::{Failure, PAYLOAD, cpu, median};
use director::carrier::To;
use director::session::{Config, Event, Hub, Member, MemberEvent};
use director::{Conditions, Instant, Pattern, PerformanceMap, Seed, Span};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Virtual time of a round: the hub sends, all members answer, and the hub receives.
const ROUND: Span = Span::from_us(200);
/// Rounds until which all members have joined.
const JOINING: usize = 100_000;
/// Answers of a turn.
const ANSWERS: usize = 100_000;

/// CPU time per answer, in us.
#[derive(Debug, Clone, Copy)]
pub struct Computed {
    pub hub_us: f64,
    pub members_us: f64,
    /// Datagrams of the hub and of members per answer.
    pub sent: f64,
    pub returned: f64,
}

/// A hub and its members.
struct Bed {
    hub: Hub,
    members: Vec<Member>,
    now: Instant,
    to_members: VecDeque<(To, Vec<u8>)>,
    to_hub: VecDeque<(u32, Vec<u8>)>,
    answers: usize,
    over: usize,
    datagrams: [usize; 2],
    busy: [Duration; 2],
}

impl Bed {
    fn new(setup: Setup) -> Result<Self, Failure> {
        let security = setup.protection.of_hub(setup.members);
        let mut config = Config::new(Pattern::PublishCollect, security);
        config.models = vec![setup.model];
        config.signed = setup.protection == Protection::Signed;
        config.assumed = Conditions {
            payload: PAYLOAD as f64,
            group: setup.members as f64,
            rate_bit_s: setup.rate_bit_s,
            ..Conditions::default()
        };
        let member = |number| {
            let seed = Seed::reproducible(number as u64 + 2);
            Member::new(&setup.protection.of_member(number), config.below, &seed)
        };
        let members = (0..setup.members).map(member).collect::<Result<_, _>>()?;
        let (map, seed) = (Arc::new(PerformanceMap::new()), Seed::reproducible(1));
        Ok(Self {
            hub: Hub::new(config, map, setup.members, &seed)?,
            members,
            now: Instant::START,
            to_members: VecDeque::new(),
            to_hub: VecDeque::new(),
            answers: 0,
            over: 0,
            datagrams: [0; 2],
            busy: [Duration::ZERO; 2],
        })
    }

    /// One round.
    fn round(&mut self) {
        self.now += ROUND;
        let began = cpu();
        for (member, datagram) in self.to_hub.drain(..) {
            self.hub.receive(&datagram, Some(member), self.now);
        }
        while let (Some(datagram), _) = self.hub.poll(self.now) {
            self.to_members.push_back(datagram);
        }
        for event in self.hub.take_events() {
            match event {
                Event::Answer { .. } => self.answers += 1,
                Event::Over { .. } => self.over += 1,
                _ => {}
            }
        }
        let handed = cpu();
        self.datagrams[0] += self.to_members.len();
        for (to, datagram) in self.to_members.drain(..) {
            let receivers = match to {
                To::Member(member) => &mut self.members[member as usize..=member as usize],
                To::Group => &mut self.members[..],
                To::Hub => &mut [],
            };
            receivers.iter_mut().for_each(|member| member.receive(&datagram, self.now));
        }
        for (number, member) in (0..).zip(&mut self.members) {
            for event in member.take_events() {
                if let MemberEvent::Message { number, bytes } = event {
                    let _ = member.answer(number, bytes, self.now);
                }
            }
            while let (Some(datagram), _) = member.poll(self.now) {
                self.to_hub.push_back((number, datagram));
            }
        }
        self.datagrams[1] += self.to_hub.len();
        self.busy[0] += handed - began;
        self.busy[1] += cpu() - handed;
    }

    /// Keeps a window of messages open until there are enough answers.
    fn run(&mut self, window: usize) -> Result<Computed, Failure> {
        (self.answers, self.datagrams, self.busy) = (0, [0; 2], [Duration::ZERO; 2]);
        let (message, mut open) = (vec![7; PAYLOAD], 0);
        while self.answers < ANSWERS || open > 0 {
            let more = if self.answers < ANSWERS { window - open } else { 0 };
            let began = cpu();
            for _ in 0..more {
                self.hub.send(&message, self.now)?;
            }
            self.busy[0] += cpu() - began;
            (open, self.over) = (open + more, 0);
            self.round();
            open -= self.over;
        }
        let each = |value: f64| value / self.answers as f64;
        let us = |time: Duration| each(time.as_secs_f64() * 1e6);
        let [sent, returned] = self.datagrams.map(|count| each(count as f64));
        Ok(Computed { hub_us: us(self.busy[0]), members_us: us(self.busy[1]), sent, returned })
    }
}

/// Computes turns; the medians of CPU times are over them.
///
/// # Errors
/// The session cannot start, or not all members join.
pub fn compute(setup: Setup, window: usize, turns: usize) -> Result<Computed, Failure> {
    let mut bed = Bed::new(setup)?;
    if !(0..JOINING).any(|_| {
        bed.round();
        bed.hub.is_ready()
    }) {
        return Err("not all members have joined".into());
    }
    let all = (0..turns).map(|_| bed.run(window)).collect::<Result<Vec<_>, _>>()?;
    let of = |value: fn(&Computed) -> f64| median(all.iter().map(value).collect());
    Ok(Computed {
        hub_us: of(|one| one.hub_us),
        members_us: of(|one| one.members_us),
        sent: of(|one| one.sent),
        returned: of(|one| one.returned),
    })
}
