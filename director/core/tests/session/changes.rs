//! Sessions that change their model, or have reason not to.

use crate::bed::*;
use director::{Conditions, Instant, ModelId, Pattern, Span};

/// Two successive prices fill four fifths of the channel. Queueing delays meanwhile are no reason
/// to change the model, or to invite all members again.
#[test]
fn a_full_channel_stays_with_what_fits() {
    let full = Conditions { messages_s: 1.0 / 60.0, ..constrained() };
    for seed in 1..4 {
        let mut bed = Bed::new(&config(Pattern::PublishCollect, full, &[]), 300, 0.3, seed);
        (0..2).for_each(|n| bed.at((40 + 60 * n) * SECOND, What::Send));
        bed.run(160 * SECOND, |_| vec![3; 1_699]);
        assert_eq!((bed.answers.len(), bed.hub.open_messages()), (600, 0), "seed {seed}");
        assert!(bed.changes.is_empty(), "{:?}", bed.changes);
        // A price takes about 1.17 MB at least; joining is less than a tenth of that.
        assert!(bed.bytes < 3_050_000, "{}", bed.bytes);
    }
}

/// After an outage of all members, multicast is not considered blocked.
#[test]
fn an_outage_is_no_proof_against_multicast() {
    let here = Conditions { rate_bit_s: 1e6, rtt: Span::from_ms(60), ..Conditions::default() };
    let models = [ModelId::UdpArq, ModelId::MulticastFec];
    for seed in 1..20 {
        let config = config(Pattern::PublishCollect, here, &models);
        let mut bed = Bed::new(&config, 12, 0.0, seed);
        (0..25).for_each(|n| bed.at(2 * SECOND + n * SECOND, What::Send));
        bed.at(10 * SECOND, What::Lose(100));
        bed.at(10 * SECOND + (seed + 20) * SECOND / 4, What::Lose(0));
        bed.run(60 * SECOND, |_| vec![3; 700]);
        let seen = bed.hub.explain();
        assert_eq!(bed.answers.len(), 25 * 12, "seed {seed}");
        assert!(seen.multicast, "seed {seed}: {seen}");
    }
}

/// Predictions follow the number of receivers.
#[test]
fn the_choice_knows_the_fan_out() {
    let here = Conditions { rate_bit_s: 1e6, rtt: Span::from_ms(60), ..Conditions::default() };
    let mut bed = Bed::new(&config(Pattern::PublishCollect, here, &[]), 60, 0.02, 5);
    let mut seen = Vec::new();
    for (phase, members) in [60, 1, 60].into_iter().enumerate() {
        let begin = (5 + 60 * phase as u64) * SECOND;
        bed.at(begin - SECOND, What::Reach(members));
        (0..12).for_each(|n| bed.at(begin + n * 4 * SECOND, What::Send));
        bed.run(begin + 55 * SECOND, |_| vec![3; 700]);
        let output = bed.hub.explain();
        let cost = output.decision.and_then(|decision| decision.costs.0).unwrap();
        seen.push((output.conditions.group, cost));
    }
    let [(all, first), (one, alone), (again, last)] = seen[..] else { panic!("{seen:?}") };
    assert_eq!((all, one, again), (60.0, 1.0, 60.0));
    assert!(3.0 * alone < first.min(last), "{seen:?}");
    assert_eq!(bed.answers.len(), 12 * (60 + 1 + 60));
}

/// A channel whose rate drops and recovers is used as before.
#[test]
fn what_the_channel_carries_again_is_used_again() {
    let here = Conditions { rate_bit_s: 1e6, rtt: Span::from_ms(60), ..Conditions::default() };
    let config = config(Pattern::PublishCollect, here, &[ModelId::MulticastFec]);
    for narrow in [250_000, 300_000, 400_000] {
        let mut bed = Bed::new(&config, 20, 0.0, 5);
        (0..45).for_each(|n| bed.at((2 + 2 * n) * SECOND, What::Send));
        bed.at(21 * SECOND, What::Carry(narrow));
        bed.at(51 * SECOND, What::Carry(1_000_000));
        bed.run(120 * SECOND, |_| vec![3; 700]);
        let took = |messages: std::ops::Range<u64>| {
            messages.map(|message| bed.took[&message]).sum::<u64>() as f64
        };
        let (before, after) = (took(4..9), took(39..44));
        assert!(after < 1.1 * before, "{narrow}: {before} {after}");
    }
}

