//! Small messages that share datagrams.

use crate::network::{MS, Network, SECOND, World};
use crate::{config, rate};
use director::{ModelId, PerformanceMap};

/// Answers per second to windows of 32 messages of 100 bytes, and frames per answer.
fn small(model: ModelId, members: usize, network: Network, seconds: u64) -> (f64, f64) {
    let mut world = World::new(&config(&[model]), PerformanceMap::shipped(), members, network, 11);
    world.keeps(2 * SECOND, 32, 100);
    world.run(2 * SECOND);
    let before = world.frames;
    world.run((2 + seconds) * SECOND);
    assert_eq!(world.duplicates, 0);
    let took = world.messages.iter().flat_map(|answers| &answers.took);
    let answers = took.filter(|took| took.is_some()).count() as f64;
    (answers / seconds as f64, (world.frames - before) as f64 / answers)
}

/// A message, its answer and the acknowledgement of the answer were a datagram each.
#[test]
fn small_messages_and_answers_share_datagrams() {
    let fast = Network { delay: MS / 2, ..rate(100e6) };
    let (answers, frames) = small(ModelId::UdpArq, 3, fast, 1);
    eprintln!("{answers:.0} answers/s, {frames:.2} frames each");
    assert!(frames < 0.5, "{frames}");
}

/// Packets of more than 300 bytes vanish, and no router says so. No message is so long, but bundles
/// are.
#[test]
fn a_path_that_drops_bundles_gets_shorter_ones() {
    let fast = Network { delay: MS / 2, ..rate(10e6) };
    let (whole, _) = small(ModelId::UdpArq, 2, fast, 20);
    let (narrow, frames) = small(ModelId::UdpArq, 2, Network { mtu: 300, ..fast }, 20);
    eprintln!("{whole:.0} answers/s, {narrow:.0} in packets of 300 bytes, {frames:.2} frames each");
    assert!(narrow > 0.5 * whole, "{narrow} {whole}");
}
