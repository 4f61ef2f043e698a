//! Messages that members send at any time: each ends as exactly one outcome, and a true one.

use crate::bed::*;
use director::carrier::To;
use director::session::{Event, Hub, Member, MemberEvent, MessageFrom, SessionError};
use director::{
    Conditions, Failure, Instant, MessageProperties, ModelId, Outcome, Pattern, Span, StoredState,
    UplinkError,
};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const MS: u64 = 1_000_000;

/// What the hub's application does with messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Application {
    Takes,
    /// It takes every second message and refuses the others.
    Picks,
    /// It looks at nothing.
    Sleeps,
}

/// A datagram on the path: when it arrives.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    at: u64,
    count: u64,
    up: bool,
    datagram: Vec<u8>,
}

/// One hub and one member over a path with loss, delay and duplicates; the bytes of each message
/// are its index.
struct World {
    hub: Hub,
    member: Member,
    application: Application,
    loss: f64,
    /// Longest datagram that the path carries, in bytes.
    longest: usize,
    state: u64,
    now: u64,
    way: BinaryHeap<Reverse<InFlight>>,
    carried: u64,
    /// Messages that the application has taken, with the number of times.
    taken: BTreeMap<Vec<u8>, usize>,
    order: Vec<Vec<u8>>,
    waiting: Vec<(MessageFrom, Vec<u8>, bool)>,
    outcomes: BTreeMap<u32, Outcome>,
    left: usize,
    answers: usize,
    messages: Vec<Vec<u8>>,
}

fn world(loss: f64, application: Application, seed: u64) -> World {
    let here = Conditions { rate_bit_s: 1e6, rtt: Span::from_ms(40), ..Conditions::default() };
    let config = config(Pattern::RequestResponse, here, &[ModelId::UdpArq]);
    World {
        hub: hub(&config, 1, seed),
        member: member(&config, seed + 1),
        application,
        loss,
        longest: usize::MAX,
        state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        now: 0,
        way: BinaryHeap::new(),
        carried: 0,
        taken: BTreeMap::new(),
        order: Vec::new(),
        waiting: Vec::new(),
        outcomes: BTreeMap::new(),
        left: 0,
        answers: 0,
        messages: Vec::new(),
    }
}

impl World {
    fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn carry(&mut self, up: bool, datagram: Vec<u8>) {
        let copies = if self.draw() < 0.05 { 2 } else { 1 };
        for _ in 0..copies {
            if self.draw() >= self.loss && datagram.len() <= self.longest {
                let delay = 15 * MS + (self.draw() * 10e6) as u64;
                self.carried += 1;
                let (at, count) = (self.now + delay, self.carried);
                let datagram = datagram.clone();
                self.way.push(Reverse(InFlight { at, count, up, datagram }));
            }
        }
    }

    /// Runs until a time, in steps of 1 ms.
    fn run(&mut self, until: u64) {
        while self.now < until {
            self.now += MS;
            let now = self.now;
            while self.way.peek().is_some_and(|next| next.0.at <= now) {
                let Some(Reverse(InFlight { up, datagram, .. })) = self.way.pop() else { break };
                match up {
                    // The hub knows the member by its keys: in this world only hellos need the
                    // address.
                    true => self.hub.receive(&datagram, Some(0), Instant::from_ns(now)),
                    false => self.member.receive(&datagram, Instant::from_ns(now)),
                }
            }
            for _ in 0..64 {
                let (datagram, _) = self.member.poll(Instant::from_ns(now));
                let Some(datagram) = datagram else { break };
                self.carry(true, datagram);
            }
            for _ in 0..64 {
                let (datagram, _) = self.hub.poll(Instant::from_ns(now));
                let Some((to, datagram)) = datagram else { break };
                assert_ne!(to, To::Hub);
                self.carry(false, datagram);
            }
            self.events();
        }
    }

