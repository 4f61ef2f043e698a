//! More messages than the path carries, with lifetimes shorter than their queue.

use crate::network::{MS, Network, SECOND, World};
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

/// The same for messages and answers of these sizes in bytes.
fn in_time_of(
    (message, answer): (usize, usize),
    models: &[ModelId],
    members: usize,
    offered: f64,
    lifetime: u64,
) -> f64 {
    let mut own = config(models);
    own.targets.delivery_ratio = None;
    own.lifetime = Some(Span::from_ns(lifetime));
    let network = Network { delay: 20 * MS, ..rate(BIT_S) };
    let mut world = World::new(&own, PerformanceMap::shipped(), members, network, 1);
    // A message goes to each member, or to all at once. The director chooses multicast here.
    let copies = if models == [ModelId::UdpArq] { members as f64 } else { 1.0 };
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
