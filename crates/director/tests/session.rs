//! Whole sessions in virtual time: a hub and members over a channel that they share and
//! that loses, with models that change while messages are under way.

use director::carrier::To;
use director::session::{Config, Event, Hub, Member, MemberEvent, Security};
use director::{Conditions, ModelId, Nanos, Pattern, PerformanceMap};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

const KEY: &[u8] = b"a key that both ends have";

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The hub (none) or a member looks what is to be done.
    Wake(Option<u32>),
    /// A datagram is there.
    Arrive(Option<u32>, Option<u32>, Vec<u8>),
    /// The application sends its next message.
    Send,
    /// The session goes over to another model.
    Change(ModelId),
    /// A member starts anew.
    Restart(u32),
    /// So many percent are lost from now on.
    Lose(u8),
    /// Other stacks carry nothing from now on.
    Stop,
    /// Messages go to so many members from now on, the first.
    Reach(u32),
    /// Packets are known to have so many bytes at most from now on.
    Packets(u32),
}

struct Bed {
    hub: Hub,
    members: Vec<Member>,
    queue: BinaryHeap<Reverse<(Nanos, u64, What)>>,
    number: u64,
    state: u64,
    loss: f64,
    /// So many members, the first, are reached by no multicast.
    deaf: u32,
    /// Whether other stacks carry what they are given.
    stacks: bool,
    /// To so many members, the first, messages go.
    to: u32,
    rate_bit_s: f64,
    free_at: Nanos,
    /// When the hub and the members look next: one moment each.
    wakes: BTreeMap<Option<u32>, Nanos>,
    bytes: u64,
    /// The longest datagram.
    longest: usize,
    /// What each member's application got, in order.
    had: Vec<Vec<Vec<u8>>>,
    answers: BTreeMap<(u64, u32), Vec<u8>>,
    acknowledged: BTreeMap<u64, u32>,
    over: BTreeMap<u64, usize>,
    changes: Vec<(ModelId, ModelId)>,
    answered: bool,
}

fn config(pattern: Pattern, assumed: Conditions, models: &[ModelId]) -> Config {
    let mut config = Config::new(pattern, Security::Key(KEY.to_vec()));
    config.assumed = assumed;
    config.models = models.to_vec();
    config.outside = models.to_vec();
    config
}

const OUTSIDE: [ModelId; 4] = [
    ModelId::TcpRouterDealer,
    ModelId::TcpPublishSubscribe,
    ModelId::PgmPublishSubscribe,
    ModelId::Mqtt,
];

