//! Members that publish over a slow half-duplex channel which all ends share.

use crate::config;
use crate::network::{MS, Network, SECOND, World};
use director::{ModelId, PerformanceMap, Span};

/// 34 kbit/s for all, where packets of 400 bytes pass.
const CHANNEL: Network = Network {
    down_bit_s: 34e3,
    up_bit_s: 34e3,
    delay: MS,
    jitter: 0,
    loss: 0.02,
    queue: 64e3,
    mtu: 400,
    multicast: true,
    cross: 0.0,
    shared: true,
};

/// Members publish from 20 s on, with 18 kbit/s; no rate is configured. The network is another one
/// until 15 s, when members have published already.
/// Returns the mean time until the hub has a message, and all bytes.
fn publish(before: Network, seed: u64) -> (Span, u64) {
    let mut config = config(&[ModelId::UdpArq, ModelId::MulticastFec]);
    config.assumed.mtu = 400.0;
    let mut world = World::new(&config, PerformanceMap::shipped(), 6, before, seed);
    (0..6).for_each(|member| world.publishes(member, 10 * SECOND, 500 * MS, 6, 100));
    world.network_at(15 * SECOND, CHANNEL);
    for member in 0..3 {
        let first = 20 * SECOND + u64::from(member) * 600 * MS;
        world.publishes(member, first, 2 * SECOND, 30, 100);
    }
    (3..5).for_each(|member| world.publishes(member, 20 * SECOND, SECOND, 60, 717));
    world.run(100 * SECOND);
    let took: Vec<u64> = world.published.iter().filter_map(|(_, took)| *took).collect();
    let mean = Span::from_ns(took.iter().sum::<u64>() / took.len() as u64);
    eprintln!("seed {seed}: {} ms, {} bytes", mean.as_ms(), world.bytes);
    assert_eq!((took.len(), world.published.len(), world.duplicates), (246, 246, 0));
    (mean, world.bytes)
}

/// Messages of members used to be repeated before their replies could arrive, so that the channel was
/// full and replies came later still: 12.7 s and 345 kB in place of 0.4 s and 180 kB.
#[test]
fn messages_of_members_are_not_repeated_while_their_replies_are_on_their_way() {
    for seed in 1..6 {
        let (mean, bytes) = publish(CHANNEL, seed);
        assert!(mean < Span::from_s(1) && bytes < 250_000);
    }
}

/// Timeouts of the fast network were doubled five times at most, and stayed shorter than the slow
/// one's round trip: 86 of 246 messages arrived, and 3.4 MB were sent. Later, all chunks of a message were
/// repeated eight times before the first reply: 2.3 to 2.6 s on average.
#[test]
fn a_path_that_becomes_ten_thousand_times_slower_is_not_flooded() {
    let fast = Network { mtu: 1_500, ..crate::rate(1e9) };
    let fast = Network { delay: MS / 10, ..fast };
    for seed in 1..6 {
        let ((_, slow), (mean, bytes)) = (publish(CHANNEL, seed), publish(fast, seed));
        assert!(mean < Span::from_s(2) && 5 * bytes < 6 * slow);
    }
}

/// The hub sends messages and gets answers over 50 kbit/s, after a few over `before`. Returns their mean
/// cost in ms, the share of answers, and all bytes.
fn collect(model: ModelId, before: Network) -> (f64, f64, u64) {
    let slow = Network { mtu: 500, delay: 20 * MS, ..crate::rate(50e3) };
    let mut config = config(&[model]);
    config.assumed.mtu = 500.0;
    let mut world = World::new(&config, PerformanceMap::shipped(), 2, before, 1);
    world.network_at(15 * SECOND, slow);
    world.sends(5 * SECOND, SECOND, 3, 1_010);
    world.sends(16 * SECOND, 2 * SECOND, 15, 1_010);
    world.run(90 * SECOND);
    let (cost, share) = world.cost(30 * SECOND);
    eprintln!("{model:?}: {cost} ms, {share}, {} bytes", world.bytes);
    (cost, share, world.bytes)
}

/// `multicast-fec` requested answers every 2 ms, the round trip of the fast network, so that they
/// waited behind requests: 6.1 s for a message, and 477 kB.
#[test]
fn answers_are_not_requested_while_they_are_on_their_way() {
    let slow = Network { mtu: 500, delay: 20 * MS, ..crate::rate(50e3) };
    let fast = Network { mtu: 1_500, delay: MS / 10, ..crate::rate(1e9) };
    for model in [ModelId::MulticastFec, ModelId::UdpArq] {
        let (least, _, few) = collect(model, slow);
        let (cost, share, bytes) = collect(model, fast);
        assert_eq!(share, 1.0);
        assert!(cost < 1.5 * least && bytes < 2 * few, "{cost} {least}, {bytes} {few}");
    }
}
