//! Handshakes on whole sessions: lost, repeated, reordered, recorded and forged ones; members that
//! start again; members that leave.

use crate::bed::*;
use director::carrier::To;
use director::session::{Config, Event, Hub, Member, MemberEvent, Security};
use director::{Conditions, Instant, ModelId, Pattern};
use proptest::prelude::*;

const STEP: u64 = 10_000_000;

fn plain_config() -> Config {
    config(Pattern::RequestResponse, Conditions::default(), &[ModelId::UdpRequestResponse])
}

/// A hub and members that talk over a path in a test's hands.
pub struct Pair {
    pub hub: Hub,
    pub members: Vec<Member>,
    pub now: u64,
    /// All datagrams so far: the receiving member, or `None` for the hub, with the sending one.
    sent: Vec<(Option<u32>, u32, Vec<u8>)>,
    delivered: Vec<(u32, Vec<u8>)>,
    answers: Vec<(u32, Vec<u8>)>,
    over: Vec<Vec<u32>>,
    /// Number of messages of members.
    pub accepted: u32,
}

impl Pair {
    pub fn new(config: &Config, members: &[Config]) -> Self {
        let count = members.len();
        let members = members.iter().zip(50..).map(|(config, seed)| member(config, seed));
        let (sent, delivered, answers) = (Vec::new(), Vec::new(), Vec::new());
        let hub = hub(config, count, 5);
        let members = members.collect();
        Self { hub, members, now: 0, sent, delivered, answers, over: Vec::new(), accepted: 0 }
    }

    /// A step of time, over a path that carries a datagram if `carries` says so.
    pub fn step(&mut self, mut carries: impl FnMut(&[u8]) -> bool) {
        self.now += STEP;
        let now = self.now;
        while let (Some((to, datagram)), _) = self.hub.poll(Instant::from_ns(now)) {
            let To::Member(member) = to else { continue };
            self.sent.push((Some(member), member, datagram.clone()));
            if carries(&datagram) {
                self.members[member as usize].receive(&datagram, Instant::from_ns(now));
            }
        }
        for (member, number) in self.members.iter_mut().zip(0..) {
            for event in member.take_events() {
                if let MemberEvent::Message { number: message, bytes } = event {
                    let _ = member.answer(message, bytes.clone(), Instant::from_ns(now));
                    self.delivered.push((number, bytes));
                }
            }
            while let (Some(datagram), _) = member.poll(Instant::from_ns(now)) {
                self.sent.push((None, number, datagram.clone()));
                if carries(&datagram) {
                    self.hub.receive(&datagram, Some(number), Instant::from_ns(now));
                }
            }
        }
        for event in self.hub.take_events() {
            match event {
                Event::Answer { member, bytes, .. } => self.answers.push((member, bytes)),
                Event::Over { lacking, .. } => self.over.push(lacking),
                Event::Message { from, .. } => {
                    self.hub.accept(from);
                    self.accepted += 1;
                }
                _ => {}
            }
        }
    }

    pub fn run(&mut self, seconds: u64) {
        (0..seconds * 100).for_each(|_| self.step(|_| true));
    }

    /// Sends a message to all; returns who has answered after two seconds.
    pub fn ask(&mut self, message: &[u8]) -> Vec<u32> {
        self.answers.clear();
        self.hub.send(message, Instant::from_ns(self.now)).unwrap();
        self.run(2);
        let mut who: Vec<u32> = self.answers.iter().map(|(member, _)| *member).collect();
        who.sort_unstable();
        who
    }
}

fn kind(datagram: &[u8]) -> u8 {
    datagram[0]
}

/// Each datagram of the handshake is lost five times before it arrives.
#[test]
fn each_lost_datagram_is_sent_again() {
    for lost in [0x24, 0x25, 0x26, 0x29] {
        let mut pair = Pair::new(&plain_config(), &[plain_config()]);
        let mut left = 5;
        for _ in 0..60 * 100 {
            pair.step(|datagram| {
                let lose = kind(datagram) == lost && left > 0;
                left -= i32::from(lose);
                !lose
            });
        }
        assert_eq!(left, 0, "{lost:#x}");
        assert!(pair.hub.is_ready(), "{lost:#x}");
        assert_eq!(pair.ask(b"a message"), [0], "{lost:#x}");
    }
}

