//! A member that is away while the others get very many messages.

use crate::bed::*;
use director::carrier::To;
use director::session::{Event, Hub, Member, MemberEvent};
use director::{Conditions, Instant, ModelId, Pattern, Span};
use std::collections::{BTreeMap, BTreeSet};

/// A hub and two members, of which the first can be away.
struct Pair {
    hub: Hub,
    members: [Member; 2],
    away: bool,
    now: u64,
    sent: u64,
    received: BTreeSet<(u32, Vec<u8>)>,
    acknowledged: BTreeSet<(u64, u32)>,
    over: BTreeMap<u64, Vec<u32>>,
}

impl Pair {
    /// Lets a millisecond pass.
    fn step(&mut self) {
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

    fn send(&mut self, to: u32) -> u64 {
        while self.hub.open_messages() > 100 {
            self.step();
        }
        let (now, lifetime) = (Instant::from_ns(self.now), Some(Span::from_s(600)));
        let bytes = self.sent.to_be_bytes();
        let number = self.hub.send_within(&bytes, &[to], lifetime, now).unwrap();
        assert_eq!(number, self.sent);
        self.sent += 1;
        number
    }
}

#[test]
fn what_very_many_have_overtaken_is_not_acknowledged_unless_it_was_received() {
    let rtt = Span::from_ms(2);
    let here = Conditions { rate_bit_s: 1e9, rtt, ..Conditions::default() };
    for model in [ModelId::UdpArq, ModelId::CoapConfirmable, ModelId::QuicStreams] {
        let config = config(Pattern::PublishSubscribe, here, &[model]);
        let mut pair = Pair {
            hub: hub(&config, 2, 1),
            members: [member(&config, 2), member(&config, 3)],
            away: false,
            now: 0,
            sent: 0,
            received: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            over: BTreeMap::new(),
        };
        (0..2_000).for_each(|_| pair.step());
        assert!(pair.hub.is_ready(), "{model}");
        pair.away = true;
        let early = pair.send(0);
        (0..17_000).for_each(|_| {
            pair.send(1);
        });
        // The newest message to the first member overtakes its oldest one.
        let late = pair.send(0);
        pair.away = false;
        let until = pair.now + 200 * SECOND;
        while pair.hub.open_messages() > 0 && pair.now < until {
            pair.step();
        }
        for number in [early, late] {
            let received = pair.received.contains(&(0, number.to_be_bytes().to_vec()));
            let acknowledged = pair.acknowledged.contains(&(number, 0));
            assert!(received || !acknowledged, "{model}: {number}");
            let lacking = if acknowledged { vec![] } else { vec![0] };
            assert_eq!(pair.over.get(&number), Some(&lacking), "{model}: {number}");
        }
        assert!(pair.acknowledged.contains(&(late, 0)), "{model}");
    }
}
