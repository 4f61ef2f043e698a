//! Topics: members that have subscribed get what others publish, once.

use crate::bed::*;
use director::carrier::To;
use director::session::{Config, Event, Hub, Member, MemberEvent, SessionError};
use director::topic::TopicError;
use director::{Conditions, Failure, Instant, MessageProperties, Outcome, Pattern, Span};
use std::collections::{BTreeMap, BTreeSet};

const MS: u64 = 1_000_000;

/// A hub and members on a path that loses datagrams.
struct World {
    config: Config,
    hub: Hub,
    members: Vec<Member>,
    now: u64,
    loss: f64,
    state: u64,
    /// Members whose datagrams are lost.
    away: BTreeSet<u32>,
    refuses: bool,
    hub_had: Vec<(u32, String, Vec<u8>)>,
    had: Vec<(u32, String, Vec<u8>)>,
    outcomes: BTreeMap<(u32, u32), Outcome>,
    over: BTreeMap<u64, Vec<u32>>,
}

fn world(pattern: Pattern, count: usize, loss: f64) -> World {
    let here = Conditions { rate_bit_s: 1e7, rtt: Span::from_ms(10), ..Conditions::default() };
    let config = config(pattern, here, &[]);
    let mut world = World {
        hub: hub(&config, count, 1),
        members: (0..count).map(|n| member(&config, 10 + n as u64)).collect(),
        config,
        now: 0,
        loss: 0.0,
        state: 7,
        away: BTreeSet::new(),
        refuses: false,
        hub_had: Vec::new(),
        had: Vec::new(),
        outcomes: BTreeMap::new(),
        over: BTreeMap::new(),
    };
    world.run(3_000);
    assert!(world.hub.is_ready());
    world.loss = loss;
    world
}

impl World {
    fn at(&self) -> Instant {
        Instant::from_ns(self.now)
    }

    fn arrives(&mut self, member: u32) -> bool {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let draw = (self.state >> 11) as f64 / (1_u64 << 53) as f64;
        draw >= self.loss && !self.away.contains(&member)
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += MS;
            let now = self.at();
            for number in 0..self.members.len() as u32 {
                while let (Some(datagram), _) = self.members[number as usize].poll(now) {
                    if self.arrives(number) {
                        self.hub.receive(&datagram, Some(number), now);
                    }
                }
            }
            while let (Some((to, datagram)), _) = self.hub.poll(now) {
                let all = 0..self.members.len() as u32;
                let to: Vec<u32> = match to {
                    To::Member(member) => vec![member],
                    _ => all.collect(),
                };
                for member in to {
                    if self.arrives(member) {
                        self.members[member as usize].receive(&datagram, now);
                    }
                }
            }
            self.events();
        }
    }

    fn events(&mut self) {
        for (number, member) in (0..).zip(&mut self.members) {
            for event in member.take_events() {
                match event {
                    MemberEvent::Published { topic, bytes } => {
                        self.had.push((number, topic, bytes));
                    }
                    MemberEvent::Outcome { number: message, outcome } => {
                        let before = self.outcomes.insert((number, message), outcome);
                        assert!(before.is_none(), "two outcomes");
                    }
                    MemberEvent::Message { .. } | MemberEvent::Stored { .. } => {
                        panic!("it has a topic")
                    }
                    MemberEvent::Joined { .. } => {}
                }
            }
        }
        for event in self.hub.take_events() {
            match event {
                Event::Published { from, topic, bytes } => {
                    self.hub_had.push((from.member, topic, bytes));
                    match self.refuses {
                        true => self.hub.refuse(from),
                        false => self.hub.accept(from),
                    }
                }
                Event::Over { message, lacking } => drop(self.over.insert(message, lacking)),
                _ => {}
            }
        }
    }

    fn subscribe(&mut self, member: u32, filter: &str) -> u32 {
        let now = self.at();
        self.members[member as usize].subscribe(filter, now).unwrap()
    }

    fn publish(&mut self, member: u32, topic: &str, bytes: &[u8]) -> u32 {
        let now = self.at();
        let properties = MessageProperties::default();
        self.members[member as usize].publish_to(topic, bytes, properties, now).unwrap()
    }

    fn outcome(&self, member: u32, number: u32) -> Option<&Outcome> {
        self.outcomes.get(&(member, number))
    }

    /// Who has had a message, in order.
    fn receivers(&self, bytes: &[u8]) -> Vec<u32> {
        let own = self.had.iter().filter(|(_, _, own)| own == bytes);
        let mut all: Vec<u32> = own.map(|(member, ..)| *member).collect();
        all.sort_unstable();
        all
    }
}

