//! Whole sessions in virtual time: a hub and members over a shared, lossy channel, with model
//! changes while messages are in flight.

mod bed;
mod changes;
mod chosen;
mod faults;
mod foreign;
mod handshakes;
mod hub_stored;
mod in_flight;
mod insider;
mod joining;
mod keep_alive;
mod large;
mod narrow;
mod off;
mod overtaken;
mod pair;
mod proofs;
mod rejected;
mod replays;
mod restarts;
mod stored;
mod topics;
mod uplink;

use bed::*;
use director::{Conditions, ModelId, Pattern, Span};

/// Short messages over a bad network with many seeds, while multicast reaches all, some or no
/// members: all members answer each message in time.
#[test]
fn no_draw_of_chance_holds_a_session_up() {
    let here = Conditions { payload: 20.0, ..constrained() };
    for seed in 1..400 {
        let mut bed = Bed::new(&config(Pattern::PublishCollect, here, &[]), 4, 0.3, seed);
        bed.unreachable = (seed % 5) as u32;
        bed.at(10 * SECOND, What::Send);
        bed.run(70 * SECOND, |_| vec![7; 21]);
        let output = bed.hub.explain();
        assert!(bed.hub.is_ready(), "seed {seed}: {} are absent", bed.hub.absent().count());
        assert_eq!(
            (bed.answers.len(), bed.over.get(&0)),
            (4, Some(&0)),
            "seed {seed}: {output} {:?}",
            bed.changes
        );
    }
}

#[test]
fn each_model_carries_each_pattern_that_it_serves() {
    let quiet = Conditions { rate_bit_s: 2e6, rtt: Span::from_ms(60), ..Conditions::default() };
    for model in director::carrier::available().into_iter().chain(OUTSIDE) {
        for pattern in
            [Pattern::PublishSubscribe, Pattern::PublishCollect, Pattern::RequestResponse]
        {
            if !model.features().patterns.contains(&pattern) {
                continue;
            }
            let config = config(pattern, quiet, &[model]);
            let mut bed = Bed::new(&config, 4, 0.0, 3);
            (0..20).for_each(|n| bed.at(SECOND + n * SECOND / 10, What::Send));
            bed.run(20 * SECOND, |n| vec![n as u8; 400]);
            let had: Vec<usize> = bed.had.iter().map(Vec::len).collect();
            assert_eq!(had, [20; 4], "{model} {pattern:?}");
            assert_eq!(bed.over.len(), 20, "{model} {pattern:?}");
            assert!(bed.over.values().all(|lacking| *lacking == 0));
        }
    }
}

/// One member needs no multicast, which is blocked here. The round-trip estimate is right.
#[test]
fn one_member_hears_all_alone() {
    let here = Conditions { rate_bit_s: 1e6, rtt: Span::from_ms(300), ..Conditions::default() };
    let config = config(Pattern::PublishCollect, here, &[ModelId::MulticastFec]);
    let mut bed = Bed::new(&config, 1, 0.1, 5);
    bed.unreachable = 1;
    (0..30).for_each(|n| bed.at(2 * SECOND + n * SECOND, What::Send));
    bed.run(60 * SECOND, |_| vec![3; 300]);
    assert_eq!(bed.answers.len(), 30);
    let seen = bed.hub.explain();
    assert!(seen.multicast, "{seen}");
    let trip = seen.conditions.rtt.as_ns() / 1_000_000;
    assert!((50..85).contains(&trip), "{seen}");
}