/// The path MTU can shrink and grow while messages are in flight.
#[test]
fn packets_follow_what_the_way_takes() {
    for model in [ModelId::UdpArq, ModelId::MulticastFec] {
        let here = Conditions { rate_bit_s: 2e6, rtt: Span::from_ms(60), ..Conditions::default() };
        let mut bed = Bed::new(&config(Pattern::PublishCollect, here, &[model]), 4, 0.05, 3);
        (0..15).for_each(|n| bed.at((3 + 2 * n) * SECOND, What::Send));
        let mut longest = Vec::new();
        for (at, bytes) in [(0, 9_000), (10, 300), (20, 1_200)] {
            bed.at(at * SECOND, What::Packets(bytes));
            // Messages in flight keep their encoding.
            bed.run((at + 4) * SECOND, |_| vec![3; 3_000]);
            bed.longest = 0;
            bed.run((at + 10) * SECOND - 1, |_| vec![3; 3_000]);
            longest.push(bed.longest);
        }
        bed.run(60 * SECOND, |_| vec![3; 3_000]);
        let [first, narrow, wider] = longest[..] else { panic!() };
        assert!((1_000..=1_472).contains(&first), "{model}: no more than was said: {first}");
        assert!((200..=272).contains(&narrow) && (700..=1_172).contains(&wider), "{longest:?}");
        assert_eq!(bed.answers.len(), 60, "{model}");
    }
}

#[cfg(feature = "quic")]
#[test]
fn changes_under_loss_lose_nothing_and_double_nothing() {
    let lossy =
        Conditions { loss: 0.3, rate_bit_s: 2e6, rtt: Span::from_ms(60), ..Conditions::default() };
    let models = [ModelId::UdpArq, ModelId::MulticastFec, ModelId::QuicStreams];
    for seed in 1..3 {
        let config = config(Pattern::PublishCollect, lossy, &models);
        let mut bed = Bed::new(&config, 5, 0.3, seed);
        (0..60).for_each(|n| bed.at(3 * SECOND + n * SECOND / 3, What::Send));
        (0..10).for_each(|n| {
            bed.at(4 * SECOND + n * 2 * SECOND, What::Change(models[n as usize % 3]))
        });
        bed.run(200 * SECOND, |n| vec![n as u8; 700]);
        assert!(bed.changes.len() >= 8, "{:?}", bed.changes);
        for had in &bed.had {
            let mut numbers: Vec<u8> = had.iter().map(|bytes| bytes[0]).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..60).collect::<Vec<u8>>(), "seed {seed}");
        }
        assert_eq!(bed.answers.len(), 300, "seed {seed}");
        assert_eq!(bed.hub.open_messages(), 0);
    }
}

/// QUIC opens a connection per epoch and member, so each change has two at a time.
#[cfg(feature = "quic")]
#[test]
fn epochs_of_quic_do_not_mix() {
    let here = Conditions { rate_bit_s: 2e6, rtt: Span::from_ms(60), ..Conditions::default() };
    let models = [ModelId::QuicStreams, ModelId::QuicDatagrams];
    let mut bed = Bed::new(&config(Pattern::RequestResponse, here, &models), 3, 0.0, 5);
    (0..60).for_each(|n| bed.at(SECOND + n * SECOND / 5, What::Send));
    (0..12).for_each(|n| bed.at(SECOND + (n + 1) * SECOND, What::Change(models[n as usize % 2])));
    bed.run(60 * SECOND, |n| vec![n as u8; 300]);
    assert!(bed.changes.len() >= 10, "{:?}", bed.changes);
    assert!(bed.had.iter().all(|had| had.len() == 60), "{}", bed.had[0].len());
    assert_eq!((bed.answers.len(), bed.hub.open_messages()), (180, 0));
}

