//! A hub and two members, one of which can be away.

use crate::bed::{hub, member};
use director::Instant;
use director::carrier::To;
use director::session::{Config, Event, Hub, Member, MemberEvent};
use std::collections::{BTreeMap, BTreeSet};

/// A hub and two members, of which the first can be away.
pub struct Pair {
    pub hub: Hub,
    members: [Member; 2],
    pub away: bool,
    pub now: u64,
    pub received: BTreeSet<(u32, Vec<u8>)>,
    pub acknowledged: BTreeSet<(u64, u32)>,
    pub over: BTreeMap<u64, Vec<u32>>,
}

impl Pair {
    /// Both have joined.
    pub fn new(config: &Config) -> Self {
        let mut pair = Self {
            hub: hub(config, 2, 1),
            members: [member(config, 2), member(config, 3)],
            away: false,
            now: 0,
            received: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            over: BTreeMap::new(),
        };
        (0..2_000).for_each(|_| pair.step());
        assert!(pair.hub.is_ready());
        pair
    }

    /// Lets a millisecond pass.
    pub fn step(&mut self) {
        self.now += 1_000_000;
        let now = Instant::from_ns(self.now);
        for (number, member) in (0..).zip(&mut self.members) {
            while let (Some(datagram), _) = member.poll(now) {
                if !self.away || number == 1 {
                    self.hub.receive(&datagram, Some(number), now);
                }
            }
        }
        while let (Some((To::Member(member), datagram)), _) = self.hub.poll(now) {
            if !self.away || member == 1 {
                self.members[member as usize].receive(&datagram, now);
            }
        }
        for (number, member) in (0..).zip(&mut self.members) {
            for event in member.take_events() {
                if let MemberEvent::Message { bytes, .. } = event {
                    assert!(self.received.insert((number, bytes)), "received twice");
                }
            }
        }
        for event in self.hub.take_events() {
            match event {
                Event::Acknowledged { message, member } => {
                    self.acknowledged.insert((message, member));
                }
                Event::Over { message, lacking } => {
                    assert!(self.over.insert(message, lacking).is_none(), "over twice");
                }
                _ => {}
            }
        }
    }
}