/// All that was ever sent is sent again, in any order, to both ends: nothing is delivered twice,
/// nothing changes, and the session goes on.
#[test]
fn recorded_datagrams_change_nothing() {
    let mut before = Pair::new(&plain_config(), &[plain_config()]);
    before.run(2);
    before.ask(b"of another session");
    let mut pair = Pair::new(&plain_config(), &[plain_config()]);
    // Another session of the same ends: other draws.
    pair.hub = hub(&plain_config(), 1, 6);
    pair.members[0] = member(&plain_config(), 60);
    pair.run(2);
    assert_eq!(pair.ask(b"first"), [0]);
    let recorded: Vec<_> = before.sent.iter().chain(&pair.sent).cloned().collect();
    let explained = pair.hub.explain();
    for (to, from, datagram) in recorded.iter().rev().chain(&recorded) {
        match to {
            Some(member) => {
                pair.members[*member as usize].receive(datagram, Instant::from_ns(pair.now))
            }
            None => pair.hub.receive(datagram, Some(*from), Instant::from_ns(pair.now)),
        }
    }
    assert_eq!(pair.hub.explain(), explained);
    pair.run(5);
    assert_eq!(pair.delivered, [(0, b"first".to_vec())]);
    assert_eq!(pair.ask(b"second"), [0]);
    assert_eq!(pair.delivered.len(), 2);
}

/// A recorded hello makes the hub answer, but keys change only when the member proves them.
#[test]
fn recorded_hellos_do_not_stop_a_change_of_the_model() {
    let config = config(
        Pattern::PublishCollect,
        Conditions::default(),
        &[ModelId::UdpRequestResponse, ModelId::UdpArq],
    );
    let mut earlier = Pair::new(&config, std::slice::from_ref(&config));
    earlier.hub = hub(&config, 1, 77);
    earlier.members[0] = member(&config, 78);
    earlier.run(1);
    let hello = earlier.sent.iter().find(|(to, _, bytes)| to.is_none() && kind(bytes) == 0x26);
    let hello = hello.unwrap().2.clone();
    let mut pair = Pair::new(&config, std::slice::from_ref(&config));
    pair.run(2);
    let from = pair.hub.explain().model;
    let to = match from {
        ModelId::UdpArq => ModelId::UdpRequestResponse,
        _ => ModelId::UdpArq,
    };
    assert!(pair.hub.force(to, Instant::from_ns(pair.now)));
    for _ in 0..500 {
        pair.hub.receive(&hello, Some(0), Instant::from_ns(pair.now));
        pair.step(|_| true);
    }
    assert!(!pair.hub.explain().changing && pair.hub.explain().model == to);
    assert_eq!(pair.ask(b"a message"), [0]);
}

/// Announcements are in clear text, so anyone can send them.
#[test]
fn forged_announcements_end_no_session_and_cause_few_hellos() {
    let mut pair = Pair::new(&plain_config(), &[plain_config()]);
    pair.run(2);
    let before = pair.sent.len();
    for n in 0..6_000_u32 {
        let session: Vec<u8> = n.to_be_bytes().repeat(4);
        pair.members[0].receive(&[&[0x2a], &session[..]].concat(), Instant::from_ns(pair.now));
        pair.step(|_| true);
        if n % 1_000 == 0 {
            assert_eq!(pair.ask(&n.to_be_bytes()), [0]);
        }
    }
    assert_eq!(pair.delivered.len(), 6);
    let hellos = pair.sent[before..].iter().filter(|(.., bytes)| kind(bytes) == 0x26).count();
    // A minute, and two seconds for each of the six messages.
    assert!((1..150).contains(&hellos), "{hellos}");
}

/// A member restarts: what its former start had sealed is refused, except for answers.
#[test]
fn a_former_start_of_a_member_has_no_say() {
    let mut pair = Pair::new(&plain_config(), &[plain_config()]);
    pair.run(2);
    let old = std::mem::replace(&mut pair.members[0], member(&plain_config(), 99));
    pair.run(2);
    assert_eq!(pair.ask(b"to the new one"), [0]);
    let new = std::mem::replace(&mut pair.members[0], old);
    assert_eq!(pair.ask(b"to the old one"), [0], "the group's keys are the same");
    pair.members[0] = new;
    let readies = pair.sent.iter().filter(|(.., bytes)| kind(bytes) == 0x25);
    let readies: Vec<Vec<u8>> = readies.map(|(.., bytes)| bytes.clone()).collect();
    assert!(readies.len() >= 2);
    let explained = pair.hub.explain();
    for ready in &readies {
        pair.hub.receive(ready, Some(0), Instant::from_ns(pair.now));
    }
    assert!(pair.hub.take_events().is_empty() && pair.hub.explain() == explained);
}