    fn events(&mut self) {
        for event in self.member.take_events() {
            match event {
                MemberEvent::Outcome { number, outcome } => {
                    assert!(self.outcomes.insert(number, outcome).is_none(), "one outcome");
                }
                MemberEvent::Message { number, bytes } => {
                    self.messages.push(bytes);
                    self.member
                        .answer(number, b"here".to_vec(), Instant::from_ns(self.now))
                        .unwrap();
                }
                MemberEvent::Joined { .. }
                | MemberEvent::Published { .. }
                | MemberEvent::Stored { .. } => {}
            }
        }
        for event in self.hub.take_events() {
            match event {
                Event::Message { from, bytes, answered } => {
                    self.waiting.push((from, bytes, answered));
                }
                Event::Left(0) => self.left += 1,
                Event::Answer { .. } => self.answers += 1,
                _ => {}
            }
        }
        if self.application == Application::Sleeps {
            return;
        }
        for (from, bytes, answered) in std::mem::take(&mut self.waiting) {
            if self.application == Application::Picks && bytes[1] % 2 == 1 {
                self.hub.refuse(from);
                continue;
            }
            *self.taken.entry(bytes.clone()).or_default() += 1;
            self.order.push(bytes.clone());
            match answered {
                true => self.hub.answer(from, &[b"to ", &bytes[..]].concat()),
                false => self.hub.accept(from),
            }
        }
    }

    fn publish(&mut self, index: u16, answered: bool, properties: MessageProperties) -> u32 {
        let bytes = index.to_be_bytes();
        match answered {
            true => self.member.request(&bytes, properties, Instant::from_ns(self.now)).unwrap(),
            false => self.member.publish(&bytes, properties, Instant::from_ns(self.now)).unwrap(),
        }
    }
}

fn within(lifetime: u64) -> MessageProperties {
    MessageProperties { lifetime: Span::from_ns(lifetime), ..MessageProperties::default() }
}

/// Before the member has joined too; 200 messages at a time.
#[test]
fn telemetry_and_requests_reach_the_application_once_over_a_bad_path() {
    let mut world = world(0.3, Application::Takes, 7);
    let numbers: Vec<u32> =
        (0..200).map(|n| world.publish(n, n % 3 == 0, MessageProperties::default())).collect();
    assert_eq!(world.member.open_messages(), 200);
    world.run(50 * SECOND);
    assert_eq!((world.taken.len(), world.member.open_messages()), (200, 0));
    assert!(world.taken.values().all(|times| *times == 1));
    for (index, number) in (0_u16..).zip(numbers) {
        let answer = (index % 3 == 0).then(|| [b"to ", &index.to_be_bytes()[..]].concat());
        assert_eq!(world.outcomes[&number], Outcome::Acknowledged(answer), "{index}");
    }
}

#[test]
fn a_message_that_the_application_has_not_taken_is_not_acknowledged() {
    let mut world = world(0.0, Application::Sleeps, 3);
    world.run(5 * SECOND);
    let number = world.publish(1, false, within(2 * SECOND));
    world.run(6 * SECOND);
    assert_eq!(world.waiting.len(), 1, "the hub has it");
    assert!(world.outcomes.is_empty(), "but not the application");
    world.run(8 * SECOND);
    assert_eq!(world.outcomes[&number], Outcome::Unknown);
}

#[test]
fn an_alarm_goes_before_telemetry_and_what_was_never_sent_has_failed() {
    let mut world = world(0.0, Application::Takes, 5);
    let late = world.publish(500, false, within(MS));
    for n in 0..300 {
        world.publish(n, false, MessageProperties::default());
    }
    let alarm = MessageProperties { priority: 1, ..MessageProperties::default() };
    world.publish(999, false, alarm);
    world.run(30 * SECOND);
    assert_eq!(world.outcomes[&late], Outcome::Failed(Failure::Unsent));
    // The path can reorder those that follow closely.
    let alarm = world.order.iter().position(|bytes| **bytes == 999_u16.to_be_bytes());
    assert!(alarm.is_some_and(|at| at < 30), "{alarm:?}");
    assert_eq!(world.order.len(), 301);
}

#[test]
fn too_many_open_messages_are_an_error_and_their_ends_make_room() {
    let mut world = world(1.0, Application::Takes, 5);
    let now = world.now;
    let send =
        |member: &mut Member| member.publish(b"reading", within(SECOND), Instant::from_ns(now));
    let accepted = std::iter::from_fn(|| send(&mut world.member).ok()).count();
    assert_eq!(accepted, 1_024);
    world.run(2 * SECOND);
    assert_eq!(world.outcomes.len(), 1_024);
    world.publish(1, false, within(SECOND));
    // Of the hub as well.
    world.hub.take_events();
    let lifetime = Some(Span::from_s(10));
    let refused = (0..2_000)
        .find_map(|_| world.hub.send_within(b"x", &[0], lifetime, Instant::from_ns(now)).err());
    assert!(matches!(refused, Some(SessionError::Full(1_024))), "{refused:?}");
}

