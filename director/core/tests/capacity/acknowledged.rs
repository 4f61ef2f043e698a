//! Messages that members only acknowledge, over a path that becomes far slower once they have joined.

use crate::network::{MS, Network, SECOND, World};
use director::session::{Config, Security};
use director::{ModelId, Pattern, PerformanceMap};

/// IEEE 802.15.4: 250 kbit/s for all ends, packets of 113 bytes.
const RADIO: Network = Network {
    down_bit_s: 250e3,
    up_bit_s: 250e3,
    delay: MS,
    jitter: 0,
    loss: 0.02,
    queue: 64e3,
    mtu: 113,
    multicast: true,
    cross: 0.0,
    shared: true,
};

/// Messages of 1,700 B to `to`, or to all six members, over a radio that follows a wire at 2 s.
/// Returns their mean time in ms, and the frames on the wire.
fn publish(models: &[ModelId], to: &[u32], seed: u64) -> (f64, World) {
    let key = Security::Key(b"a key that both ends have".to_vec());
    let mut config = Config::new(Pattern::PublishSubscribe, key);
    config.models = models.to_vec();
    config.assumed.mtu = 113.0;
    let wire = Network { delay: 3_000, ..crate::rate(1e10) };
    let mut world = World::new(&config, PerformanceMap::shipped(), 6, wire, seed);
    world.network_at(2 * SECOND, RADIO);
    world.to = to.to_vec();
    world.sends(3 * SECOND, SECOND, 40, 1_700);
    world.run(73 * SECOND);
    let receivers = if to.is_empty() { 6 } else { to.len() };
    let all = world.messages.iter().flat_map(|own| own.took.iter().flatten());
    let took: Vec<f64> = all.map(|took| *took as f64 / 1e6).collect();
    assert_eq!((took.len(), world.duplicates), (40 * receivers, 0));
    (took.iter().sum::<f64>() / took.len() as f64, world)
}

/// The round trip of the wire was the only thing that multicast with acknowledgements ever learned, so
/// that it sent 1 Gbit/s over the radio until the end. In nodes, where queues drop, a reading took up to
/// 9 s.
#[test]
fn the_rate_of_a_slow_path_is_found_from_acknowledgements() {
    for models in [&[ModelId::MulticastFec][..], &[]] {
        for to in [&[4][..], &[]] {
            for seed in 1..6 {
                let (mean, world) = publish(models, to, seed);
                let rate = world.hub.explain().conditions.rate_bit_s;
                eprintln!("{models:?} to {to:?}, seed {seed}: {mean:.0} ms, {rate:.0} bit/s");
                // A message takes 90 ms of the channel, and ten packets may always go in a round trip.
                assert!(mean < 180.0 && rate < 2e6, "{mean} ms, {rate} bit/s");
            }
        }
    }
}

/// Messages of 1,000 B per second to six members, with 32 of them in flight, over a path of 10 ms.
fn throughput(bit_s: f64) -> f64 {
    let key = Security::Key(b"a key that both ends have".to_vec());
    let mut config = Config::new(Pattern::PublishSubscribe, key);
    config.models = vec![ModelId::MulticastFec];
    let network = Network { delay: 5 * MS, ..crate::rate(bit_s) };
    let mut world = World::new(&config, PerformanceMap::shipped(), 6, network, 1);
    world.keeps(SECOND, 32, 1_000);
    world.run(7 * SECOND);
    let done = world.messages.iter().filter(|own| own.took.iter().all(Option::is_some));
    done.count() as f64 / 6.0
}

/// Ten packets in a round trip were the limit: 1,180 messages/s at 100 Mbit/s.
#[test]
fn a_fast_path_is_used() {
    let each = [10e6, 100e6].map(throughput);
    eprintln!("{each:?} messages/s");
    assert!(each[0] > 700.0 && each[1] > 2_000.0, "{each:?}");
}