/// With a key for each member, a member that is revoked gets no more messages; the others do.
#[test]
fn a_revoked_member_is_out_and_can_be_admitted_with_another_key() {
    let key = |n: u8| vec![n; 16];
    let of = |n: u8| Config { security: Security::Key(key(n)), ..plain_config() };
    let all = Config { security: Security::Keys((0..3).map(key).collect()), ..plain_config() };
    let mut pair = Pair::new(&all, &[of(0), of(1), of(2)]);
    pair.run(2);
    assert_eq!(pair.ask(b"to all"), [0, 1, 2]);
    pair.hub.send(b"under way", Instant::from_ns(pair.now)).unwrap();
    pair.hub.revoke(1, Instant::from_ns(pair.now)).unwrap();
    let sealed = |pair: &mut Pair| {
        let before = pair.sent.len();
        assert_eq!(pair.ask(b"to the others"), [0, 2]);
        let to_one = |(to, ..): &&(Option<u32>, u32, Vec<u8>)| *to == Some(0);
        let data = |bytes: &[u8]| kind(bytes) == 0x21;
        let sent = pair.sent[before..].iter().filter(to_one);
        sent.map(|(.., bytes)| bytes.clone()).find(|bytes| data(bytes)).unwrap()
    };
    pair.run(2);
    let overheard = sealed(&mut pair);
    let had = pair.delivered.len();
    // It hears what the others hear, and begins handshakes.
    pair.members[1].receive(&overheard, Instant::from_ns(pair.now));
    pair.run(2);
    assert_eq!(pair.delivered.len(), had, "it lacks the keys");
    pair.members[1] = member(&of(1), 123);
    pair.run(20);
    pair.members[1].receive(&overheard, Instant::from_ns(pair.now));
    pair.run(1);
    assert_eq!(pair.delivered.len(), had);
    // It is admitted with another key; the old one is of no use.
    pair.hub.admit(1, &key(9), Instant::from_ns(pair.now)).unwrap();
    pair.run(20);
    assert_eq!(pair.ask(b"to the others"), [0, 2]);
    pair.members[1] = member(&of(9), 124);
    pair.run(20);
    assert_eq!(pair.ask(b"to all again"), [0, 1, 2]);
    assert!(!pair.over.iter().any(|lacking| lacking.contains(&0) || lacking.contains(&2)));
}

/// What failed before: a member that was admitted again while it ran took itself for joined, and never came
/// back.
#[test]
fn an_admitted_member_that_runs_comes_back_by_itself() {
    let key = |n: u8| vec![n; 16];
    let of = |n: u8| Config { security: Security::Key(key(n)), ..plain_config() };
    let all = Config { security: Security::Keys((0..2).map(key).collect()), ..plain_config() };
    for pause in [0, 1, 20, 300] {
        let mut pair = Pair::new(&all, &[of(0), of(1)]);
        pair.run(2);
        pair.hub.revoke(1, Instant::from_ns(pair.now)).unwrap();
        pair.run(pause);
        pair.hub.admit(1, &key(1), Instant::from_ns(pair.now)).unwrap();
        pair.run(20);
        assert_eq!(pair.ask(b"to both"), [0, 1], "after {pause} s");
    }
}