impl Bed {
    fn new(config: &Config, members: usize, loss: f64, seed: u64) -> Self {
        let map = Arc::new(PerformanceMap::new());
        let hub = Hub::new(config.clone(), map, members, 1_000, seed).unwrap();
        let member = |n: usize| Member::new(config.security.clone(), 42, seed * 1_000 + n as u64);
        let member = |n| member(n).unwrap().with_outside(&config.outside);
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
            deaf: 0,
            stacks: true,
            rate_bit_s: config.assumed.rate_bit_s,
            free_at: 0,
            wakes: BTreeMap::new(),
            bytes: 0,
            longest: 0,
            answers: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            over: BTreeMap::new(),
            changes: Vec::new(),
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

    fn at(&mut self, at: Nanos, what: What) {
        self.number += 1;
        self.queue.push(Reverse((at, self.number, what)));
    }

    fn wake(&mut self, who: Option<u32>, at: Nanos) {
        if self.wakes.get(&who).is_none_or(|known| at < *known) {
            self.wakes.insert(who, at);
            self.at(at, What::Wake(who));
        }
    }

    fn carry(&mut self, now: Nanos, from: Option<u32>, to: To, datagram: &[u8]) {
        let airtime = (datagram.len() + 42) as f64 * 8e9 / self.rate_bit_s;
        self.free_at = self.free_at.max(now) + airtime as Nanos;
        self.bytes += datagram.len() as u64 + 42;
        self.longest = self.longest.max(datagram.len());
        let receivers: Vec<Option<u32>> = match to {
            To::Hub => vec![None],
            To::Member(member) => vec![Some(member)],
            To::Group => (self.deaf..self.members.len() as u32).map(Some).collect(),
        };
        // 30 ms, give or take 5.
        let arrival = self.free_at + 25_000_000 + (self.draw() * 1e7) as Nanos;
        let outside = director::carrier::model_of(datagram).is_some();
        for receiver in receivers {
            let carried = if outside { self.stacks } else { self.draw() >= self.loss };
            if carried {
                self.at(arrival, What::Arrive(receiver, from, datagram.to_vec()));
            }
        }
    }

    /// Until nothing is open, or `until`.
    fn run(&mut self, until: Nanos, mut payload: impl FnMut(u64) -> Vec<u8>) -> Nanos {
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
                    who
                }
                What::Arrive(None, from, datagram) => {
                    // What another stack carries has no address.
                    let outside = director::carrier::model_of(&datagram).is_some();
                    self.hub.receive(&datagram, from.filter(|_| !outside), now);
                    None
                }
                What::Arrive(Some(member), _, datagram) => {
                    self.members[member as usize].receive(&datagram, now);
                    Some(member)
                }
                What::Reach(members) => {
                    self.to = members;
                    None
                }
                What::Packets(bytes) => {
                    self.hub.packets(Some(bytes), now);
                    None
                }
                What::Send => {
                    let to: Vec<u32> = (0..self.to).collect();
                    self.hub.send_to(&payload(sent), &to, now).unwrap();
                    sent += 1;
                    None
                }
                What::Change(model) => {
                    if !self.hub.force(model, now) {
                        self.at(now + 50_000_000, What::Change(model));
                    }
                    None
                }
                What::Restart(member) => {
                    let security = Security::Key(KEY.to_vec());
                    let seed = 77_000 + u64::from(member);
                    self.members[member as usize] = Member::new(security, 42, seed).unwrap();
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

    fn turn(&mut self, who: Option<u32>, now: Nanos) {
        let (datagram, wake) = match who {
            None => self.hub.poll(now),
            Some(member) => {
                let own = &mut self.members[member as usize];
                for event in own.take_events() {
                    let MemberEvent::Message { number, bytes } = event else { continue };
                    if self.answered {
                        let answer: Vec<u8> = bytes.iter().map(|b| b ^ member as u8).collect();
                        own.answer(number, &answer, now).unwrap();
                    }
                    self.had[member as usize].push(bytes);
                }
                let (datagram, wake) = own.poll(now);
                (datagram.map(|datagram| (To::Hub, datagram)), wake)
            }
        };
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
                Event::Over { message, lacking } => drop(self.over.insert(message, lacking.len())),
                Event::ModelChange { from, to, .. } => self.changes.push((from, to)),
                Event::Joined(_) => {}
            }
        }
    }
}

const SECOND: Nanos = 1_000_000_000;

fn constrained() -> Conditions {
    Conditions {
        loss: 0.3,
        rtt_ns: 60_000_000,
        rate_bit_s: 250_000.0,
        mtu: 113.0,
        payload: 1_699.0,
        messages_s: 0.01,
        ..Conditions::default()
    }
}

#[test]
fn three_hundred_meters_join_hear_a_price_and_answer() {
    let config = config(Pattern::PublishCollect, constrained(), &[]);
    let mut bed = Bed::new(&config, 300, 0.3, 5);
    bed.at(20 * SECOND, What::Send);
    bed.run(120 * SECOND, |_| (0..1_699).map(|at| at as u8).collect());
    assert!(bed.hub.is_ready(), "{} are absent", bed.hub.absent().count());
    assert_eq!((bed.answers.len(), bed.over.get(&0)), (300, Some(&0)));
    assert!(bed.had.iter().all(|had| had.len() == 1 && had[0].len() == 1_699));
    for ((_, member), answer) in &bed.answers {
        assert!(answer.iter().enumerate().all(|(at, byte)| *byte == at as u8 ^ *member as u8));
    }
    let said = bed.hub.explain().to_string();
    assert!(said.starts_with("multicast-fec"), "{said}");
}