/// What failed before: it was reported as too many open messages, and its sender waited for their end.
#[test]
fn a_message_that_never_fits_is_an_error_with_sizes() {
    let mut world = world(0.0, Application::Takes, 5);
    let (now, length) = (Instant::from_ns(world.now), (4 << 20) + 1);
    for stored in [false, true] {
        let properties = MessageProperties { stored, ..MessageProperties::default() };
        let long = world.member.publish(&vec![0; length], properties, now);
        assert_eq!(long, Err(UplinkError::TooLong(length)));
        let text = long.unwrap_err().to_string();
        assert!(text.contains("4194305 bytes, and 4194304 are the maximum"), "{text}");
        world.member.store(StoredState::default());
    }
}

/// What failed before: the reason had no size, so that its sender could not know what fits.
#[test]
fn a_message_with_too_many_chunks_fails_with_sizes_and_the_maximum_fits() {
    let mut world = world(0.0, Application::Takes, 5);
    world.run(2 * SECOND);
    let mut outcome = |length: usize| {
        let now = Instant::from_ns(world.now);
        let minutes = within(60 * SECOND);
        let number = world.member.publish(&vec![7; length], minutes, now).unwrap();
        world.run(world.now + 60 * SECOND);
        world.outcomes[&number].clone()
    };
    let Outcome::Failed(why) = outcome(4 << 20) else { panic!() };
    let Failure::TooLong { bytes, most } = why else { panic!("{why}") };
    assert!(bytes == 4 << 20 && most > 10_000, "{why}");
    assert!(why.to_string().contains(&format!("{most} are the maximum")), "{why}");
    assert_eq!(outcome(most), Outcome::Acknowledged(None));
    assert_eq!(outcome(most + 1), Outcome::Failed(Failure::TooLong { bytes: most + 1, most }));
}

/// What failed before: it succeeded, without a receiver.
#[test]
fn a_member_that_does_not_exist_is_an_error() {
    let mut world = world(0.0, Application::Takes, 5);
    let now = Instant::from_ns(world.now);
    let none = |result: Result<(), SessionError>| {
        let error = result.unwrap_err();
        assert!(matches!(error, SessionError::NoMember(9, 1)), "{error}");
        assert!(error.to_string().contains("no member 9: the session has 1 members"), "{error}");
    };
    none(world.hub.send_to(b"x", &[0, 9], now).map(drop));
    none(world.hub.send_within(b"x", &[9], None, now).map(drop));
    none(world.hub.admit(9, b"a key of sixteen bytes", now));
    none(world.hub.revoke(9, now));
    assert_eq!((world.hub.open_messages(), world.hub.take_events().len()), (0, 0));
}

/// A member leaves, so that the hub does not wait for it, and comes back.
#[test]
fn members_leave_and_come_back() {
    let mut world = world(0.1, Application::Takes, 11);
    world.run(5 * SECOND);
    let last = world.publish(1, false, MessageProperties::default());
    world.member.leave(Instant::from_ns(world.now)).unwrap();
    world.run(17 * SECOND);
    assert!(world.member.has_left() && world.left == 1);
    assert_eq!(world.outcomes[&last], Outcome::Acknowledged(None), "it went first");
    let lifetime = Some(Span::from_s(600));
    let number =
        world.hub.send_within(b"anyone?", &[0], lifetime, Instant::from_ns(world.now)).unwrap();
    let over = world.hub.take_events();
    assert!(over.contains(&Event::Over { message: number, lacking: vec![0] }), "{over:?}");
    world.member.come_back();
    let back = world.publish(2, true, MessageProperties::default());
    world.run(30 * SECOND);
    assert!(world.hub.is_ready() && !world.member.has_left());
    assert!(matches!(world.outcomes[&back], Outcome::Acknowledged(Some(_))));
    world.hub.send_within(b"hello", &[0], lifetime, Instant::from_ns(world.now)).unwrap();
    world.run(40 * SECOND);
    assert_eq!((world.messages.len(), world.answers), (1, 1));
}

