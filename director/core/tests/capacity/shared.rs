//! Members that publish over a slow half-duplex channel which all ends share.

use crate::config;
use crate::network::{MS, Network, SECOND, World};
use director::{ModelId, PerformanceMap};

/// 18 of 34 kbit/s, and no rate configured. Messages of members used to be repeated before their
/// replies could arrive, so that the channel was full and replies came later still: 12.7 s and 345 kB.
#[test]
fn messages_of_members_are_not_repeated_while_their_replies_are_on_their_way() {
    let channel = Network {
        down_bit_s: 34e3,
        up_bit_s: 34e3,
        delay: MS,
        mtu: 400,
        shared: true,
        loss: 0.02,
        ..Network::default()
    };
    let mut config = config(&[ModelId::UdpArq, ModelId::MulticastFec]);
    config.assumed.mtu = 400.0;
    for seed in 1..6 {
        let mut world = World::new(&config, PerformanceMap::shipped(), 6, channel, seed);
        for member in 0..3 {
            let first = 20 * SECOND + u64::from(member) * 600 * MS;
            world.publishes(member, first, 2 * SECOND, 30, 100);
        }
        (3..5).for_each(|member| world.publishes(member, 20 * SECOND, SECOND, 60, 717));
        world.run(100 * SECOND);
        let took: Vec<u64> = world.published.iter().filter_map(|(_, took)| *took).collect();
        let mean = took.iter().sum::<u64>() / took.len() as u64;
        eprintln!("seed {seed}: {} ms, {} bytes", mean / MS, world.bytes);
        assert_eq!((took.len(), world.published.len(), world.duplicates), (210, 210, 0));
        assert!(mean < 1_000 * MS, "{mean}");
        assert!(world.bytes < 220_000, "{}", world.bytes);
    }
}