/// Short messages over a bad network, many times, where multicast reaches all, some or nobody:
/// each is answered by all, soon.
/// Two prices in a row fill four fifths of the channel. What is seen of it meanwhile, from waits in
/// a full channel among it, is no reason to go over to anything, or to invite all again.
#[test]
fn a_full_channel_stays_with_what_fits() {
    let full = Conditions { messages_s: 1.0 / 60.0, ..constrained() };
    for seed in 1..4 {
        let mut bed = Bed::new(&config(Pattern::PublishCollect, full, &[]), 300, 0.3, seed);
        (0..2).for_each(|n| bed.at((40 + 60 * n) * SECOND, What::Send));
        bed.run(160 * SECOND, |_| vec![3; 1_699]);
        assert_eq!((bed.answers.len(), bed.hub.open_messages()), (600, 0), "seed {seed}");
        assert!(bed.changes.is_empty(), "{:?}", bed.changes);
        // 1.148 MB a price at least; joining is less than a tenth of that.
        assert!(bed.bytes < 3_000_000, "{}", bed.bytes);
    }
}

#[test]
fn no_draw_of_chance_holds_a_session_up() {
    let here = Conditions { payload: 20.0, ..constrained() };
    for seed in 1..400 {
        let mut bed = Bed::new(&config(Pattern::PublishCollect, here, &[]), 4, 0.3, seed);
        bed.deaf = (seed % 5) as u32;
        bed.at(10 * SECOND, What::Send);
        bed.run(70 * SECOND, |_| vec![7; 21]);
        let said = bed.hub.explain();
        assert!(bed.hub.is_ready(), "seed {seed}: {} are absent", bed.hub.absent().count());
        assert_eq!(
            (bed.answers.len(), bed.over.get(&0)),
            (4, Some(&0)),
            "seed {seed}: {said} {:?}",
            bed.changes
        );
    }
}

#[test]
fn each_model_carries_each_pattern_that_it_serves() {
    let quiet = Conditions { rate_bit_s: 2e6, rtt_ns: 60_000_000, ..Conditions::default() };
    for model in director::carrier::available().into_iter().chain(OUTSIDE) {
        for pattern in
            [Pattern::PublishSubscribe, Pattern::PublishCollect, Pattern::RequestResponse]
        {
            if !model.features().patterns.contains(&pattern) {
                continue;
            }
            let config = config(pattern, quiet, &[model]);
            let mut bed = Bed::new(&config, 4, 0.0, 3);
            (0..20).for_each(|n| bed.at(SECOND + n * SECOND / 10, What::Send));
            bed.run(20 * SECOND, |n| vec![n as u8; 400]);
            let had: Vec<usize> = bed.had.iter().map(Vec::len).collect();
            assert_eq!(had, [20; 4], "{model} {pattern:?}");
            assert_eq!(bed.over.len(), 20, "{model} {pattern:?}");
            assert!(bed.over.values().all(|lacking| *lacking == 0));
        }
    }
}

/// One member needs no group: no multicast reaches it here. And a round trip is seen as it is.
#[test]
fn one_member_hears_all_alone() {
    let here = Conditions { rate_bit_s: 1e6, rtt_ns: 300_000_000, ..Conditions::default() };
    let config = config(Pattern::PublishCollect, here, &[ModelId::MulticastFec]);
    let mut bed = Bed::new(&config, 1, 0.1, 5);
    bed.deaf = 1;
    (0..30).for_each(|n| bed.at(2 * SECOND + n * SECOND, What::Send));
    bed.run(60 * SECOND, |_| vec![3; 300]);
    assert_eq!(bed.answers.len(), 30);
    let seen = bed.hub.explain();
    assert!(seen.multicast, "{seen}");
    let trip = seen.conditions.rtt_ns / 1_000_000;
    assert!((50..85).contains(&trip), "{seen}");
}

/// When all comes back at once, nobody is taken for deaf who was only cut off.
#[test]
fn an_outage_is_no_proof_against_multicast() {
    let here = Conditions { rate_bit_s: 1e6, rtt_ns: 60_000_000, ..Conditions::default() };
    let models = [ModelId::UdpArq, ModelId::MulticastFec];
    for seed in 1..20 {
        let config = config(Pattern::PublishCollect, here, &models);
        let mut bed = Bed::new(&config, 12, 0.0, seed);
        (0..25).for_each(|n| bed.at(2 * SECOND + n * SECOND, What::Send));
        bed.at(10 * SECOND, What::Lose(100));
        bed.at(10 * SECOND + (seed + 20) * SECOND / 4, What::Lose(0));
        bed.run(60 * SECOND, |_| vec![3; 700]);
        let seen = bed.hub.explain();
        assert_eq!(bed.answers.len(), 25 * 12, "seed {seed}");
        assert!(seen.multicast, "seed {seed}: {seen}");
    }
}

