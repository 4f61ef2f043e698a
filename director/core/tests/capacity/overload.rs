//! More messages than the path carries, with lifetimes shorter than their queue.

use crate::network::{MS, Network, SECOND, World};
use crate::tcp::Tcp;
use crate::{config, rate};
use director::{ModelId, PerformanceMap, Span};

const BIT_S: f64 = 2e6;
/// What the path carries in a second: messages of 1,000 B with the headers of Ethernet, IP, UDP and the
/// director, about 1,100 B.
const CARRIED: f64 = BIT_S / 8.0 / 1_100.0;
/// Time with messages, in seconds.
const LASTS: u64 = 10;

/// Messages of 1,000 B with a lifetime to members that answer with 100 B, `offered` times what the path
/// carries: the share of what it carries that is answered in time.
fn in_time(models: &[ModelId], members: usize, offered: f64, lifetime: u64) -> f64 {
    in_time_of((1_000, 100), models, members, offered, lifetime)
}

/// Members over `network` whose messages have a lifetime in ns, and the copies of a message on the path: one
/// for each member, or one for all. The director chooses multicast here.
fn with_lifetimes(
    models: &[ModelId],
    members: usize,
    lifetime: u64,
    network: Network,
) -> (World, f64) {
    let mut own = config(models);
    own.targets.delivery_ratio = None;
    own.lifetime = Some(Span::from_ns(lifetime));
    let copies = if models == [ModelId::UdpArq] { members as f64 } else { 1.0 };
    (World::new(&own, PerformanceMap::shipped(), members, network, 1), copies)
}

/// The same for messages and answers of these sizes in bytes.
fn in_time_of(
    (message, answer): (usize, usize),
    models: &[ModelId],
    members: usize,
    offered: f64,
    lifetime: u64,
) -> f64 {
    let network = Network { delay: 20 * MS, ..rate(BIT_S) };
    let (mut world, copies) = with_lifetimes(models, members, lifetime, network);
    let count = (CARRIED * LASTS as f64 * offered / copies) as u64;
    world.answer = answer;
    world.sends(2 * SECOND, LASTS * SECOND / count, count, message);
    world.run(16 * SECOND);
    let took = world.messages.iter().flat_map(|own| own.took.iter().flatten());
    let arrived = took.filter(|took| **took <= lifetime).count();
    arrived as f64 / members as f64 * copies / (CARRIED * LASTS as f64)
}

/// Each message waited for nearly its lifetime, and was sent too late: with a fifth more than the path
/// carries and a lifetime of 1 s, 8 to 33 % of that was answered in time, now 48 to 93 %.
#[test]
fn what_can_no_longer_arrive_in_time_is_not_sent() {
    for models in [&[][..], &[ModelId::UdpArq], &[ModelId::MulticastFec]] {
        for members in [1, 5] {
            for lifetime in [300 * MS, SECOND] {
                for offered in [1.2, 2.0] {
                    let share = in_time(models, members, offered, lifetime);
                    let lifetime = lifetime / MS;
                    eprintln!(
                        "{models:?}, {members} members, {lifetime} ms, {offered}: {share:.2}"
                    );
                    assert!(share > 0.45, "{models:?} {members} {lifetime} {offered} {share}");
                }
            }
        }
    }
}

/// A member sent the answers to messages that were over at the hub, one after the other, and those that
/// followed came too late. The other models have no measured rate at members, so answers wait on the path.
#[test]
fn answers_that_can_no_longer_arrive_in_time_are_not_sent() {
    let mut shares = Vec::new();
    for (lifetime, offered) in [(300, 1.2), (300, 2.0), (1_000, 1.2), (1_000, 2.0)] {
        let share = in_time_of((100, 1_000), &[ModelId::UdpArq], 1, offered, lifetime * MS);
        eprintln!("{lifetime} ms, {offered}: {share:.2}");
        shares.push(share);
    }
    assert!(shares.iter().all(|share| *share > 0.6), "{shares:?}");
}

/// These have no estimate of the path, or one exchange at a time: none was in time.
#[test]
fn models_without_an_estimate_drop_what_is_too_late() {
    let models = [
        (ModelId::UdpRequestResponse, 1.2, 0.7),
        (ModelId::CoapNonConfirmable, 1.2, 0.8),
        (ModelId::CoapConfirmable, 0.8, 0.05),
    ];
    for (model, offered, least) in models {
        // With 1,000 B a message takes two of CoAP's blocks of 1,024 B.
        let share = in_time_of((990, 100), &[model], 1, offered, SECOND);
        eprintln!("{model}: {share:.2}");
        assert!(share > least, "{model} {share}");
    }
}