/// What failed before: long messages of members, and long answers to them, were lost for ever after the path
/// had begun to carry shorter packets.
#[test]
fn messages_of_members_follow_the_size_of_packets() {
    let mut world = world(0.0, Application::Takes, 11);
    world.run(5 * SECOND);
    world.hub.packets(Some(600), Instant::from_ns(world.now));
    world.run(8 * SECOND);
    world.longest = 572;
    let now = Instant::from_ns(world.now);
    let number = world.member.request(&[7; 3_000], MessageProperties::default(), now).unwrap();
    world.run(20 * SECOND);
    let answer = [&b"to "[..], &[7; 3_000]].concat();
    assert_eq!(world.outcomes.get(&number), Some(&Outcome::Acknowledged(Some(answer))));
}

/// What failed before: an answer to a revoked member went to the next one with its number, as the
/// answer to another request.
#[test]
fn an_answer_to_a_revoked_member_is_not_one_to_its_successor() {
    let mut world = world(0.0, Application::Sleeps, 11);
    world.run(5 * SECOND);
    world.publish(1, true, MessageProperties::default());
    world.run(6 * SECOND);
    let (former, ..) = world.waiting.pop().unwrap();
    let now = Instant::from_ns(world.now);
    world.hub.revoke(0, now).unwrap();
    world.hub.admit(0, b"a key that both ends have", now).unwrap();
    let here = Conditions { rate_bit_s: 1e6, rtt: Span::from_ms(40), ..Conditions::default() };
    world.member = member(&config(Pattern::RequestResponse, here, &[ModelId::UdpArq]), 77);
    let number = world.publish(2, true, MessageProperties::default());
    world.run(12 * SECOND);
    let (successor, ..) = world.waiting.pop().unwrap();
    world.hub.answer(former, b"to the former one");
    world.run(13 * SECOND);
    assert_eq!(world.outcomes.get(&number), None);
    world.hub.answer(successor, b"to this one");
    world.run(14 * SECOND);
    let answer = Outcome::Acknowledged(Some(b"to this one".to_vec()));
    assert_eq!(world.outcomes.get(&number), Some(&answer));
}

/// What failed before: the hub had removed a member that came back too early, and the member did not
/// notice that.
#[test]
fn a_member_that_comes_back_while_it_leaves_is_in_the_session() {
    for wait in [0, 5 * MS, 25 * MS, 50 * MS] {
        let mut world = world(0.0, Application::Takes, 11);
        world.run(5 * SECOND);
        world.member.leave(Instant::from_ns(world.now)).unwrap();
        world.run(5 * SECOND + wait);
        world.member.come_back();
        world.run(20 * SECOND);
        let lifetime = Some(Span::from_s(600));
        world.hub.send_within(b"hello", &[0], lifetime, Instant::from_ns(world.now)).unwrap();
        world.run(30 * SECOND);
        assert_eq!((world.messages.len(), world.answers), (1, 1), "{wait}");
        assert!(world.outcomes.is_empty(), "{wait}: {:?}", world.outcomes);
    }
}

/// What failed before: messages of a member that had left had no outcome until it came back.
#[test]
fn messages_of_a_member_that_has_left_end_in_time() {
    let mut world = world(0.0, Application::Takes, 11);
    world.run(5 * SECOND);
    world.member.leave(Instant::from_ns(world.now)).unwrap();
    world.run(17 * SECOND);
    assert!(world.member.has_left());
    let late = world.publish(1, false, within(3 * SECOND));
    world.run(21 * SECOND);
    assert_eq!(world.outcomes.get(&late), Some(&Outcome::Failed(Failure::Unsent)));
}