/// What is expected of a model follows to how many messages go.
#[test]
fn the_choice_knows_the_fan_out() {
    let here = Conditions { rate_bit_s: 1e6, rtt_ns: 60_000_000, ..Conditions::default() };
    let mut bed = Bed::new(&config(Pattern::PublishCollect, here, &[]), 60, 0.02, 5);
    let mut seen = Vec::new();
    for (phase, members) in [60, 1, 60].into_iter().enumerate() {
        let begin = (5 + 60 * phase as u64) * SECOND;
        bed.at(begin - SECOND, What::Reach(members));
        (0..12).for_each(|n| bed.at(begin + n * 4 * SECOND, What::Send));
        bed.run(begin + 55 * SECOND, |_| vec![3; 700]);
        let said = bed.hub.explain();
        let cost = said.decision.and_then(|decision| decision.costs.0).unwrap();
        seen.push((said.conditions.group, cost));
    }
    let [(all, first), (one, alone), (again, last)] = seen[..] else { panic!("{seen:?}") };
    assert_eq!((all, one, again), (60.0, 1.0, 60.0));
    assert!(3.0 * alone < first.min(last), "{seen:?}");
    assert_eq!(bed.answers.len(), 12 * (60 + 1 + 60));
}

/// The system may learn of a narrower way while messages are under way, and of a wider one.
#[test]
fn packets_follow_what_the_way_takes() {
    for model in [ModelId::UdpArq, ModelId::MulticastFec] {
        let here = Conditions { rate_bit_s: 2e6, rtt_ns: 60_000_000, ..Conditions::default() };
        let mut bed = Bed::new(&config(Pattern::PublishCollect, here, &[model]), 4, 0.05, 3);
        (0..15).for_each(|n| bed.at((3 + 2 * n) * SECOND, What::Send));
        let mut longest = Vec::new();
        for (at, bytes) in [(0, 9_000), (10, 300), (20, 1_200)] {
            bed.at(at * SECOND, What::Packets(bytes));
            // What is under way keeps its shape.
            bed.run((at + 4) * SECOND, |_| vec![3; 3_000]);
            bed.longest = 0;
            bed.run((at + 10) * SECOND - 1, |_| vec![3; 3_000]);
            longest.push(bed.longest);
        }
        bed.run(60 * SECOND, |_| vec![3; 3_000]);
        let [first, narrow, wider] = longest[..] else { panic!() };
        assert!((1_000..=1_472).contains(&first), "{model}: no more than was said: {first}");
        assert!((200..=272).contains(&narrow) && (700..=1_172).contains(&wider), "{longest:?}");
        assert_eq!(bed.answers.len(), 60, "{model}");
    }
}

#[test]
fn changes_under_loss_lose_nothing_and_double_nothing() {
    let lossy =
        Conditions { loss: 0.3, rate_bit_s: 2e6, rtt_ns: 60_000_000, ..Conditions::default() };
    let models = [ModelId::UdpArq, ModelId::MulticastFec, ModelId::QuicStreams];
    for seed in 1..3 {
        let config = config(Pattern::PublishCollect, lossy, &models);
        let mut bed = Bed::new(&config, 5, 0.3, seed);
        (0..60).for_each(|n| bed.at(3 * SECOND + n * SECOND / 3, What::Send));
        (0..10).for_each(|n| {
            bed.at(4 * SECOND + n * 2 * SECOND, What::Change(models[n as usize % 3]))
        });
        bed.run(200 * SECOND, |n| vec![n as u8; 700]);
        assert!(bed.changes.len() >= 8, "{:?}", bed.changes);
        for had in &bed.had {
            let mut numbers: Vec<u8> = had.iter().map(|bytes| bytes[0]).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..60).collect::<Vec<u8>>(), "seed {seed}");
        }
        assert_eq!(bed.answers.len(), 300, "seed {seed}");
        assert_eq!(bed.hub.open_messages(), 0);
    }
}