/// A message that does not fit goes over another model, if there is one.
#[cfg(feature = "quic")]
#[test]
fn a_message_that_is_too_long_for_the_model_goes_by_another() {
    let here = Conditions { rate_bit_s: 2e6, ..Conditions::default() };
    let models = [ModelId::QuicDatagrams, ModelId::QuicStreams];
    let mut bed = Bed::new(&config(Pattern::RequestResponse, here, &models), 3, 0.0, 5);
    bed.at(SECOND, What::Change(ModelId::QuicDatagrams));
    (2..8).for_each(|n| bed.at(n * SECOND, What::Send));
    bed.run(30 * SECOND, |n| vec![n as u8; if n < 3 { 500 } else { 5_000 }]);
    assert_eq!(bed.changes.last(), Some(&(ModelId::QuicDatagrams, ModelId::QuicStreams)));
    assert_eq!((bed.answers.len(), bed.hub.open_messages()), (18, 0));
    // With a single model the error names the reason, also for small packets.
    let only = config(Pattern::RequestResponse, here, &models[..1]);
    let small = Conditions { mtu: 500.0, ..here };
    let narrow = config(Pattern::RequestResponse, small, &models[1..]);
    for (config, length, word) in [(only, 5_000, "at most"), (narrow, 50, "too small")] {
        let mut hub = hub(&config, 3, 7);
        let why = hub.send(&vec![1; length], Instant::from_ns(0)).unwrap_err().to_string();
        assert!(why.contains("cannot carry the message") && why.contains(word), "{why}");
        assert_eq!(hub.open_messages(), 0);
    }
}

/// QUIC is never tried with small packets, however badly other models perform.
#[test]
fn small_packets_are_not_for_quic() {
    for mtu in [127.0, 500.0] {
        let here = Conditions { mtu, ..constrained() };
        let models = [ModelId::UdpArq, ModelId::QuicStreams, ModelId::QuicDatagrams];
        let mut bed = Bed::new(&config(Pattern::PublishCollect, here, &models), 3, 0.6, 5);
        (0..20).for_each(|n| bed.at(n * 5 * SECOND, What::Send));
        bed.run(200 * SECOND, |_| vec![7; 300]);
        assert!(bed.changes.is_empty(), "{:?}", bed.changes);
        assert!(bed.hub.explain().to_string().starts_with("udp-arq"));
    }
}

/// A stack that delivers nothing looks like an outage, except that datagrams arrive.
#[test]
fn a_stack_that_dies_is_left_and_nothing_is_lost() {
    let here = Conditions { rate_bit_s: 2e6, rtt: Span::from_ms(20), ..Conditions::default() };
    for model in OUTSIDE {
        for pattern in
            [Pattern::RequestResponse, Pattern::PublishCollect, Pattern::PublishSubscribe]
        {
            if !model.features().patterns.contains(&pattern) {
                continue;
            }
            let config = config(pattern, here, &[ModelId::UdpArq, model]);
            let mut bed = Bed::new(&config, 4, 0.0, 3);
            bed.at(SECOND / 2, What::Change(model));
            (0..20).for_each(|n| bed.at(SECOND + n * SECOND / 4, What::Send));
            bed.at(3 * SECOND, What::Stop);
            bed.run(30 * SECOND, |n| vec![n as u8; 400]);
            let had: Vec<usize> = bed.had.iter().map(Vec::len).collect();
            let output = bed.hub.explain().to_string();
            assert_eq!(had, [20; 4], "{model} {pattern:?} {output}");
            assert!(bed.over.len() == 20 && bed.over.values().all(|lacking| *lacking == 0));
            assert!(bed.changes.iter().any(|(from, _)| *from == model), "{:?}", bed.changes);
            assert!(output.starts_with("udp-arq"), "{model} {pattern:?} {output}");
        }
    }
}