/// What failed before: an answer to an invitation that was on its way put a member that had left back, and the
/// session waited for it for ever.
#[test]
fn a_member_that_has_left_stays_away() {
    let mut late = Vec::new();
    for wait in [0, 2, 5, 10, 15, 20, 30] {
        let mut world = world(0.0, Application::Takes, 11);
        world.run(5 * SECOND);
        // A new epoch.
        world.hub.packets(Some(600), Instant::from_ns(world.now));
        world.run(5 * SECOND + wait * MS);
        world.member.leave(Instant::from_ns(world.now)).unwrap();
        world.run(20 * SECOND);
        assert!(world.member.has_left());
        late.extend((!world.hub.present().is_empty()).then_some(wait));
        world.member.come_back();
        world.run(30 * SECOND);
        assert_eq!(world.hub.present(), [0]);
    }
    assert!(late.is_empty(), "{late:?} ms");
    for seed in 1..100 {
        let mut world = world(0.3, Application::Takes, seed);
        world.run(10 * SECOND);
        world.member.leave(Instant::from_ns(world.now)).unwrap();
        world.run(40 * SECOND);
        assert!(world.left == 0 || world.hub.present().is_empty(), "seed {seed}");
    }
}

/// What failed before: with as many open messages as there may be, the member did not leave.
#[test]
fn a_member_leaves_whatever_is_open() {
    let mut world = world(0.0, Application::Sleeps, 11);
    world.run(5 * SECOND);
    let now = Instant::from_ns(world.now);
    for _ in 0..1_024 {
        world.member.publish(b"x", within(600 * SECOND), now).unwrap();
    }
    assert!(world.member.publish(b"x", within(SECOND), now).is_err());
    world.member.leave(now).unwrap();
    world.run(30 * SECOND);
    assert!(world.member.has_left());
}

/// A message to a member that is gone ends, without a deadline of the application.
#[test]
fn no_message_of_the_hub_stays_open_for_ever() {
    let mut config = config(Pattern::RequestResponse, Conditions::default(), &[]);
    config.lifetime =
        director::session::Config::new(config.pattern, config.security.clone()).lifetime;
    let mut hub = hub(&config, 1, 1);
    let number = hub.send(b"anyone?", Instant::from_ns(0)).unwrap();
    while hub.poll(Instant::from_ns(59 * SECOND)).0.is_some() {}
    assert_eq!(hub.open_messages(), 1);
    hub.poll(Instant::from_ns(61 * SECOND));
    assert!(hub.take_events().contains(&Event::Over { message: number, lacking: vec![0] }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The member and the hub may restart at any time.
    #[test]
    fn each_message_has_one_true_outcome_by_its_deadline(
        seed in 1_u64..1_000_000,
        loss in 0.0..0.7_f64,
        picks: bool,
        lifetimes in prop::collection::vec((0_u64..6_000, any::<bool>(), 0_u32..3), 1..80),
        restart in prop::option::of(1_u64..8_000),
    ) {
        let application = if picks { Application::Picks } else { Application::Takes };
        let mut world = world(loss, application, seed);
        let mut sent = BTreeMap::new();
        let mut last = 0;
        for (index, (ms, answered, priority)) in (0_u16..).zip(lifetimes) {
            let properties = MessageProperties {
                lifetime: Span::from_ms(ms),
                priority,
                ..MessageProperties::default()
            };
            let number = world.publish(index, answered, properties);
            let until = world.now + ms * MS;
            last = last.max(until);
            sent.insert(number, (index, until));
            world.run(world.now + 40 * MS);
            // By the deadline, not later.
            for (number, (index, until)) in &sent {
                let ended = world.outcomes.contains_key(number);
                prop_assert!(ended || *until + MS >= world.now, "{index} is open");
            }
            if restart.is_some_and(|at| at / 40 == u64::from(index)) {
                let here = Conditions { rate_bit_s: 1e6, rtt: Span::from_ms(40), ..Conditions::default() };
                let config = config(Pattern::RequestResponse, here, &[ModelId::UdpArq]);
                world.hub = hub(&config, 1, seed + 17);
                world.waiting.clear();
            }
        }
        world.run(last + 2 * SECOND);
        prop_assert_eq!(world.outcomes.len(), sent.len());
        prop_assert_eq!(world.member.open_messages(), 0);
        for (number, (index, _)) in sent {
            let times = world.taken.get(&index.to_be_bytes()[..]).copied().unwrap_or(0);
            prop_assert!(times <= 1, "{} was taken {} times", index, times);
            match &world.outcomes[&number] {
                Outcome::Acknowledged(_) => prop_assert_eq!(times, 1),
                Outcome::Failed(why) => prop_assert_eq!(times, 0, "{} {:?}", index, why),
                Outcome::Unknown => {}
            }
        }
    }
}
