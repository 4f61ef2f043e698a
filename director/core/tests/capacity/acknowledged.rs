//! Messages that members only acknowledge, over paths that nothing is known of.

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

/// Messages of 1,700 B to `to` every `every` ns, over a radio that follows `before` at 2 s: their mean time in
/// ms, the share of acknowledgements by 30 s, and the frames on the wire.
fn publish(
    models: &[ModelId],
    before: Network,
    to: &[u32],
    every: u64,
    seed: u64,
) -> (f64, f64, u64) {
    let key = Security::Key(b"a key that both ends have".to_vec());
    let mut config = Config::new(Pattern::PublishSubscribe, key);
    config.models = models.to_vec();
    config.assumed.mtu = 113.0;
    let mut world = World::new(&config, PerformanceMap::shipped(), 6, before, seed);
    world.network_at(2 * SECOND, RADIO);
    world.to = to.to_vec();
    world.sends(3 * SECOND, every, 40, 1_700);
    world.run(3 * SECOND + 40 * every + 30 * SECOND);
    let receivers: Vec<usize> = match to {
        [] => (0..6).collect(),
        to => to.iter().map(|member| *member as usize).collect(),
    };
    let all = world.messages.iter().flat_map(|own| receivers.iter().map(|one| own.took[*one]));
    let took: Vec<f64> = all.map(|took| took.unwrap_or(30 * SECOND) as f64 / 1e6).collect();
    let there = took.iter().filter(|ms| **ms < 30e3).count() as f64 / took.len() as f64;
    let mean = took.iter().sum::<f64>() / took.len() as f64;
    eprintln!(
        "{models:?} to {to:?}, seed {seed}: {mean:.0} ms, {there:.3}, {} frames, {} dropped, {}",
        world.frames,
        world.dropped(),
        world.hub.explain()
    );
    (mean, there, world.frames)
}

#[test]
fn a_path_that_becomes_slow_is_not_flooded_with_messages() {
    let fast = Network { delay: 3_000, loss: 0.0, mtu: 1_500, ..crate::rate(1e10) };
    for models in [&[ModelId::MulticastFec][..], &[ModelId::UdpArq], &[]] {
        for (to, every) in [(&[4][..], 500 * MS), (&[][..], SECOND)] {
            for seed in 1..4 {
                let (least, all, few) = publish(models, RADIO, to, every, seed);
                let (mean, there, frames) = publish(models, fast, to, every, seed);
                println!("{least} {all} {few}, {mean} {there} {frames}");
            }
        }
    }
}
