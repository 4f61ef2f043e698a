//! A path that carries shorter packets than before, without a message that says so.

use super::{config, rate};
use crate::network::{Network, SECOND, World};
use director::{ModelId, PerformanceMap};

/// Ten members over 100 kbit/s, of whose messages each needs two seconds; from 20 s on, packets of more than 900 B
/// vanish. What failed before: a search began only when a message was late, for `multicast-fec` after 16 s, and
/// this message and the next three took 15 to 35 s.
#[test]
fn members_that_receive_only_requests_start_a_search() {
    let network = Network { multicast: false, ..rate(100e3) };
    for seed in 1..=3 {
        let model = [ModelId::MulticastFec];
        let mut world = World::new(&config(&model), PerformanceMap::shipped(), 10, network, seed);
        world.network_at(20 * SECOND, Network { mtu: 900, ..network });
        world.sends(2 * SECOND, 6 * SECOND, 10, 2_000);
        world.run(100 * SECOND);
        let last = |took: &Vec<Option<u64>>| took.iter().map(|took| took.unwrap_or(u64::MAX)).max();
        let late = |n: usize| last(&world.messages[n].took).unwrap() as f64 / 1e9;
        let all: Vec<f64> = (3..7).map(late).collect();
        eprintln!("{all:.1?}");
        // Those after the first wait for it.
        assert!(all[0] < 12.5 && all[3] < 3.0 && all.iter().sum::<f64>() < 26.0, "{all:?}");
    }
}

/// What failed before: a packet size that was found once stayed for the rest of the session, because no
/// session tried larger packets again. The path has a black hole for 20 s.
#[test]
fn a_limit_ends() {
    let hole = |world: &mut World| {
        world.network_at(20 * SECOND, Network { mtu: 600, ..rate(1e6) });
        world.network_at(40 * SECOND, rate(1e6));
    };
    for model in [ModelId::MulticastFec, ModelId::UdpArq] {
        let mut world = World::new(&config(&[model]), PerformanceMap::shipped(), 5, rate(1e6), 3);
        hole(&mut world);
        world.sends(5 * SECOND, SECOND, 115, 1_400);
        world.run(38 * SECOND);
        assert_eq!(world.hub.explain().conditions.mtu, 576.0, "{model}");
        world.run(120 * SECOND);
        assert_eq!(world.hub.explain().conditions.mtu, 1_500.0, "{model}");
    }
}