/// QUIC makes a connection for each epoch and member: two of them at once in each change.
#[test]
fn epochs_of_quic_do_not_mix() {
    let here = Conditions { rate_bit_s: 2e6, rtt_ns: 60_000_000, ..Conditions::default() };
    let models = [ModelId::QuicStreams, ModelId::QuicDatagrams];
    let mut bed = Bed::new(&config(Pattern::RequestResponse, here, &models), 3, 0.0, 5);
    (0..60).for_each(|n| bed.at(SECOND + n * SECOND / 5, What::Send));
    (0..12).for_each(|n| bed.at(SECOND + (n + 1) * SECOND, What::Change(models[n as usize % 2])));
    bed.run(60 * SECOND, |n| vec![n as u8; 300]);
    assert!(bed.changes.len() >= 10, "{:?}", bed.changes);
    assert!(bed.had.iter().all(|had| had.len() == 60), "{}", bed.had[0].len());
    assert_eq!((bed.answers.len(), bed.hub.open_messages()), (180, 0));
}

/// What does not fit is carried by another model, if there is one.
#[test]
fn a_message_that_is_too_long_for_the_model_goes_by_another() {
    let here = Conditions { rate_bit_s: 2e6, ..Conditions::default() };
    let models = [ModelId::QuicDatagrams, ModelId::QuicStreams];
    let mut bed = Bed::new(&config(Pattern::RequestResponse, here, &models), 3, 0.0, 5);
    bed.at(SECOND, What::Change(ModelId::QuicDatagrams));
    (2..8).for_each(|n| bed.at(n * SECOND, What::Send));
    bed.run(30 * SECOND, |n| vec![n as u8; if n < 3 { 500 } else { 5_000 }]);
    assert_eq!(bed.changes.last(), Some(&(ModelId::QuicDatagrams, ModelId::QuicStreams)));
    assert_eq!((bed.answers.len(), bed.hub.open_messages()), (18, 0));
    // Held to one model, the session says why not; and where packets are small, too.
    let only = config(Pattern::RequestResponse, here, &models[..1]);
    let small = Conditions { mtu: 500.0, ..here };
    let narrow = config(Pattern::RequestResponse, small, &models[1..]);
    for (config, length, word) in [(only, 5_000, "at most"), (narrow, 50, "no room")] {
        let mut hub = Hub::new(config, Arc::new(PerformanceMap::new()), 3, 1, 7).unwrap();
        let why = hub.send(&vec![1; length], 0).unwrap_err().to_string();
        assert!(why.contains("cannot carry the message") && why.contains(word), "{why}");
        assert_eq!(hub.open_messages(), 0);
    }
}

/// Where packets are small QUIC is never tried, however badly others do.
#[test]
fn small_packets_are_not_for_quic() {
    for mtu in [127.0, 500.0] {
        let here = Conditions { mtu, ..constrained() };
        let models = [ModelId::UdpArq, ModelId::QuicStreams, ModelId::QuicDatagrams];
        let mut bed = Bed::new(&config(Pattern::PublishCollect, here, &models), 3, 0.6, 5);
        (0..20).for_each(|n| bed.at(n * 5 * SECOND, What::Send));
        bed.run(200 * SECOND, |_| vec![7; 300]);
        assert!(bed.changes.is_empty(), "{:?}", bed.changes);
        assert!(bed.hub.explain().to_string().starts_with("udp-arq"));
    }
}

/// Ends of two versions, or built with other features, take what both have; and what a later
/// version adds to an invitation is passed over (`envelope`).
#[test]
fn ends_that_have_other_models_agree() {
    let config = config(Pattern::PublishCollect, constrained(), &[]);
    let mut bed = Bed::new(&config, 3, 0.1, 5);
    let few = [ModelId::UdpArq, ModelId::UdpRequestResponse].into_iter().collect();
    let older = Member::new(config.security.clone(), 42, 99).unwrap().with_models(few);
    bed.members[1] = older;
    bed.at(20 * SECOND, What::Send);
    bed.run(200 * SECOND, |_| vec![3; 500]);
    assert!(bed.hub.is_ready(), "{} are absent", bed.hub.absent().count());
    assert_eq!((bed.answers.len(), bed.over.get(&0)), (3, Some(&0)));
    let first = bed.changes.first().map(|(from, _)| *from);
    assert_eq!(first, Some(ModelId::MulticastFec), "{:?}", bed.changes);
    assert!(bed.hub.explain().to_string().starts_with("udp-"), "{}", bed.hub.explain());
}