/// The share of what a path of 2 Mbit/s carries times `load` that is answered in time after its delay has
/// become 150 ms.
fn longer(models: &[ModelId], members: usize, load: f64, lifetime: u64) -> [f64; 2] {
    let network = Network { delay: 20 * MS, ..rate(BIT_S) };
    let (mut world, copies) = with_lifetimes(models, members, lifetime, network);
    world.answer = 100;
    let each = (1e9 / (CARRIED * load / copies)) as u64;
    world.sends(2 * SECOND, each, 58 * SECOND / each, 1_000);
    world.network_at(20 * SECOND, Network { delay: 150 * MS, ..network });
    world.run(65 * SECOND);
    [(20, 40), (40, 58)].map(|(from, to)| {
        let sent =
            world.messages.iter().filter(|own| (from * SECOND..to * SECOND).contains(&own.sent_at));
        let all: Vec<u64> =
            sent.flat_map(|own| &own.took).map(|took| took.unwrap_or(u64::MAX)).collect();
        all.iter().filter(|took| **took <= lifetime).count() as f64 / all.len() as f64
    })
}

/// Each message of multicast with a short answer said little of the path, and final reports of messages
/// that were never sent took half of its rate: of multicast 12 to 55 % were in time with one member, and
/// 13 to 100 % with five, also half a minute later; of `udp-arq` 44 to 100 %, because everything was sent
/// twice when a queue began to grow.
#[test]
fn a_longer_path_carries_as_much() {
    for models in [&[][..], &[ModelId::UdpArq], &[ModelId::MulticastFec]] {
        for members in [1, 5] {
            for load in [0.3, 0.5, 0.8] {
                let [first, then] = longer(models, members, load, SECOND);
                eprintln!("{models:?}, {members} members, {load}: {first:.2}, {then:.2}");
                assert!(first > 0.45 && then > 0.7, "{models:?} {members} {load} {first} {then}");
                assert!(then > 0.99 || load > 0.7, "{models:?} {members} {load} {then}");
            }
        }
    }
}

/// The rates of the session and of a TCP flow next to it, as shares of what the path carries.
fn next_to_tcp(models: &[ModelId], queue: f64, lifetime: u64, cubic: bool) -> [f64; 2] {
    let network = Network { delay: 20 * MS, queue, ..rate(BIT_S) };
    let (mut world, _) = with_lifetimes(models, 1, lifetime, network);
    world.answer = 700;
    shares(world, Tcp::new(false, cubic))
}

/// The same of a session with more to send than the path carries.
fn shares(mut world: World, tcp: Tcp) -> [f64; 2] {
    let way = usize::from(tcp.up);
    world.sends(2 * SECOND, 5 * MS, 25_000, 1_700);
    world.flow_at(5 * SECOND, tcp);
    world.run(30 * SECOND);
    let before = [world.passed[way], world.flows[0].delivered];
    world.run(120 * SECOND);
    let after = [world.passed[way], world.flows[0].delivered];
    [0, 1].map(|flow| (after[flow] - before[flow]) as f64 / 90.0 * 8.0 / BIT_S)
}

/// Losses of messages that expire before they are repeated were not noticed, and the window grew with each
/// acknowledgement by all that had arrived in the last round trip: TCP had 5 to 11 % of a short queue. Symbols
/// of `multicast-fec` that members lacked counted as no loss: TCP had 0 to 4 % with either queue.
#[test]
fn it_shares_a_link_with_tcp_in_overload() {
    for (cubic, queue) in [(false, 30e3), (true, 30e3), (true, 150e3)] {
        for (model, lifetime) in [ModelId::UdpArq, ModelId::MulticastFec]
            .into_iter()
            .flat_map(|model| [(model, SECOND), (model, 3 * SECOND)])
        {
            let [own, tcp] = next_to_tcp(&[model], queue, lifetime, cubic);
            let case = format!("{model}, cubic {cubic}, {queue} B, {} ms", lifetime / MS);
            eprintln!("{case}: director {own:.2}, TCP {tcp:.2}");
            assert!((0.5..2.0).contains(&(own / tcp)) && own + tcp > 0.7, "{case} {own} {tcp}");
        }
    }
}

/// Answers and TCP's data fill the way to the hub. The hub began messages as fast as if only one of its members
/// answered, and lost answers to messages that end before they are repeated were no losses: with answers of
/// 1,700 B TCP had 30 % next to one member, 5 and 15 % next to two, 1 and 4 % next to five (queues of 30 and
/// 150 kB).
#[test]
fn answers_share_a_link_with_tcp_in_overload() {
    for queue in [30e3, 150e3] {
        for (members, answer) in [(1, 1_700), (2, 1_700), (5, 1_700), (5, 700)] {
            let network = Network { delay: 20 * MS, queue, down_bit_s: 100e6, ..rate(BIT_S) };
            let models = [ModelId::MulticastFec];
            let (mut world, _) = with_lifetimes(&models, members, 3 * SECOND, network);
            world.answer = answer;
            let [own, tcp] = shares(world, Tcp::new(true, true));
            let case = format!("{members} members, {answer} B, queue of {queue} B");
            eprintln!("{case}: director {own:.2}, TCP {tcp:.2}");
            assert!((0.5..2.0).contains(&(own / tcp)) && own + tcp > 0.7, "{case} {own} {tcp}");
        }
    }
}

