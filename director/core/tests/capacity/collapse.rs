//! A path that becomes far slower at once: what is asked for again must not be a queue that outlasts the messages.

use super::{config, rate};
use crate::network::{MS, Network, SECOND, World};
use director::{ModelId, PerformanceMap};

/// Fifty members with short answers over 8.5 Mbit/s, then a hundredth of it, which half of the answers fill. What
/// failed before: requests went to all members again and again before the first answer could be there, and answers
/// took 2.9 s.
#[test]
fn requests_without_a_response_go_to_a_few_members() {
    let network = |bit_s| Network { delay: 5 * MS, ..rate(bit_s) };
    let took = |seed| {
        let model = [ModelId::MulticastFec];
        let first = network(8.5e6);
        let mut world = World::new(&config(&model), PerformanceMap::shipped(), 50, first, seed);
        world.network_at(39 * SECOND, network(71e3));
        world.sends(2 * SECOND, 4 * SECOND, 20, 225);
        world.run(130 * SECOND);
        let after = &world.messages[10..];
        after.iter().map(|answers| answers.cost(20 * SECOND)).sum::<f64>() / after.len() as f64
    };
    let mean = (1..=4).map(took).sum::<f64>() / 4.0;
    eprintln!("{mean:.0} ms");
    assert!(mean < 1_500.0, "{mean}");
}

/// What failed before: answers that waited in the queue were asked for again, each time after the same pause, and
/// took 12 s.
#[test]
fn answers_that_take_as_long_as_the_last_ones_are_not_late() {
    let network = |bit_s| Network { delay: 10 * MS, multicast: false, queue: 500e3, ..rate(bit_s) };
    let took = |seed| {
        let model = [ModelId::MulticastFec];
        let first = network(8e6);
        let mut world = World::new(&config(&model), PerformanceMap::shipped(), 50, first, seed);
        world.network_at(60 * SECOND, network(290e3));
        world.sends(2 * SECOND, 12 * SECOND, 20, 3_200);
        world.run(300 * SECOND);
        let after = &world.messages[5..];
        after.iter().map(|answers| answers.cost(60 * SECOND)).sum::<f64>() / after.len() as f64
    };
    let mean = (1..=4).map(took).sum::<f64>() / 4.0;
    eprintln!("{mean:.0} ms");
    assert!(mean < 7_000.0, "{mean}");
}