/// A stack that carries nothing any more looks like an outage, but for datagrams.
#[test]
fn a_stack_that_dies_is_left_and_nothing_is_lost() {
    let here = Conditions { rate_bit_s: 2e6, rtt_ns: 20_000_000, ..Conditions::default() };
    for model in OUTSIDE {
        for pattern in
            [Pattern::RequestResponse, Pattern::PublishCollect, Pattern::PublishSubscribe]
        {
            if !model.features().patterns.contains(&pattern) {
                continue;
            }
            let config = config(pattern, here, &[ModelId::UdpArq, model]);
            let mut bed = Bed::new(&config, 4, 0.0, 3);
            bed.at(SECOND / 2, What::Change(model));
            (0..20).for_each(|n| bed.at(SECOND + n * SECOND / 4, What::Send));
            bed.at(3 * SECOND, What::Stop);
            bed.run(30 * SECOND, |n| vec![n as u8; 400]);
            let had: Vec<usize> = bed.had.iter().map(Vec::len).collect();
            let said = bed.hub.explain().to_string();
            assert_eq!(had, [20; 4], "{model} {pattern:?} {said}");
            assert!(bed.over.len() == 20 && bed.over.values().all(|lacking| *lacking == 0));
            assert!(bed.changes.iter().any(|(from, _)| *from == model), "{:?}", bed.changes);
            assert!(said.starts_with("udp-arq"), "{model} {pattern:?} {said}");
        }
    }
}

#[test]
fn a_session_without_other_stacks_has_none_of_their_models() {
    for (of_hub, of_member) in [(false, false), (true, false), (false, true)] {
        let models = [ModelId::Mqtt, ModelId::UdpRequestResponse];
        let mut config = config(Pattern::PublishCollect, Conditions::default(), &models);
        config.outside.retain(|_| of_hub);
        let mut bed = Bed::new(&config, 2, 0.0, 3);
        let one = Member::new(config.security.clone(), 42, 99).unwrap();
        bed.members[1] = if of_member { one.with_outside(&OUTSIDE) } else { one };
        bed.at(SECOND, What::Change(ModelId::Mqtt));
        bed.at(2 * SECOND, What::Send);
        bed.run(30 * SECOND, |_| vec![3; 100]);
        let said = bed.hub.explain().to_string();
        assert_eq!((bed.answers.len(), bed.over.get(&0)), (2, Some(&0)), "{said}");
        assert!(said.starts_with("udp-request-response"), "{said}");
    }
}

#[test]
fn a_member_that_starts_anew_in_the_middle_hears_the_rest() {
    let lossy =
        Conditions { loss: 0.1, rate_bit_s: 100e3, rtt_ns: 60_000_000, ..Conditions::default() };
    for model in [ModelId::UdpArq, ModelId::MulticastFec, ModelId::QuicStreams] {
        let config = config(Pattern::PublishSubscribe, lossy, &[model]);
        let mut bed = Bed::new(&config, 3, 0.1, 11);
        // Ten seconds for each member at this rate; it starts anew in the middle of it.
        bed.at(5 * SECOND, What::Send);
        bed.at(6 * SECOND, What::Restart(1));
        bed.run(400 * SECOND, |_| vec![9; 40_000]);
        assert_eq!(bed.over.get(&0), Some(&0), "{model}");
        assert!(bed.had.iter().all(|had| had.len() == 1), "{model}");
    }
}

/// Without keys anybody may say to know the last session that there can be.
#[test]
fn there_is_none_after_the_last_session() {
    let mut config = Config::new(Pattern::PublishCollect, Security::InsecureOnPurpose);
    config.models = vec![ModelId::UdpArq];
    let mut hub = Hub::new(config, Arc::new(PerformanceMap::new()), 1, 5, 7).unwrap();
    let hello = [&[0x26][..], &[0; 8], &[0xff; 8]].concat();
    hub.receive(&hello, Some(0), 1);
    assert!(hub.poll(1).0.is_some(), "it is invited all the same");
}

#[test]
fn without_the_key_nobody_joins_and_deadlines_are_told() {
    let mut config = config(Pattern::RequestResponse, Conditions::default(), &[]);
    config.targets.deadline_ns = Some(2 * SECOND);
    let mut bed = Bed::new(&config, 1, 0.0, 1);
    bed.members[0] =
        Member::new(Security::Key(b"another key, of a stranger".to_vec()), 42, 9).unwrap();
    bed.at(SECOND, What::Send);
    bed.run(10 * SECOND, |_| vec![1; 10]);
    assert!(!bed.hub.is_ready() && bed.had[0].is_empty());
    assert_eq!(bed.over.get(&0), Some(&1));
}