/// A member's key is not that of another one.
#[test]
fn a_member_cannot_pose_as_another_one() {
    let key = |n: u8| vec![n; 16];
    let of = |n: u8| Config { security: Security::Key(key(n)), ..plain_config() };
    let all = Config { security: Security::Keys((0..2).map(key).collect()), ..plain_config() };
    // The second one has the first one's key.
    let mut pair = Pair::new(&all, &[of(0), of(0)]);
    pair.run(20);
    assert_eq!(pair.hub.absent().collect::<Vec<_>>(), [1]);
    // The first one seals an answer with its own keys, in the second one's name.
    pair.hub.send(b"who is there?", Instant::from_ns(pair.now)).unwrap();
    let mut forged = Vec::new();
    for _ in 0..100 {
        pair.step(|datagram| {
            if kind(datagram) == 0x22 {
                let mut answer = datagram.to_vec();
                answer[1..3].copy_from_slice(&1_u16.to_be_bytes());
                forged.push(answer);
            }
            true
        });
    }
    assert!(!forged.is_empty());
    forged.iter().for_each(|answer| pair.hub.receive(answer, Some(1), Instant::from_ns(pair.now)));
    pair.run(1);
    assert_eq!(pair.answers.iter().map(|(member, _)| *member).collect::<Vec<_>>(), [0]);
    let error = Hub::new(
        Config { security: Security::Keys(vec![key(1)]), ..plain_config() },
        std::sync::Arc::new(director::PerformanceMap::new()),
        2,
        &director::Seed::reproducible(1),
    );
    let error = error.err().unwrap().to_string();
    assert!(error.contains("1 keys for 2 members"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Datagrams are lost, repeated and delayed at random, and forged ones come in between. The
    /// member joins, and each message is delivered once.
    #[test]
    fn a_bad_path_delays_a_handshake_and_no_more(
        fates in prop::collection::vec((0_u8..10, 0_usize..40, any::<u8>()), 100..300)
    ) {
        let mut pair = Pair::new(&plain_config(), &[plain_config()]);
        let mut fates = fates.into_iter();
        let mut delayed: Vec<(bool, Vec<u8>)> = Vec::new();
        while fates.len() > 0 {
            let now = pair.now + STEP;
            pair.now = now;
            let to_member = pair.hub.poll(Instant::from_ns(now)).0.map(|(_, datagram)| (true, datagram));
            let to_hub = pair.members[0].poll(Instant::from_ns(now)).0.map(|datagram| (false, datagram));
            for (to, datagram) in [to_member, to_hub].into_iter().flatten() {
                let Some((fate, place, byte)) = fates.next() else { break };
                let mut forged = datagram.clone();
                let length = forged.len();
                forged[place % length] ^= byte | 1;
                match fate {
                    0..3 => {}
                    3 => delayed.push((to, datagram)),
                    4 => delayed.extend([(to, datagram.clone()), (to, datagram)]),
                    5 => delayed.insert(0, (to, forged)),
                    _ => delayed.insert(0, (to, datagram)),
                }
            }
            let Some((to, datagram)) = delayed.pop() else {
                // A step in which nothing is sent also passes.
                fates.next();
                continue;
            };
            match to {
                true => pair.members[0].receive(&datagram, Instant::from_ns(now)),
                false => pair.hub.receive(&datagram, Some(0), Instant::from_ns(now)),
            }
        }
        pair.run(40);
        prop_assert!(pair.hub.is_ready());
        prop_assert_eq!(pair.ask(b"once"), [0]);
        prop_assert_eq!(&pair.delivered, &[(0, b"once".to_vec())]);
    }
}

/// The first hello of a member with these keys.
fn hello_of(security: Security, seed: u64) -> Vec<u8> {
    let mut member = member(&Config { security, ..plain_config() }, seed);
    let (hello, _) = member.poll(Instant::from_ns(1));
    hello.filter(|hello| kind(hello) == 0x26).unwrap()
}

/// What failed before: nothing at a hub said that a member has another key; then one forged hello a minute
/// used up the report of all members.
#[test]
fn a_hello_that_no_key_opens_is_reported_once_a_minute_and_changes_nothing() {
    let key = |of: u8| vec![of; 16];
    for security in [Security::Key(key(1)), Security::Keys(vec![key(1), key(2)])] {
        let mut hub = hub(&Config { security, ..plain_config() }, 2, 7);
        let explained = hub.explain();
        let mut refused = |seed: u64, of: u8, second: u64, from: Option<u32>| {
            hub.receive(
                &hello_of(Security::Key(key(of)), seed),
                from,
                Instant::from_ns(second * 1_000_000_000),
            );
            assert_eq!(hub.explain(), explained);
            assert!(hub.take_replies().is_empty() || of != 9);
            hub.take_refused()
        };
        // Of the right key, also without a vacant place.
        assert!(!refused(20, 1, 1, Some(0)));
        assert!(!refused(21, 1, 1, None));
        assert!(refused(22, 9, 2, None));
        assert!(!refused(22, 9, 2, None), "once a second");
        assert!(refused(22, 9, 2, Some(1)));
        for second in 3..62 {
            assert!(!refused(20 + second, 9, second, Some(1)));
            assert!(refused(120 + second, 9, second, None));
        }
        assert!(refused(100, 9, 62, Some(1)));
        assert!(refused(100, 9, 62, Some(0)), "each member has a limit");
        assert!(!refused(101, 1, 200, None));
        assert!(hub.take_events().is_empty());
    }
}
