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
        assert!(all[0] < 15.0 && all[2] < 4.0, "{all:?}");
    }
}