/// In patterns with and without answers, over a path that loses a fifth.
#[test]
fn who_has_subscribed_gets_what_others_publish_once() {
    for pattern in [Pattern::PublishSubscribe, Pattern::PublishCollect, Pattern::RequestResponse] {
        let mut world = world(pattern, 5, 0.2);
        let first = world.subscribe(0, "plant/+/temperature");
        for (member, filter) in [(1, "plant/#"), (2, "other"), (4, "plant/7/temperature")] {
            world.subscribe(member, filter);
        }
        world.run(3_000);
        assert_eq!(world.outcome(0, first), Some(&Outcome::Acknowledged(None)));
        let mut sent = Vec::new();
        for n in 0..40_u8 {
            sent.push((n, world.publish(4, "plant/7/temperature", &[n])));
            world.run(20);
        }
        world.run(20_000);
        for (n, number) in sent {
            let outcome = world.outcome(4, number);
            assert_eq!(outcome, Some(&Outcome::Acknowledged(None)), "{pattern:?} {n}");
            // Not its publisher, and no one twice.
            assert_eq!(world.receivers(&[n]), [0, 1], "{pattern:?} {n}");
        }
        assert_eq!(world.hub_had.len(), 40, "{pattern:?}");
        // The hub's application publishes, too.
        let now = world.at();
        let number = world.hub.publish("plant/7/temperature", b"from the hub", now).unwrap();
        assert_eq!(world.hub.publish("no/one", b"x", now).unwrap(), None);
        world.run(10_000);
        assert_eq!(world.receivers(b"from the hub"), [0, 1, 4], "{pattern:?}");
        assert_eq!(number.and_then(|number| world.over.get(&number)), Some(&Vec::new()));
    }
}

#[test]
fn what_the_application_refuses_reaches_no_one() {
    let mut world = world(Pattern::PublishCollect, 2, 0.0);
    world.subscribe(1, "#");
    world.run(500);
    world.refuses = true;
    let number = world.publish(0, "a", b"no");
    world.run(2_000);
    assert_eq!(world.outcome(0, number), Some(&Outcome::Failed(Failure::Refused)));
    assert_eq!((world.had.len(), world.hub_had.len()), (0, 1));
}

#[test]
fn subscriptions_end_and_are_there_again_after_a_restart_of_the_hub() {
    let mut world = world(Pattern::PublishCollect, 3, 0.1);
    world.subscribe(1, "a");
    world.subscribe(2, "#");
    world.subscribe(2, "b");
    world.run(2_000);
    let now = world.at();
    world.members[2].unsubscribe("#", now).unwrap();
    world.run(2_000);
    world.publish(0, "a", b"1");
    world.publish(0, "b", b"2");
    world.run(5_000);
    assert_eq!((world.receivers(b"1"), world.receivers(b"2")), (vec![1], vec![2]));
    world.hub = hub(&world.config, 3, 99);
    world.run(60_000);
    assert!(world.hub.is_ready());
    world.publish(0, "a", b"3");
    world.publish(0, "b", b"4");
    world.run(5_000);
    assert_eq!((world.receivers(b"3"), world.receivers(b"4")), (vec![1], vec![2]));
    // And after the member was away.
    let now = world.at();
    world.members[1].leave(now).unwrap();
    world.run(12_000);
    world.publish(0, "a", b"5");
    world.run(2_000);
    world.members[1].come_back();
    world.run(20_000);
    world.publish(0, "a", b"6");
    world.run(5_000);
    assert_eq!((world.receivers(b"5"), world.receivers(b"6")), (vec![], vec![1]));
}

/// A restarted member's program has not subscribed.
#[test]
fn a_new_start_of_a_member_has_no_subscriptions() {
    let mut world = world(Pattern::PublishCollect, 2, 0.0);
    world.subscribe(1, "#");
    world.run(500);
    world.members[1] = member(&world.config, 555);
    world.run(30_000);
    assert!(world.hub.is_ready());
    world.publish(0, "a", b"1");
    world.run(2_000);
    assert!(world.had.is_empty());
}

/// A member that is silent neither holds up the others nor fills the hub.
#[test]
fn a_silent_member_does_not_hold_up_the_others() {
    let mut world = world(Pattern::PublishCollect, 3, 0.0);
    world.subscribe(1, "#");
    world.subscribe(2, "#");
    world.run(500);
    world.away.insert(2);
    for n in 0..400_u16 {
        world.publish(0, "a", &n.to_be_bytes());
        world.run(10);
    }
    world.run(5_000);
    let all: BTreeSet<Vec<u8>> = (0..400_u16).map(|n| n.to_be_bytes().to_vec()).collect();
    let had = world.had.iter().filter(|(member, ..)| *member == 1);
    assert_eq!(had.map(|(.., bytes)| bytes.clone()).collect::<BTreeSet<_>>(), all);
    assert!(world.hub.open_messages() <= 130, "{}", world.hub.open_messages());
}

#[test]
fn what_is_no_topic_or_filter_or_one_too_many_is_an_error() {
    let mut world = world(Pattern::PublishCollect, 1, 0.0);
    let now = world.at();
    let own = &mut world.members[0];
    let topic = |error| SessionError::Topic(error);
    let same = |found: SessionError, expected: SessionError| {
        assert_eq!(found.to_string(), expected.to_string());
    };
    let wrong = TopicError::Filter("a/#/b".to_owned());
    same(own.subscribe("a/#/b", now).unwrap_err(), topic(wrong));
    let properties = MessageProperties::default();
    let published = own.publish_to("a/+", b"", properties, now).unwrap_err();
    same(published, topic(TopicError::Topic("a/+".to_owned())));
    for n in 0..64 {
        own.subscribe(&format!("a/{n}"), now).unwrap();
    }
    same(own.subscribe("b", now).unwrap_err(), topic(TopicError::TooMany));
    own.subscribe("a/7", now).unwrap();
    assert!(world.hub.publish("a/#", b"", now).is_err());
    assert!(own.subscribe(&"x".repeat(10_000), now).unwrap_err().to_string().len() < 300);
}