/// A TCP flow that begins late has its share, and what it has used is used again when it ends.
#[test]
fn answers_give_way_to_a_flow_while_there_is_one() {
    for members in [1, 2, 5] {
        let network = Network { delay: 20 * MS, down_bit_s: 100e6, ..rate(BIT_S) };
        let models = [ModelId::MulticastFec];
        let (mut world, _) = with_lifetimes(&models, members, 3 * SECOND, network);
        world.answer = 1_700;
        world.sends(2 * SECOND, 5 * MS, 25_000, 1_700);
        let mut flow = Tcp::new(true, true);
        flow.until = 90 * SECOND;
        world.flow_at(20 * SECOND, flow);
        let passed = [5, 20, 60, 90, 95, 125].map(|second| {
            world.run(second * SECOND);
            world.passed[1]
        });
        let share =
            |n: usize, seconds: f64| (passed[n + 1] - passed[n]) as f64 / seconds * 8.0 / BIT_S;
        let (before, with, after) = (share(0, 15.0), share(2, 30.0), share(4, 30.0));
        eprintln!("{members} members: {before:.2}, next to TCP {with:.2}, after it {after:.2}");
        assert!((0.3..0.67).contains(&with) && after > 0.85 * before, "{members} members");
    }
}

/// A path that becomes 90 times narrower. The hub requested whole answers again and again by the former round
/// trip: a queue that outlasted the lifetime of messages for half a minute, so that 40 of 180 were late.
#[test]
fn a_sudden_drop_is_no_queue_of_requested_answers() {
    let wide = Network { delay: 2 * MS, queue: 1e6, ..rate(4.6e6) };
    let narrow = Network { delay: 36 * MS, queue: 1e6, ..rate(52e3) };
    let late = (1..=3).map(|seed| {
        let mut own = config(&[ModelId::MulticastFec]);
        own.targets.delivery_ratio = None;
        own.lifetime = Some(Span::from_ns(8_500 * MS));
        let mut world = World::new(&own, PerformanceMap::shipped(), 2, wide, seed);
        world.answer = 2_143;
        world.sends(2 * SECOND, 1_700 * MS, 60, 2_143);
        world.network_at(20 * SECOND, narrow);
        world.run(120 * SECOND);
        let is_late = |took: &Option<u64>| took.is_none_or(|took| took > 3 * SECOND);
        world.messages.iter().filter(|own| own.took.iter().any(is_late)).count()
    });
    let late: Vec<usize> = late.collect();
    assert!(late.iter().sum::<usize>() < 34, "{late:?}");
}

/// Messages of 2,100 B with a lifetime of 15 s, one in two seconds, to three members over 5 Mbit/s, after 20 s over
/// 60 kbit/s, with this path MTU from a second on.
fn narrow_with_black_hole(models: &[ModelId], hole_at: u64) -> World {
    let mut own = config(models);
    own.targets.delivery_ratio = None;
    own.lifetime = Some(Span::from_s(15));
    let wide = Network { delay: 2 * MS, queue: 150e3, ..rate(5e6) };
    let mut world = World::new(&own, PerformanceMap::shipped(), 3, wide, 1);
    world.answer = 2_100;
    world.sends(2 * SECOND, 2_000 * MS, 60, 2_100);
    world.network_at(20 * SECOND, rate(60e3));
    world.network_at(hole_at * SECOND, Network { mtu: 700, ..rate(60e3) });
    world
}

/// A path becomes 80 times narrower, and then drops long packets. The search for the packet size ended after
/// 0.3 s by the former round trip, and ignored the answers that came later; and as messages are late only after their
/// deadline there, it began again after minutes or never: from 35 s on no message arrived.
#[test]
fn a_black_hole_on_a_path_that_has_become_narrow_is_left() {
    for models in [&[ModelId::UdpArq][..], &[ModelId::MulticastFec], &[]] {
        for hole_at in [25, 35] {
            let mut world = narrow_with_black_hole(models, hole_at);
            world.run(140 * SECOND);
            let is_late = |took: &Option<u64>| took.is_none_or(|took| took > 15 * SECOND);
            let late = (0..60).filter(|n| world.messages[*n].took.iter().any(is_late));
            let late: Vec<usize> = late.collect();
            eprintln!("{models:?}, hole at {hole_at} s: {late:?} late");
            assert!(late.iter().all(|n| *n < 45), "{models:?} {hole_at} {late:?}");
        }
    }
}

/// The session changed its model 0.3 s after the path had become narrow: nothing had come back, and that counted
/// as the model's failure.
#[test]
fn a_collapse_of_the_path_is_no_fault_of_the_model() {
    let mut world = narrow_with_black_hole(&[], 200);
    world.run(19 * SECOND);
    assert_eq!(world.hub.explain().model, ModelId::MulticastFec);
    for tenth in 200..230 {
        world.run(tenth * 100 * MS);
        assert_eq!(world.hub.explain().model, ModelId::MulticastFec, "{tenth}");
    }
}