#[test]
fn a_hub_that_starts_anew_is_heard_even_if_its_clock_was_set_back() {
    for session in [2_000, 500] {
        let config = config(Pattern::PublishCollect, Conditions::default(), &[]);
        let mut bed = Bed::new(&config, 3, 0.0, 5);
        bed.at(SECOND, What::Send);
        bed.run(2 * SECOND, |_| vec![1; 50]);
        assert_eq!(bed.answers.len(), 3);
        // The first began at 1,000.
        bed.hub = Hub::new(config, Arc::new(PerformanceMap::new()), 3, session, 9).unwrap();
        bed.answers.clear();
        bed.wakes.clear();
        bed.wake(None, 2 * SECOND);
        (0..3).for_each(|n| bed.wake(Some(n), 2 * SECOND));
        bed.at(3 * SECOND, What::Send);
        bed.run(9 * SECOND, |_| vec![2; 50]);
        assert_eq!(bed.answers.len(), 3, "begun at {session}");
    }
}

#[test]
fn what_cannot_be_is_said() {
    let map = || Arc::new(PerformanceMap::new());
    let short = Config::new(Pattern::RequestResponse, Security::Key(b"short".to_vec()));
    let said = |config: Config, members| match Hub::new(config, map(), members, 1, 1) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    assert!(said(short, 1).contains("5 bytes is too short"));
    let mut config = config(Pattern::RequestResponse, Conditions::default(), &[]);
    assert!(said(config.clone(), 0).contains("not 0"));
    config.properties.multicast = director::Preference::Require;
    let why = said(config, 1);
    assert!(
        why.contains("udp-arq: multicast") && why.contains("does not serve the pattern"),
        "{why}"
    );
}

mod foreign {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Without keys any bytes are read as far as they make sense; nothing breaks, and
        /// nothing is made up that was not said.
        #[test]
        fn datagrams_do_no_harm(
            datagrams in prop::collection::vec(
                (any::<bool>(), 0_u8..80, prop::collection::vec(any::<u8>(), 0..100)), 1..60
            ),
            model in 0..director::carrier::available().len() + OUTSIDE.len(),
        ) {
            let models = director::carrier::available().into_iter().chain(OUTSIDE);
            let model = models.collect::<Vec<_>>()[model];
            let pattern = model.features().patterns[0];
            let mut config = config(pattern, Conditions::default(), &[model]);
            config.security = Security::InsecureOnPurpose;
            let mut hub = Hub::new(config, Arc::new(PerformanceMap::new()), 3, 1, 7).unwrap();
            let mut member = Member::new(Security::InsecureOnPurpose, 42, 7).unwrap();
            // Not all carry as much as this.
            let _ = hub.send(&[5; 3_000], 0);
            hub.send(&[5; 1_000], 0).unwrap();
            let mut now = 1;
            for (to_hub, kind, mut bytes) in datagrams {
                now += 1_000_000;
                bytes.insert(0, kind);
                if to_hub {
                    hub.receive(&bytes, Some(u32::from(kind % 4)), now);
                } else {
                    member.receive(&bytes, now);
                }
                if let (Some((_, said)), _) = hub.poll(now) {
                    member.receive(&said, now);
                }
                if let (Some(said), _) = member.poll(now) {
                    hub.receive(&said, Some(0), now);
                }
            }
            prop_assert!(hub.open_messages() <= 2);
        }

        /// With keys nothing that a stranger says is heard at all.
        #[test]
        fn strangers_change_nothing(
            datagrams in prop::collection::vec((0_u8..48, prop::collection::vec(any::<u8>(), 0..100)), 1..40)
        ) {
            let config = config(Pattern::PublishCollect, Conditions::default(), &[]);
            let mut hub = Hub::new(config, Arc::new(PerformanceMap::new()), 3, 1, 7).unwrap();
            let before = hub.explain();
            for (kind, mut bytes) in datagrams {
                bytes.insert(0, kind);
                hub.receive(&bytes, Some(0), 5);
            }
            prop_assert!(hub.take_events().is_empty());
            prop_assert_eq!(hub.explain(), before);
        }
    }
}
